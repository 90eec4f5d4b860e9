"""If these fail, a job is not one with the transaction of the program that enqueued it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from detent import App, KeyTaken, Priority, Retry, State
from detent.config import Config
from detent.errors import KeyMismatch
from detent.spi.notifier import Hint, token_of
from tests.within.conftest import NEVER, Shop, declare, lite_shop
from tests.within.kinds import POSTGRES, SQLITE, Open

#: Texts that a driver might quote, encode or count wrongly.
AWKWARD = ["it's", 'a "b"', "\\x41 \\ {},", "%s %(p1)s %%", "$1", "NULL", "größe 🦉", "a\tb\nc"]


class Contract:
    """What every kind of connection has to keep."""

    kinds: ClassVar[Mapping[str, Open]]

    async def test_a_commit_brings_the_job_with_the_callers_work(
        self, shop: Shop, kind: str
    ) -> None:
        async with self.kinds[kind](shop.url) as caller:
            await caller.order("tea")
            job = await caller.enqueue(shop.send, "ada")
            assert await shop.ids() == [], "not committed yet"
            await caller.commit()
            assert await shop.ids() == [job.id]
            assert await shop.orders() == ["tea"]

    async def test_the_job_may_be_the_first_statement(self, shop: Shop, kind: str) -> None:
        """SQLAlchemy begins its transactions late: ours must not stand before them."""
        async with self.kinds[kind](shop.url) as caller:
            job = await caller.enqueue(shop.send, "ada")
            assert await shop.ids() == [], "not committed yet"
            await caller.order("tea")
            await caller.commit()
        assert await shop.ids() == [job.id]
        assert await shop.orders() == ["tea"]

    async def test_a_rollback_leaves_nothing(self, shop: Shop, kind: str) -> None:
        async with self.kinds[kind](shop.url) as caller:
            await caller.enqueue(shop.send, "ada")
            await caller.enqueue(shop.send, "ada", key="k", unique="u")
            await caller.order("tea")
            await caller.enqueue_many(shop.app, [shop.send.bind("bob")] * 3)
            await caller.rollback()
        assert await shop.ids() == []
        assert await shop.orders() == []
        assert (await shop.send.options(key="k", unique="u").enqueue("ada")).created

    async def test_sinks_hear_of_what_was_replaced_with_the_commit(
        self, shop: Shop, kind: str
    ) -> None:
        shop.app.sink("crm", lambda _event: None)
        held = await shop.send.options(unique="u").enqueue("ada")
        async with self.kinds[kind](shop.url) as caller:
            await caller.enqueue(shop.send, "bob", unique="u", on_conflict="replace")
            assert await shop.app.outbox.list() == [], "not committed yet"
            await caller.commit()
        assert [info.event.job for info in await shop.app.outbox.list()] == [held.id]

    async def test_a_taken_key_does_not_spoil_the_transaction(self, shop: Shop, kind: str) -> None:
        held = await shop.send.options(unique="größe 'u'").enqueue("ada")
        known = await shop.send.options(key="k").enqueue("ada")
        async with self.kinds[kind](shop.url) as caller:
            unique = {"unique": "größe 'u'"}
            with pytest.raises(KeyTaken) as taken:
                await caller.enqueue(shop.send, "bob", **unique)
            assert taken.value.job_id == held.id
            await caller.order("tea")
            same = await caller.enqueue(shop.send, "bob", **unique, on_conflict="return")
            assert (same.id, same.created) == (held.id, False)
            with pytest.raises(KeyMismatch) as other:
                await caller.enqueue(shop.send, "bob", key="k")
            assert (other.value.job_id, other.value.task) == (known.id, shop.send.name)
            same = await caller.enqueue(shop.send, "bob", key="k", on_key_mismatch="return")
            assert (same.id, same.created) == (known.id, False)
            same = await caller.enqueue(shop.send, "ada", key="k")
            assert (same.id, same.created) == (known.id, False)
            # Both keys at once: the one that was free stays free.
            with pytest.raises(KeyTaken):
                await caller.enqueue(shop.send, "bob", **unique, key="free")
            newer = await caller.enqueue(shop.send, "bob", **unique, on_conflict="replace")
            assert newer.created
            await caller.commit()
        assert await shop.orders() == ["tea"]
        assert (await held.info()).state is State.CANCELED
        assert await shop.ids() == sorted([held.id, known.id, newer.id])
        assert (await shop.send.options(key="free").enqueue("bob")).created

    async def test_a_job_is_stored_as_without_a_transaction(self, shop: Shop, kind: str) -> None:
        everything: dict[str, Any] = {
            "at": datetime(2031, 5, 1, 12, 0, 0, 123457, tzinfo=UTC),
            "priority": Priority.CRITICAL,
            "tags": AWKWARD[:-1],
            "params": {text: text for text in AWKWARD},
            "retry": Retry(max_attempts=2),
            "timeout": 1.5,
            "needs": "gpu",
        }
        later: dict[str, Any] = {"delay": timedelta(days=1), "queue": "mail", "key": "kök '%s'"}
        options: list[dict[str, Any]] = [{}, everything]
        calls = [shop.send.options(**each).bind("ada", body=AWKWARD) for each in options]
        plain = [await shop.app.enqueue(call) for call in calls]
        async with self.kinds[kind](shop.url) as caller:
            ours = [await caller.enqueue(shop.send, "ada", AWKWARD, **each) for each in options]
            batch = await caller.enqueue_many(shop.app, calls)
            late = await caller.enqueue(shop.send, "ada", AWKWARD, **later)
            await caller.commit()
        expected = [_facts(await job.info()) for job in plain]
        assert [_facts(await job.info()) for job in ours] == expected
        assert [_facts(await job.info()) for job in batch] == expected
        info = await late.info()
        assert (info.queue, info.idempotency_key) == ("mail", "kök '%s'")
        assert timedelta(hours=23) < info.due_at - info.enqueued_at < timedelta(hours=25)

    async def test_many_jobs_are_one_with_the_transaction(self, shop: Shop, kind: str) -> None:
        calls = [shop.send.bind(f"user {number}") for number in range(1_001)]
        async with self.kinds[kind](shop.url) as caller:
            jobs = await caller.enqueue_many(shop.app, calls)
            assert await shop.ids() == []
            await caller.commit()
        stored = sorted([(info.id, info.args) async for info in shop.app.jobs.each()])
        assert [row[0] for row in stored] == [job.id for job in jobs]
        assert [b'"user %d"' % number in row[1] for number, row in enumerate(stored)] == [
            True
        ] * 1_001


def _facts(info: Any) -> dict[str, Any]:
    """What does not differ between two jobs that were enqueued alike."""
    facts = {name: getattr(info, name) for name in info.__slots__ if not name.endswith("id")}
    del facts["enqueued_at"]
    if facts["priority"] is not Priority.CRITICAL:
        del facts["due_at"]  # now, which is never the same
    return facts


@pytest.mark.parametrize("kind", POSTGRES)
class TestPostgres(Contract):
    """On PostgreSQL."""

    kinds = POSTGRES

    async def test_a_commit_wakes_the_nodes(
        self, shop: Shop, kind: str, woken: asyncio.Queue[Any]
    ) -> None:
        async with self.kinds[kind](shop.url) as caller:
            job = await caller.enqueue(shop.send, "ada")
            assert woken.empty()
            await caller.commit()
            hint = await asyncio.wait_for(woken.get(), 10)
        assert hint == Hint("default", 2, (await job.info()).due_at, job.id, token_of(job.id))


@pytest.mark.parametrize("kind", SQLITE)
class TestSqlite(Contract):
    """On SQLite."""

    kinds = SQLITE

    @pytest.fixture
    async def shop(self, tmp_path: Path) -> AsyncIterator[Shop]:
        async with lite_shop(tmp_path / "shop.db") as shop:
            yield shop

    async def test_a_commit_wakes_the_nodes(self, shop: Shop, kind: str) -> None:
        app = App(config=replace(Config.load(shop.url), polling=NEVER))
        task = declare(app)
        async with app, app.node():
            await (await task.enqueue("warm")).result(timeout=30)
            async with self.kinds[kind](shop.url) as caller:
                job = await caller.enqueue(shop.send, "ada")
                await caller.commit()
                assert await job.result(timeout=10) == "ada"
