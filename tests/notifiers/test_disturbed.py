"""If these fail, a node that lost its line to the others sleeps on, and nobody knows."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from detent.errors import ConfigError
from detent.notifiers import carried, endurance
from detent.notifiers import nats as nats_module
from detent.notifiers import redis as redis_module
from detent.notifiers.nats import NatsNotifier, servers_in
from detent.notifiers.none import NoNotifier
from detent.notifiers.redis import RedisNotifier
from detent.spi.notifier import Hint, Notifier
from detent.stores.postgres import PostgresStore
from detent.stores.postgres import notifier as postgres_module
from detent.testing.conformance.notifier import Ears, listening
from tests.chaos.proxy import FaultProxy
from tests.notifiers.servers import Nats, Server, Valkey

KINDS = ["redis", "nats", "postgres"]
MAIL = Hint("mail")


class Open:
    """Makes notifiers, and closes them at the end."""

    def __init__(self) -> None:
        self._close: list[Callable[[], Any]] = []

    def __call__(self, url: str, **options: Any) -> Notifier:
        if url.startswith("postgres"):
            store = PostgresStore(url, **options)
            self._close.append(store.close)
            return store.notifier
        notifier = (RedisNotifier if url.startswith("redis") else NatsNotifier)(url)
        self._close.append(notifier.close)
        return notifier

    async def close(self) -> None:
        for close in self._close:
            await close()


class CountingProxy(FaultProxy):
    """Counts what goes through, in either direction."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._passed = asyncio.Condition()
        self._count = 0

    async def until_passed(self, messages: int) -> None:
        """Wait until so many more have gone through."""
        async with asyncio.timeout(20), self._passed:
            wanted = self._count + messages
            await self._passed.wait_for(lambda: self._count >= wanted)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counted = asyncio.StreamReader()
        pumping = asyncio.create_task(super()._pump(counted, writer))
        try:
            while data := await reader.read(1 << 16):
                counted.feed_data(data)
                async with self._passed:
                    self._count += 1
                    self._passed.notify_all()
            counted.feed_eof()
            await pumping
        finally:
            pumping.cancel()


