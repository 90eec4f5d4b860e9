"""If this fails, a busy cluster runs a job twice, loses one, or stands still in a deadlock.

Four nodes drain 50,000 jobs while people in a fifth process cancel, pause, resume, reschedule,
retry and replace them, one by one and by the page, and stop and start a queue.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent import Conflict, JobNotFound, KeyTaken, State
from detent.model.job import JobFilter
from detent.model.state import Verb
from detent.spi.store import Change
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected, until, until_all_ended
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

JOBS: Final = 50_000
NODES: Final = 4
MIXED: Final = 0.8
"""People interfere until this share of the jobs has ended."""
LIMIT: Final = 90.0
PAGE: Final = 200
KEYS: Final = 20


class People:
    """Everything that can be done to jobs, done over and over, and counted."""

    def __init__(self, workload: Workload, ids: list[UUID], path: str) -> None:
        self._workload = workload
        self._jobs = workload.app.jobs
        self._queues = workload.app.queues
        self._store = workload.app.store
        self._ids = ids
        self._path = path
        self._random = random.Random(4)
        self.done: Counter[str] = Counter()

    def actions(self) -> list[Callable[[], Awaitable[int]]]:
        return [
            self.cancel_one,
            self.cancel_page,
            self.pause_one,
            self.pause_page,
            self.resume_page,
            self.reschedule_one,
            self.reschedule_page,
            self.retry_one,
            self.retry_page,
            self.stop_and_start_a_queue,
            self.replace,
        ]

    async def repeat(self, action: Callable[[], Awaitable[int]]) -> None:
        name = action.__name__
        while True:
            try:
                self.done[name] += await action()
            except (Conflict, JobNotFound, KeyTaken):
                self.done["lost races"] += 1
            await asyncio.sleep(self._random.uniform(0, 0.02))

    def _any(self) -> UUID:
        return self._random.choice(self._ids)

    async def cancel_one(self) -> int:
        await self._jobs.cancel(self._any(), reason="no longer wanted")
        return 1

    async def pause_one(self) -> int:
        await self._jobs.pause(self._any())
        return 1

    async def reschedule_one(self) -> int:
        await self._jobs.reschedule(self._any(), delay=timedelta(seconds=self._random.random()))
        return 1

    async def retry_one(self) -> int:
        await self._jobs.retry(self._any())
        return 1

    async def cancel_page(self) -> int:
        await asyncio.sleep(0.5)  # or nothing would be left to do
        return await self._page(Verb.CANCEL, JobFilter(task="work"))

    async def pause_page(self) -> int:
        return await self._page(Verb.PAUSE, JobFilter())

    async def resume_page(self) -> int:
        return await self._page(Verb.RESUME, JobFilter())

    async def reschedule_page(self) -> int:
        delay = timedelta(milliseconds=self._random.randrange(500))
        return await self._page(Verb.RESCHEDULE, JobFilter(task="flaky"), Change(delay=delay))

    async def retry_page(self) -> int:
        return await self._page(Verb.RETRY, JobFilter((State.FAILED, State.CANCELED)))

    async def _page(self, verb: Verb, where: JobFilter, change: Change | None = None) -> int:
        return await self._store.control_page(verb, where, PAGE, change or Change())

    async def stop_and_start_a_queue(self) -> int:
        await self._queues.pause("side")
        await asyncio.sleep(0.1)
        await self._queues.resume("side")
        return 1

    async def replace(self) -> int:
        key = f"user-{self._random.randrange(KEYS)}"
        task = self._workload.work.options(unique=key, on_conflict="replace")
        job = await task.enqueue(self._path, 0.02)
        self._ids.append(job.id)
        return 1

    async def leave(self) -> None:
        """Undo whatever would keep a job from its end."""
        await self._queues.resume("side")
        while await self._page(Verb.RESUME, JobFilter()):
            pass


@asynccontextmanager
async def interfering(people: People) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(people.repeat(action)) for action in people.actions()]
    try:
        yield
        broken = [task.exception() for task in tasks if task.done()]
        assert not broken
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def fill(workload: Workload, path: str) -> list[UUID]:
    """Enqueue jobs of all kinds, in two queues and all priorities."""
    calls: list[Any] = []
    for number in range(JOBS):
        options: dict[str, Any] = {
            "queue": "side" if number % 5 == 0 else "default",
            "priority": number % 7 % 5,
        }
        match number % 10:
            case 0 | 1:
                calls.append(workload.flaky.options(**options).bind(path))
            case 2:
                calls.append(workload.doomed.options(**options).bind(path))
            case 3 | 4 | 5:
                calls.append(workload.work.options(**options).bind(path, 0.05))
            case _:
                calls.append(workload.record.options(**options).bind(path))
    return [job.id for job in await workload.app.enqueue_many(calls)]


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_four_nodes_drain_everything_once_whatever_people_do(
    postgres_server: TemporaryPostgres,
    postgres_url: str,
    workload: Workload,
    start: Start,
    executions: Path,
) -> None:
    log = ServerLog(postgres_server)
    ids = await fill(workload, str(executions))
    nodes = [
        start(postgres_url, "--queues", "default=60,side=20", "--log-level", "error")
        for _ in range(NODES)
    ]
    people = People(workload, ids, str(executions))
    async with connected(postgres_url) as connection:
        async with interfering(people):
            await until_ended(connection, int(MIXED * JOBS))
        await people.leave()
        await until_all_ended(connection, LIMIT)
        for node in nodes:
            assert node.alive
            node.signal()
        assert [node.ended() for node in nodes] == [0] * NODES
        await expect_all_ended(connection, ids)
        await expect_each_ran_once(connection, Execution.read_all(executions))
    missing = [action.__name__ for action in people.actions() if not people.done[action.__name__]]
    assert not missing, people.done
    await expect_no_deadlock(postgres_url, log)


async def until_ended(connection: Any, count: int) -> None:
    async def ended() -> bool:
        found: int = await connection.fetchval("SELECT count(*) FROM detent.detent_outcome")
        return found >= count

    await until(ended, f"the end of {count} jobs", LIMIT, pause=0.2)


async def expect_all_ended(connection: Any, ids: list[UUID]) -> None:
    rows = await connection.fetch("SELECT id, state FROM detent.detent_outcome")
    ended = {row["id"]: row["state"] for row in rows}
    # A few more than we know of may be stored: people were interrupted while they enqueued.
    assert len(ended) == await connection.fetchval("SELECT count(*) FROM detent.detent_job")
    assert ended.keys() >= set(ids)
    assert set(ended.values()) <= {"succeeded", "canceled", "failed"}
    succeeded = sum(state == "succeeded" for state in ended.values())
    assert succeeded > JOBS / 2, "people have left too little to be done"


async def expect_each_ran_once(connection: Any, executions: list[Execution]) -> None:
    runs = Counter((run.job, run.generation, run.attempt) for run in executions)
    assert [run for run, times in runs.items() if times > 1] == []
    # What counts as done is what was done: by that node, under that claim.
    really = {(run.job, run.generation, run.attempt, run.fence, run.node) for run in executions}
    rows = await connection.fetch(
        "SELECT id, generation, attempt, fence, node FROM detent.detent_outcome"
        " WHERE state = 'succeeded'"
    )
    assert [tuple(row) for row in rows if tuple(row) not in really] == []


async def expect_no_deadlock(url: str, log: ServerLog) -> None:
    assert "deadlock detected" not in log.text()
    # The numbers are written by sessions when they are idle or end, which all others have by now.
    async with connected(url) as connection:
        assert not await connection.fetchval(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
