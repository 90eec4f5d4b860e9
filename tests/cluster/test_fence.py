"""If these fail, a job is completed twice after a crash: by a worker of the past and by a new one.

The server is killed at random instants of a busy exchange. What the old worker still holds then
goes to a new one, and both say that they are done.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent import State
from detent.errors import StoreUnavailable
from detent.model.job import Claim
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import (
    claim_request,
    completion,
    lane_scan,
    new_job,
    node_identity,
)
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import connected, until
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

JOBS: Final = 2_000
PAGE: Final = 10
HANDS: Final = 4
"""How many claims and ends of a worker are on their way at once: some lose their answer."""
LEASE: Final = timedelta(minutes=5)


class Worker:
    """A node without an engine: it claims and finishes, and remembers what it was told."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url, pool_size=HANDS)
        self.identity = node_identity()
        self.held: list[Claim] = []
        self.accepted: list[UUID] = []

    @property
    def id(self) -> UUID:
        return self.identity.incarnation

    async def join(self) -> None:
        await self.store.join(self.identity, LEASE)

    async def claim(self, count: int = PAGE) -> list[Claim]:
        request = claim_request(self.id, lane_scan(room=count), limit=count)
        claims = await self.store.claim_jobs(request)
        self.held += claims
        return claims

    async def finish(self, claims: list[Claim]) -> list[UUID]:
        accepted = await self.store.finish_jobs(self.id, [completion(claim) for claim in claims])
        self.accepted += accepted
        return accepted

    async def work(self) -> None:
        """Claim and finish until the server dies, never quite keeping up."""
        while claims := await self.claim():
            await self.finish(claims[: PAGE // 2])

    async def finish_one_by_one(self, seed: int) -> None:
        """Say of everything ever held that it is done."""
        held = random.Random(seed).sample(self.held, len(self.held))
        for claim in held:
            await self.finish([claim])


@pytest.fixture
async def old(durable_url: str) -> AsyncIterator[Worker]:
    worker = Worker(durable_url)
    await worker.join()
    yield worker
    await worker.store.close()


@pytest.fixture
async def new(durable_url: str) -> AsyncIterator[Worker]:
    worker = Worker(durable_url)
    await worker.join()
    yield worker
    await worker.store.close()


async def crash(server: TemporaryPostgres, *, after: float) -> None:
    await asyncio.sleep(after)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def cut_off(*work: Awaitable[Any]) -> None:
    """Let workers run into the crash; nothing else may happen to them."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        assert outcome is None or isinstance(outcome, StoreUnavailable), outcome


async def take_over(old: Worker, new: Worker) -> None:
    """Release what stands in the old worker's name, and do it."""
    await new.store.release_claims(old.id, await new.store.claims_of(old.id))
    while claimed := await new.claim(JOBS):
        await new.finish(claimed)


@pytest.mark.parametrize("seed", range(6))
async def test_after_a_crash_a_job_is_completed_by_the_old_or_the_new_worker(
    durable_server: TemporaryPostgres, durable_url: str, old: Worker, new: Worker, seed: int
) -> None:
    jobs = [new_job() for _ in range(JOBS)]
    await old.store.enqueue_jobs(jobs)
    instant = random.Random(seed).uniform(0.0, 0.15)
    await cut_off(*(old.work() for _ in range(HANDS)), crash(durable_server, after=instant))
    told = {claim.id for claim in old.held}
    kept = {job_id for job_id, _ in await old.store.claims_of(old.id)}
    # A claim that was answered is durable; one that is durable may not have been answered.
    assert told - {*old.accepted} - kept <= await ended(durable_url)
    # Both at once: the new one takes everything over, the old one goes on as if nothing was.
    await asyncio.gather(take_over(old, new), old.finish_one_by_one(seed))
    while claimed := await new.claim(JOBS):
        await new.finish(claimed)
    accepted = Counter(old.accepted + new.accepted)
    assert max(accepted.values()) == 1, "two completions of one job were accepted"
    assert {claim.id for claim in new.held} == {*new.accepted}, "the old one used a new claim"
    # What nobody was told of was written by the old one, just before the end.
    silent = {job.id for job in jobs} - set(accepted)
    assert await nodes_of(durable_url, silent) <= {old.id}
    assert await ended(durable_url) == {job.id for job in jobs}


async def ended(url: str) -> set[UUID]:
    async with connected(url) as connection:
        rows = await connection.fetch("SELECT id FROM detent.detent_outcome")
        return {row["id"] for row in rows}


async def nodes_of(url: str, jobs: set[UUID]) -> set[UUID]:
    async with connected(url) as connection:
        query = "SELECT DISTINCT node FROM detent.detent_outcome WHERE id = ANY($1::uuid[])"
        return {row["node"] for row in await connection.fetch(query, list(jobs))}


async def test_a_fence_that_was_given_out_twice_does_not_let_the_old_worker_in(
    durable_server: TemporaryPostgres, durable_url: str, old: Worker, new: Worker
) -> None:
    """A crash can lose the last values of a sequence; here it is set back by hand."""
    await old.store.enqueue_jobs([new_job()])
    (first,) = await old.claim()
    await crash(durable_server, after=0)
    assert await new.store.release_claims(old.id, [(first.id, first.fence)]) == 1
    async with connected(durable_url) as connection:
        await connection.execute("SELECT setval('detent.detent_fence', $1, false)", first.fence)
    (second,) = await new.claim()
    assert (second.id, second.fence) == (first.id, first.fence)
    assert await old.finish([first]) == []
    assert await old.store.release_claims(old.id, [(first.id, first.fence)]) == 0
    assert await new.finish([second]) == [second.id]
    assert await nodes_of(durable_url, {first.id}) == {new.id}


async def test_the_same_worker_cannot_use_a_claim_of_its_past(
    durable_server: TemporaryPostgres, old: Worker
) -> None:
    await old.store.enqueue_jobs([new_job()])
    (first,) = await old.claim()
    await crash(durable_server, after=0)
    assert await old.store.release_claims(old.id, [(first.id, first.fence)]) == 1
    (second,) = await old.claim()
    assert second.id == first.id
    assert second.fence > first.fence
    assert await old.finish([first]) == []
    assert await old.finish([second]) == [second.id]


async def test_a_node_that_was_frozen_through_it_all_is_refused(
    durable_server: TemporaryPostgres,
    durable_url: str,
    durable_workload: Workload,
    start: Start,
    executions: Path,
) -> None:
    app = durable_workload.app
    job = await durable_workload.work.enqueue(str(executions), 0.5)
    # It must not notice by itself that it was frozen, however long the rest takes here.
    zombie = start(durable_url, "--name", "zombie", DETENT_CLUSTER_LEASE="5m")
    await until_runs(executions, 1)
    zombie.signal(signal.SIGSTOP)
    await crash(durable_server, after=0)
    assert await app.store.release_claims(zombie.id, await app.store.claims_of(zombie.id)) == 1
    healthy = start(durable_url, "--name", "healthy")
    await job.result(timeout=30)
    zombie.signal(signal.SIGCONT)
    await asyncio.to_thread(zombie.wait_for, f"the claim on job {job.id} (work) was lost")
    info = await app.jobs.get(job.id)
    assert (info.state, info.node, info.attempt) == (State.SUCCEEDED, healthy.id, 1)
    assert [run.node for run in Execution.read_all(executions)] == [zombie.id, healthy.id]
    # And it goes on: it is no worse than before.
    healthy.signal()
    assert await asyncio.to_thread(healthy.ended) == 0
    again = await durable_workload.record.enqueue(str(executions))
    began = time.monotonic()
    await again.result(timeout=30)
    assert time.monotonic() - began < 10


async def until_runs(executions: Path, count: int) -> None:
    async def run() -> bool:
        return len(Execution.read_all(executions)) >= count

    await until(run, f"{count} executions")