@pytest.fixture
async def open_notifier() -> AsyncIterator[Open]:
    opened = Open()
    yield opened
    await opened.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str:
    if kind == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(request.getfixturevalue("valkey" if kind == "redis" else "nats").url)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a connection count as dead after a short silence, not after 13 seconds.

    Not too short: a machine that others use may hold up us, or the server, for a while.
    """
    for module in (redis_module, nats_module, postgres_module):
        monkeypatch.setattr(module, "PING", 0.1)
        monkeypatch.setattr(module, "PONG", 2.0)
    monkeypatch.setattr(carried, "PATIENCE", 0.5)
    monkeypatch.setattr(postgres_module, "CONNECT", 2.0)


def test_a_half_open_connection_is_found_soon_enough() -> None:
    assert endurance.PING + endurance.PONG <= 15


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_was_cut_is_made_again(
    kind: str, url: str, open_notifier: Open
) -> None:
    async with FaultProxy(url) as proxy, listening(open_notifier(proxy.url)) as ears:
        for times in (1, 2, 3):
            proxy.hang_up()
            await ears.until(silences=times, looks=times + 1)
            hint = Hint(f"mail-{times}")
            open_notifier(url).publish([hint])
            await ears.until(hint)
        assert len(ears.silences) == 3, "told once each time"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("_impatient")
async def test_a_connection_that_swallows_everything_is_given_up(
    kind: str, url: str, open_notifier: Open
) -> None:
    async with CountingProxy(url) as proxy, listening(open_notifier(proxy.url)) as ears:
        # While it is quiet, the other side is asked again and again, and answers.
        await proxy.until_passed(8)
        assert (ears.looks, ears.silences) == (1, [])
        proxy.blackhole()
        await ears.until(silences=1)
        proxy.heal()
        await ears.until(looks=2)
        open_notifier(url).publish([MAIL])
        await ears.until(MAIL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("_impatient")
async def test_a_publisher_never_waits_for_a_carrier_that_does_not_answer(
    kind: str, url: str, open_notifier: Open
) -> None:
    async with FaultProxy(url) as proxy:
        notifier = open_notifier(proxy.url)
        notifier.publish([Hint("before")])
        await notifier.flush()
        proxy.blackhole()
        began = time.monotonic()
        for number in range(100):
            notifier.publish([Hint(f"lane-{number}")])
        assert time.monotonic() - began < 0.5
        await notifier.flush()
        assert time.monotonic() - began < 3
        async with listening(open_notifier(url)) as ears:
            proxy.heal()
            async with asyncio.timeout(20):
                while MAIL not in ears.heard:
                    notifier.publish([MAIL])
                    await notifier.flush()


@pytest.mark.parametrize("kind", ["redis", "nats"])
async def test_a_server_that_comes_back_is_found_again(
    kind: str, url: str, open_notifier: Open, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue("valkey" if kind == "redis" else "nats")
    notifier, peer = open_notifier(url), open_notifier(url)
    peer.publish([Hint("before")])
    await peer.flush()
    async with listening(notifier) as ears:
        server.stop()
        await ears.until(silences=1)
        peer.publish([Hint("lost")])
        await peer.flush()
        await asyncio.to_thread(server.start)
        await ears.until(looks=2)
        peer.publish([MAIL])
        await ears.until(MAIL)
        assert len(ears.silences) == 1, "told once"


@pytest.mark.parametrize("server, notifier", [(Valkey, RedisNotifier), (Nats, NatsNotifier)])
async def test_a_server_that_is_not_there_at_first_is_waited_for(
    server: type[Server], notifier: type[RedisNotifier] | type[NatsNotifier]
) -> None:
    late = server()
    listener, ears = notifier(late.url), Ears()
    task = asyncio.create_task(listener.listen(ears))
    try:
        await ears.until(silences=1)
        with late:
            await ears.until(looks=1)
            listener.publish([MAIL])
            await ears.until(MAIL)
            await listener.close()
            task.cancel()
            await asyncio.wait([task])
    finally:
        task.cancel()


async def test_a_terminated_backend_is_replaced(postgres_url: str, open_notifier: Open) -> None:
    async with listening(open_notifier(postgres_url)) as ears:
        connection = await asyncpg.connect(postgres_url)
        killed = await connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'detent' AND datname = current_database()"
        )
        assert killed == 1
        await ears.until(looks=2)
        assert ears.silences == ["the connection was closed"]
        await connection.execute("SELECT pg_notify('detent_wake', '[[\"mail\",null]]')")
        await connection.close()
        await ears.until(MAIL)


async def test_nobody_listens_through_a_pooler(postgres_url: str, open_notifier: Open) -> None:
    ears = Ears()
    task = asyncio.create_task(open_notifier(postgres_url, pooler=True).listen(ears))
    await ears.until(silences=1)
    assert "pooler" in ears.silences[0]
    assert "[wakeup] url" in ears.silences[0]
    task.cancel()
    await asyncio.wait([task])
    async with listening(open_notifier(postgres_url, pooler=True, direct_url=postgres_url)) as ears:
        open_notifier(postgres_url, pooler=True).publish([MAIL])
        await ears.until(MAIL)


async def test_none_is_silence() -> None:
    ears = Ears()
    notifier = NoNotifier()
    task = asyncio.create_task(notifier.listen(ears))
    await ears.until(silences=1)
    notifier.publish([MAIL])
    await notifier.flush()
    await notifier.close()
    assert (ears.heard, ears.looks) == ([], 0)
    task.cancel()
    await asyncio.wait([task])


def test_servers_of_a_cluster_can_be_named_in_one_url() -> None:
    assert servers_in("nats://one:4222,two:4223") == ["nats://one:4222", "nats://two:4223"]
    assert servers_in("tls://one,tls://two") == ["tls://one", "tls://two"]
    with pytest.raises(ConfigError, match="must be such as nats://host:4222"):
        servers_in("nats://one,,two")


def test_a_url_that_makes_no_sense_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"\[wakeup\] url"):
        RedisNotifier("redis://localhost:port/")
