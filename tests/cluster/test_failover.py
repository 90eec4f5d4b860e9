"""If these fail, the loss of the primary is more than a pause of some seconds."""

import asyncio
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from detent import App
from detent.errors import StoreError, StoreUnavailable
from detent.notifiers.endurance import PING, PONG
from detent.stores.postgres import hosts
from detent.stores.postgres.answers import NoPrimaryError, ask
from detent.stores.postgres.hosts import Hosts
from detent.stores.postgres.migrations import migrate
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.processes import Start
from tests.cluster.replication import Pair
from tests.cluster.workload import Execution, Workload

RECOVERED: Final = 5.0
"""Seconds within which work goes on, after there is a primary again."""
LONG: Final = 12.0
"""The same after a long outage: by then everybody asks with long pauses."""
NOTICED: Final = 3.0
"""Seconds within which a node or a caller notices that nothing answers."""
SHORT: Final = {"DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s", "DETENT_CLUSTER_LEASE": "3s"}
SELDOM: Final = {
    "DETENT_POLLING_BURST": "1h",
    "DETENT_POLLING_MINIMUM": "1h",
    "DETENT_POLLING_MAXIMUM": "1h",
    "DETENT_POLLING_DEEP_IDLE": "1h",
}


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.primary.create_database("jobs")
        asyncio.run(migrate(pair.primary.url("jobs")))
        yield pair


class Producer:
    """Enqueues without a pause, whatever happens; what was acknowledged must not be lost."""

    def __init__(self, workload: Workload, executions: Path) -> None:
        self._workload = workload
        self._path = str(executions)
        self.acknowledged: list[UUID] = []
        self.refused = 0
        self.longest_gap = 0.0
        """The longest time between two acknowledgements."""

    async def run(self) -> None:
        last = time.monotonic()
        while True:
            calls = [self._workload.work.bind(self._path, 0.02) for _ in range(20)]
            try:
                jobs = await self._workload.app.enqueue_many(calls)
            except StoreError:
                self.refused += 1
                await asyncio.sleep(0.05)
                continue
            self.acknowledged += [job.id for job in jobs]
            self.longest_gap = max(self.longest_gap, time.monotonic() - last)
            last = time.monotonic()
            await asyncio.sleep(0.02)


async def until_run(executions: Path, count: int) -> None:
    """Wait until so many attempts have begun."""

    async def run() -> bool:
        return len(Execution.read_all(executions)) >= count

    await until(run, f"{count} executions")


@pytest.mark.parametrize("outage", [0.0, 5.0])
async def test_nothing_is_lost_with_the_primary(
    pair: Pair, start: Start, executions: Path, outage: float
) -> None:
    """Also when it takes so long to replace it that the nodes have lost their leases."""
    url = pair.url("jobs")
    nodes = [start(url, "--concurrency", "20", **SHORT if outage else {}) for _ in range(2)]
    async with App(url) as app:
        producer = Producer(Workload(app), executions)
        producing = asyncio.create_task(producer.run())
        await until_run(executions, 500)
        pair.primary.kill()
        killed, before = time.time(), len(producer.acknowledged)
        await asyncio.sleep(outage)
        await pair.promote()
        promoted = time.time()
        await until_run(executions, before + 200)
        producing.cancel()
        await asyncio.wait([producing])
        async with connected(pair.standby.url("jobs")) as connection:
            await until_all_ended(connection)
            rows = await connection.fetch("SELECT id, state FROM detent.detent_outcome")
    ended = Counter(row["id"] for row in rows)
    late = set(producer.acknowledged[before:])
    runs = Execution.read_all(executions)
    first = min(run.at for run in runs if run.job in late) - promoted
    print(  # noqa: T201  for whoever measures
        f"promoted {promoted - killed:.2f} s after the kill; first new job {first:.2f} s later; "
        f"{len(producer.acknowledged)} jobs, longest gap between acknowledgements "
        f"{producer.longest_gap:.2f} s, {producer.refused} enqueues refused"
    )
    assert set(producer.acknowledged) <= set(ended), "a committed enqueue is never lost"
    assert {row["state"] for row in rows} == {"succeeded"}
    assert max(ended.values()) == 1
    assert first < (LONG if outage else RECOVERED)
    assert producer.longest_gap < promoted - killed + (LONG if outage else RECOVERED)
    # With their leases they keep their claims and go on with them: nothing is run again.
    most = max(Counter(run.job for run in runs).values())
    assert most == 1 if not outage else most <= 2
    for node in nodes:
        assert ("it dropped its jobs" in node.said()) == bool(outage)
        node.signal()
        assert await asyncio.to_thread(node.ended) == 0


async def test_a_primary_that_lives_on_as_a_standby_is_left(
    pair: Pair, start: Start, executions: Path
) -> None:
    """Its connections answer as before, and refuse every write."""
    url = pair.url("jobs")
    node = start(url, **SELDOM)
    async with App(url) as app:
        workload = Workload(app)
        await (await workload.record.enqueue(str(executions))).result(timeout=30)
        # Several connections in the pool, all of them to the old primary.
        await asyncio.gather(*(app.store.nodes() for _ in range(10)))
        await pair.make_read_only()
        await pair.promote()
        promoted = time.monotonic()
        # No error reaches the caller: the statement did nothing, and is tried elsewhere.
        job = await workload.record.enqueue(str(executions))
        assert time.monotonic() - promoted < RECOVERED
        # Only a wake-up can start it, so the listener has moved, and has looked for itself: sooner
        # than by asking its own connection, since a heartbeat was refused.
        await job.result(timeout=PING + PONG + RECOVERED)
        print(f"listener moved after {time.monotonic() - promoted:.2f} s")  # noqa: T201
        began = time.monotonic()
        await (await workload.record.enqueue(str(executions))).result(timeout=RECOVERED)
        assert time.monotonic() - began < 2.0
    async with connected(pair.standby.url("jobs")) as connection:
        assert await connection.fetchval("SELECT count(*) FROM detent.detent_outcome") == 3
    assert "no wake-ups reach this node: the connection was closed" in node.said()
    assert "wake-ups reach this node again" in node.said()


