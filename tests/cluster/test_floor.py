"""If these fail, a job can stand where no scan begins any more, and wait for hours in a busy queue.

Scans begin at a floor, behind the dead rows that a forgotten transaction keeps from vacuum. Jobs
come to stand below it when they are released, or when a transaction commits late. They must be
found although every node is busy, with wake-ups and without.

DETENT_TEST_LONG=1 takes the numbers of the promise (100,000 jobs, 60 seconds) instead of those
that a build has time for.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent import App, Priority
from detent._engine import look
from detent.config import Config, WakeupConfig
from detent.model.job import Claim
from detent.spi.store import ClaimRequest
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import claim_request, lane_scan, node_identity
from tests.cluster.database import connected, until
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

LONG: Final = "DETENT_TEST_LONG" in os.environ
BACKLOG: Final = 100_000 if LONG else 20_000
LATE: Final = 60.0 if LONG else 10.0
NODES: Final = 2
SLOTS: Final = 10
EACH: Final = 4
PROMISE: Final = 3.0


@pytest.fixture
async def ghost(postgres_url: str) -> AsyncIterator["Ghost"]:
    ghost = Ghost(postgres_url)
    yield ghost
    await ghost.close()


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncIterator[None]:
    """A transaction that somebody forgot: nothing that dies now can be cleaned away."""
    async with connected(url) as connection:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
        yield
        await connection.execute("ROLLBACK")


class Ghost:
    """A node that died with claims in its name, of all priorities, from long ago."""

    def __init__(self, url: str) -> None:
        self._store = PostgresStore(url)
        self._node = node_identity("ghost")
        self._claims: list[tuple[UUID, int]] = []

    async def claim(self, count: int) -> list[UUID]:
        """Claim everything; return it, what was due last first."""
        await self._store.join(self._node, timedelta(minutes=5))
        request = claim_request(self._node.incarnation, lane_scan(room=count), limit=count)
        claims = await self._store.claim_jobs(request)
        assert len(claims) == count
        self._claims = [(claim.id, claim.fence) for claim in claims]
        claims.sort(key=lambda claim: claim.due_at, reverse=True)
        return [claim.id for claim in claims]

    async def release(self, ids: list[UUID]) -> None:
        claims = [claim for claim in self._claims if claim[0] in ids]
        assert await self._store.release_claims(self._node.incarnation, claims) == len(ids)

    async def close(self) -> None:
        await self._store.close()


class Starts:
    """When jobs could start, and when they did."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._allowed: dict[UUID, float] = {}

    def allow(self, ids: list[UUID]) -> None:
        """From now on these may run."""
        self._allowed |= dict.fromkeys(ids, time.time())

    async def waits(self) -> list[float]:
        """Wait until all have started; return how long each took, the worst first."""
        begun: dict[UUID, float] = {}

        async def all_begun() -> bool:
            for run in Execution.read_all(self._path):
                begun.setdefault(run.job, run.at)
            return begun.keys() >= self._allowed.keys()

        await until(all_begun, "the start of all jobs", pause=0.2)
        return sorted((begun[job] - at for job, at in self._allowed.items()), reverse=True)

    def retries(self) -> list[float]:
        """How long after its first attempt each second attempt began, the worst first."""
        runs = Execution.read_all(self._path)
        first = {run.job: run.at for run in runs if run.attempt == 1}
        return sorted((run.at - first[run.job] for run in runs if run.attempt == 2), reverse=True)


def long_ago(workload: Workload, path: Path, hours: int) -> list[Any]:
    """Calls of all priorities whose time came so long ago that by now they are all urgent."""
    then = datetime.now(UTC) - timedelta(hours=hours)
    return [
        workload.record.options(at=then - n * timedelta(minutes=1), priority=p).bind(str(path))
        for n in range(EACH)
        for p in Priority
    ]


def pages(ids: list[UUID]) -> list[list[UUID]]:
    """One job of each priority at a time."""
    return [ids[n : n + len(Priority)] for n in range(0, len(ids), len(Priority))]


