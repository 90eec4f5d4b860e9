"""If this fails, cleaning up loses a job, runs one twice, leaves rows behind, or deadlocks a node.

Three nodes run jobs and prune them as soon as they have ended, while somebody retries and cancels
whatever he can still find.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent import Conflict, JobNotFound
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected, until, until_all_ended
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

JOBS: Final = 3_000
NODES: Final = 3
PATIENCE: Final = 60.0

#: Everything goes at once, by small pages, and on every node.
AT_ONCE: Final = {
    "DETENT_RETENTION_SUCCEEDED": "0s",
    "DETENT_RETENTION_FAILED": "0s archive",
    "DETENT_RETENTION_CANCELED": "0s archive",
    "DETENT_RETENTION_INTERVAL": "100ms",
    "DETENT_RETENTION_PAGE": "50",
}
TABLES: Final = ("job", "outcome", "ready", "running", "parked", "attempt", "log", "key", "signal")


@asynccontextmanager
async def meddling(workload: Workload, ids: list[UUID]) -> AsyncIterator[Counter[str]]:
    """Cancel and retry jobs that may have gone, from the outside, until the block ends."""
    chance, done = random.Random(7), Counter[str]()
    jobs = workload.app.jobs

    async def meddle() -> None:
        while True:
            name = chance.choice(["cancel", "retry"])
            try:
                await getattr(jobs, name)(chance.choice(ids))
                done[name] += 1
            except (Conflict, JobNotFound) as error:
                done[type(error).__name__] += 1
            await asyncio.sleep(chance.uniform(0, 0.005))

    tasks = [asyncio.create_task(meddle()) for _ in range(4)]
    try:
        yield done
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


@pytest.mark.slow
async def test_nodes_prune_what_they_ran_and_nothing_else(
    postgres_server: TemporaryPostgres,
    postgres_url: str,
    workload: Workload,
    start: Start,
    executions: Path,
) -> None:
    log = ServerLog(postgres_server)
    path = str(executions)
    calls: list[Any] = [workload.record.bind(path) for _ in range(JOBS)]
    calls += [workload.doomed.bind(path) for _ in range(JOBS // 10)]
    calls += [workload.flaky.bind(path) for _ in range(JOBS // 10)]
    ids = [job.id for job in await workload.app.enqueue_many(calls)]
    keyed = workload.record.options(key="order-1", key_ttl=timedelta(seconds=1))
    ids.append((await keyed.enqueue(path)).id)
    nodes = [start(postgres_url, "--queues", "default=30", **AT_ONCE) for _ in range(NODES)]
    async with connected(postgres_url) as connection:
        async with meddling(workload, ids) as done:
            await until_all_ended(connection, PATIENCE)
        # A retry may have come between; then all is over once more.
        await until_all_ended(connection, PATIENCE)
        await until(lambda: _nothing_left(connection), "the end of the sweep", PATIENCE)
        for node in nodes:
            assert node.alive
            node.signal()
        assert [node.ended() for node in nodes] == [0] * NODES
        archived = await connection.fetch("SELECT id, state FROM detent.detent_archive")
    await _expect_each_ran_once(Execution.read_all(executions), ids, archived)
    assert done["JobNotFound"], "nothing had gone while people were at it"
    assert "deadlock detected" not in log.text()


async def _nothing_left(connection: Any) -> bool:
    counts = [f"(SELECT count(*) FROM detent.detent_{table})" for table in TABLES]
    return not await connection.fetchval(f"SELECT {' + '.join(counts)}")


async def _expect_each_ran_once(
    executions: list[Execution], ids: list[UUID], archived: list[Any]
) -> None:
    runs = Counter((run.job, run.generation, run.attempt) for run in executions)
    assert [run for run, times in runs.items() if times > 1] == []
    canceled = {row["id"] for row in archived if row["state"] == "canceled"}
    ran = {run.job for run in executions}
    assert set(ids) - ran <= canceled, "a job went that nobody had run"
    assert canceled <= set(ids)
