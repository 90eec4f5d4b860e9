"""If these fail, numbers are given twice after a failover, and others refuse the wrong one."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg
import pytest

from detent import App
from detent.model.numbers import EPOCH
from detent.spi.leadership import Bid, Candidate, Term
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.migrations import migrate
from detent.testing.conformance.builders import new_id, new_job
from detent.testing.conformance.steps import claimed, enqueued, joined
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import until
from tests.cluster.processes import Start
from tests.cluster.replication import Pair
from tests.cluster.workload import Execution, Workload

#: Seconds: a job that is not stopped would run on until the test has given up.
LONG: Final = 600.0
HOUR: Final = timedelta(hours=1)
ROLE: Final = "daemon:heart"
#: A sequence is logged some values ahead: a tail must be longer to be seen in the count.
TAIL: Final = 40


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.primary.create_database("jobs")
        asyncio.run(migrate(pair.primary.url("jobs")))
        yield pair


class Numbers(NamedTuple):
    """The last number of each kind that a user has seen."""

    fence: int
    lock: int
    term: int
    new_role: int


class User:
    """Draws numbers of all kinds."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def draw(self) -> Numbers:
        await enqueued(self._store, new_job())
        node = await joined(self._store)
        (claim,) = await claimed(self._store, node, limit=1)
        lock = await self._store.acquire_lock(f"lock {new_id()}", new_id(), "host", HOUR)
        assert lock.fence is not None
        return Numbers(claim.fence, lock.fence, await self._lead(ROLE), await self._lead("new"))

    async def _lead(self, role: str) -> int:
        candidate = Candidate(new_id(), "host")
        (leader,) = await self._store.elect(candidate, [Bid(role)], HOUR)
        assert leader.holder == candidate.id
        await self._store.resign(candidate.id, [Term(role, leader.term, candidate.id)])
        return leader.term


def check_above(seen: Numbers, given: Numbers) -> None:
    assert all(now > before for before, now in zip(seen, given, strict=True)), (seen, given)


@pytest.fixture
async def user(pair: Pair) -> AsyncIterator[User]:
    store = PostgresStore(pair.url("jobs"))
    await store.open()
    yield User(store)
    await store.close()


@pytest.mark.slow
async def test_numbers_grow_although_the_new_primary_lacks_the_last_of_them(
    pair: Pair, user: User
) -> None:
    before = await user.draw()
    assert max(before) < EPOCH, "they are small while nothing has happened"
    await pair.caught_up()
    await pair.lose_sight()
    seen = before
    for _ in range(TAIL):
        seen = await user.draw()
    await asyncio.to_thread(pair.primary.kill)
    await pair.promote()
    given = await user.draw()
    check_above(seen, given)
    assert given.fence % EPOCH <= seen.fence % EPOCH, "nothing was lost: this test shows nothing"
    check_above(given, await user.draw())


@pytest.mark.slow
async def test_jobs_whose_claims_were_lost_are_stopped_before_they_end_and_run_anew(
    pair: Pair, start: Start, executions: Path
) -> None:
    nodes = [start(pair.url("jobs"), "--name", name) for name in ("first", "second")]
    for node in nodes:
        await asyncio.to_thread(node.wait_for, "started; taking jobs")
    async with App(pair.url("jobs")) as app:
        workload = Workload(app)
        # The standby gets to know the jobs, but not that they were claimed.
        await app.queues.pause("default")
        calls = [workload.work.bind(str(executions), LONG) for _ in range(4)]
        jobs = [job.id for job in await app.enqueue_many(calls)]
        await pair.caught_up()
        await pair.lose_sight()
        await app.queues.resume("default")
        await until_begun(executions, 4)
        await asyncio.to_thread(pair.primary.kill)
        await pair.promote()
        busy = dict.fromkeys(run.pid for run in Execution.read_all(executions))
        for node in nodes:
            if node.pid in busy:
                await asyncio.to_thread(node.wait_for, "history was lost")
        await app.queues.resume("default")
        await until_begun(executions, 8)
    by_job: dict[UUID, list[Execution]] = {}
    for run in Execution.read_all(executions):
        by_job.setdefault(run.job, []).append(run)
    assert sorted(by_job) == sorted(jobs)
    for before, after in by_job.values():
        assert after.fence > before.fence, "the valid run has the higher fence"


async def until_begun(executions: Path, count: int) -> None:
    async def begun() -> bool:
        return len(Execution.read_all(executions)) >= count

    await until(begun, f"{count} executions", 60.0)


# A restored dump


def tool(server: TemporaryPostgres, name: str) -> str:
    """Return the path of a program that comes with the server."""
    path = server.bin_directory / name
    if not path.exists():
        pytest.skip(f"no {name} in {server.bin_directory}")
    return str(path)


def dumped(server: TemporaryPostgres, database: str) -> str:
    """Return a dump of a database."""
    command = [tool(server, "pg_dump"), server.url(database)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def restore(server: TemporaryPostgres, database: str, dump: str) -> None:
    """Make a database what a dump says."""
    command = [tool(server, "psql"), "--quiet", "--set=ON_ERROR_STOP=1", server.url(database)]
    subprocess.run(command, input=dump, check=True, capture_output=True, text=True)


@pytest.mark.slow
async def test_numbers_grow_although_the_dump_lacks_the_last_of_them() -> None:
    with TemporaryPostgres() as server, TemporaryPostgres() as other:
        server.create_database("jobs")
        await migrate(server.url("jobs"))
        store = PostgresStore(server.url("jobs"))
        await store.open()
        dump = await asyncio.to_thread(dumped, server, "jobs")
        seen = await User(store).draw()
        await store.close()
        other.create_database("jobs")
        await asyncio.to_thread(restore, other, "jobs", dump)
        # Both at once, as nodes start: the numbers are raised once.
        copies = [PostgresStore(other.url("jobs")) for _ in range(4)]
        await asyncio.gather(*(copy.open() for copy in copies))
        given = await User(copies[0]).draw()
        check_above(seen, given)
        assert max(given) < 2 * EPOCH
        for copy in copies:
            await copy.close()
        again = PostgresStore(other.url("jobs"))
        await again.open()
        check_above(given, await User(again).draw())
        connection = await asyncpg.connect(other.url("jobs"))
        assert await connection.fetchval("SELECT last_value FROM detent.detent_fence") < 2 * EPOCH
        await connection.close()
        await again.close()
