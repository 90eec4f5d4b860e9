"""If these fail, whatever reaches the channel makes every node look at everything, or deaf."""

import asyncpg
import pytest

from detent.notifiers.wire import decode, encode, pass_on
from detent.spi.notifier import Hint, Wake
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.notifier import listening

DEEP = "[" * 3_000 + "]" * 3_000
UNREADABLE = ["", "nonsense", "[]", "{}", "5", "null", '[{"new": 1}]', "[[1, 2]]", DEEP]


@pytest.mark.parametrize("payload", UNREADABLE)
def test_what_cannot_be_read_is_not_passed_on(payload: str) -> None:
    heard: list[object] = []
    pass_on(payload, heard.append)
    pass_on(payload.encode(), heard.append)
    assert heard == []


def test_deep_json_is_no_wake_up() -> None:
    assert decode("[" * 100_000) == []


async def test_a_node_does_not_look_for_strange_payloads(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    sender = await asyncpg.connect(postgres_url)
    mail: list[Wake] = [Hint("mail")]
    async with listening(store.notifier) as ears:
        for payload in [*UNREADABLE, encode(mail)]:
            await sender.execute("SELECT pg_notify($1, $2)", store.channel, payload)
        await ears.until(*mail)
        assert ears.looks == 1
    await sender.close()
    await store.close()