@pytest.mark.parametrize("outage", [0.0, 12.0])
async def test_a_primary_that_falls_silent_is_left(
    pair: Pair, start: Start, executions: Path, outage: float
) -> None:
    """Its connections stay open and no reset ever comes, as with a machine that lost its power.

    After 12 s without an answer the nodes have dropped their jobs; they still hold connections.
    """
    url = pair.url("jobs")
    nodes = [start(url, "--concurrency", "20") for _ in range(2)]
    async with App(url) as app:
        producer = Producer(Workload(app), executions)
        producing = asyncio.create_task(producer.run())
        await until_run(executions, 200)
        pair.freeze()
        frozen, before = time.time(), len(producer.acknowledged)
        await asyncio.sleep(outage)
        await pair.promote()
        promoted = time.time()
        await until_run(executions, before + 200)
        producing.cancel()
        await asyncio.wait([producing])
        async with connected(pair.standby.url("jobs")) as connection:
            await until_all_ended(connection)
            rows = await connection.fetch("SELECT id, state FROM detent.detent_outcome")
    ended = Counter(row["id"] for row in rows)
    late = set(producer.acknowledged[before:])
    began = [run.at for run in Execution.read_all(executions)]
    first = min(at for at in began if at > promoted) - promoted
    print(  # noqa: T201  for whoever measures
        f"promoted {promoted - frozen:.2f} s after the freeze; first job {first:.2f} s later; "
        f"{len(late)} jobs since, longest gap between acknowledgements {producer.longest_gap:.2f} s"
    )
    assert set(producer.acknowledged) <= set(ended), "a committed enqueue is never lost"
    assert {row["state"] for row in rows} == {"succeeded"}
    assert max(ended.values()) == 1
    assert first < NOTICED + RECOVERED - min(outage, NOTICED)
    assert producer.longest_gap < max(outage, NOTICED) + RECOVERED
    for node in nodes:
        node.signal()
        assert await asyncio.to_thread(node.ended) == 0


async def test_a_primary_whose_standby_left_is_left_too(
    pair: Pair, start: Start, executions: Path
) -> None:
    """It takes writes and never acknowledges them: only its Patroni died, and another leads."""
    url = pair.url("jobs")
    start(url, "--concurrency", "20")
    async with App(url) as app:
        workload = Workload(app)
        await (await workload.record.enqueue(str(executions))).result(timeout=30)
        await pair.promote()
        promoted = time.monotonic()
        await (await workload.record.enqueue(str(executions))).result(timeout=60)
        print(f"first job after {time.monotonic() - promoted:.2f} s")  # noqa: T201
        assert time.monotonic() - promoted < NOTICED + RECOVERED
    async with connected(pair.standby.url("jobs")) as connection:
        assert await connection.fetchval("SELECT count(*) FROM detent.detent_outcome") == 2


async def test_a_host_that_never_answers_does_not_hide_the_others(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "KNOCK", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        ours = postgres_url.partition("@")[2]
        url = f"postgresql://postgres@127.0.0.1:{deaf.getsockname()[1]},{ours}"
        async with asyncio.timeout(10):
            connection = await Hosts(url).connect(30)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()


async def test_a_standby_is_passed_over(pair: Pair) -> None:
    there, back = pair.standby.url("jobs"), pair.primary.url("jobs")
    url = f"{there.rpartition('/')[0]},{back.partition('@')[2]}"
    connection = await Hosts(url).connect(30)
    assert not await connection.fetchval("SELECT pg_is_in_recovery()")
    await connection.close()
    # A single server is taken as it is, and so are several of which none is the primary: looking
    # at jobs on a standby is no mistake.
    await pair.caught_up()
    several = f"{there.rpartition('/')[0]},{there.partition('@')[2]}"
    for standbys, words in (
        (there, "a standby, or read-only by"),
        (several, "a standby; .*standby$"),
    ):
        async with App(standbys) as app:
            assert await app.jobs.list() == []
            assert await app.nodes.list() == []
            with pytest.raises(StoreUnavailable, match=words):
                await Workload(app).record.enqueue("")
        with pytest.raises(StoreUnavailable, match="the server takes no writes"):
            await migrate(standbys, "another")
    hosts_of_both = Hosts(url)
    await (await hosts_of_both.connect(30)).close()
    pair.primary.kill()
    with pytest.raises(NoPrimaryError, match=r"none of 2 hosts takes writes: .*: a standby; 127"):
        await hosts_of_both.connect(5)
    # Started now, it can still be used to look; who wants to write is told of all hosts.
    async with App(url) as app:
        assert await app.jobs.list() == []
        with pytest.raises(StoreUnavailable, match=r"none of 2 hosts .*: a standby; .* Connect"):
            await Workload(app).record.enqueue("")
        with pytest.raises(StoreUnavailable, match=r"none of 2 hosts .*: a standby; .* Connect"):
            await app.queues.pause("default")
    for command in ("nodes", "jobs list", "queues"):
        looked = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "detent", *command.split(), "--url", url, "--json"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (looked.returncode, looked.stderr) == (0, ""), command


async def test_any_role_may_ask_for_the_timeline(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute("CREATE ROLE detent_stranger LOGIN")
        try:
            url = f"postgresql://detent_stranger@{postgres_url.partition('@')[2]}"
            assert (await ask(url, 0, 30)).timeline > 0
        finally:
            await connection.execute("DROP ROLE detent_stranger")