def backlog(workload: Workload, path: Path) -> list[Any]:
    """Calls of all priorities, so that nodes have a floor in each; most of the lowest."""
    return [
        workload.work.options(priority=max(Priority.CRITICAL - number // 500, 0)).bind(
            str(path), 0.01
        )
        for number in range(BACKLOG)
    ]


@asynccontextmanager
async def kept_busy(workload: Workload, url: str, path: Path) -> AsyncIterator[None]:
    """Replace what is done by new jobs, so that the backlog stays as long as it is."""
    more = workload.work.options(priority=Priority.LOWEST).bind(str(path), 0.01)

    async def refill() -> None:
        async with connected(url) as connection:
            while True:
                left = await connection.fetchval("SELECT count(*) FROM detent.detent_ready")
                assert left > 0, "the nodes had nothing else to do"
                await workload.app.enqueue_many([more] * max(BACKLOG - left, 0))
                await asyncio.sleep(1)

    refilling = asyncio.create_task(refill())
    try:
        yield
        assert not refilling.done(), refilling.exception()
    finally:
        refilling.cancel()
        await asyncio.gather(refilling, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("hints", ["true", "false"], ids=["with hints", "hints lost"])
async def test_released_and_late_jobs_start_at_once_in_a_busy_queue(
    postgres_url: str,
    workload: Workload,
    start: Start,
    executions: Path,
    ghost: Ghost,
    hints: str,
) -> None:
    app, starts = workload.app, Starts(executions)
    await app.enqueue_many(long_ago(workload, executions, 2))
    released = await ghost.claim(EACH * len(Priority))
    await app.enqueue_many(backlog(workload, executions))
    async with (
        held_snapshot(postgres_url),
        kept_busy(workload, postgres_url, executions),
        connected(postgres_url) as caller,
    ):
        transaction = caller.transaction()
        await transaction.start()
        late = await app.enqueue_many(long_ago(workload, executions, 3), within=caller)
        environ = {"DETENT_WAKEUP_ENABLED": hints}
        for _ in range(NODES):
            start(postgres_url, "--concurrency", str(SLOTS), **environ)
        await until_running(executions)
        began = time.monotonic()
        # Each page is older than the one before: below any floor that may have followed that.
        for page in pages(released):
            # At no particular moment: nodes look once a second.
            await asyncio.sleep(LATE / EACH - random.uniform(0.5, 1.5))
            await ghost.release(page)
            starts.allow(page)
            # Retries come from the other side: their time is yet to come.
            await workload.flaky.options(priority=Priority.CRITICAL).enqueue(str(executions))
        await asyncio.sleep(began + LATE - time.monotonic())
        await transaction.commit()
        starts.allow([job.id for job in late])
        waits = await starts.waits()
    print(f"waits: {[round(wait, 2) for wait in waits]}, retries: {starts.retries()}")  # noqa: T201
    assert waits[0] < PROMISE
    assert len(starts.retries()) == EACH
    assert starts.retries()[0] < PROMISE


class SlowAnswers(PostgresStore):
    """A store whose claims are on their way most of the time, as over a long line."""

    async def claim_jobs(self, request: ClaimRequest) -> list[Claim]:
        claims = await super().claim_jobs(request)
        await asyncio.sleep(0.1)
        return claims


@pytest.mark.parametrize("hints", [True, False], ids=["with hints", "hints lost"])
async def test_a_floor_that_is_lowered_while_a_claim_is_on_its_way_stays_low(
    postgres_url: str,
    executions: Path,
    ghost: Ghost,
    hints: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A look that took long, because we were held up, would be followed by a rest of half a minute.
    monkeypatch.setattr(look, "REST", 1)
    store = SlowAnswers(postgres_url)
    config = Config(wakeup=WakeupConfig(enabled=hints))
    app = App(config=config, store=store, notifier=store.notifier)
    workload, starts = Workload(app), Starts(executions)
    async with app:
        await app.enqueue_many(long_ago(workload, executions, 2))
        released = await ghost.claim(EACH * len(Priority))
        await app.enqueue_many(backlog(workload, executions))
        async with kept_busy(workload, postgres_url, executions), app.node(concurrency=SLOTS):
            await asyncio.sleep(1.5)
            for page in pages(released):
                await asyncio.sleep(random.uniform(0.2, 0.4))
                await ghost.release(page)
                starts.allow(page)
            waits = await starts.waits()
    assert waits[0] < PROMISE


async def until_running(executions: Path) -> None:
    async def running() -> bool:
        return len(Execution.read_all(executions)) > 3_000

    await until(running, "the nodes to be busy with the lowest priority", patience=90)
