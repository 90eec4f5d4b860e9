"""If these fail, several processes on one file lose jobs, run them twice, or starve each other."""

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from detent import App, State
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.steps import joined
from tests.cluster.database import until
from tests.cluster.processes import NodeProcess, Start
from tests.cluster.workload import Execution, Workload

JOBS: Final = 20_000
SLOW: Final = 60
PATIENCE: Final = 60.0
# As short as they go on a busy machine, so that nobody waits long for the rescue of the dead.
LEASE: Final = {"DETENT_CLUSTER_LEASE": "6s", "DETENT_CLUSTER_HEARTBEAT_INTERVAL": "2s"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def workload(path: Path) -> AsyncIterator[Workload]:
    async with App(f"sqlite:///{path}") as app:
        yield Workload(app)


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    """Ask as anybody could, with nothing of ours."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def until_ended(path: Path, left: int = 0) -> None:
    """Wait until no more than so many jobs are still to be done."""
    query = """
        SELECT (SELECT count(*) FROM detent_ready) + (SELECT count(*) FROM detent_running)
            + (SELECT count(*) FROM detent_parked)
    """

    async def ended() -> bool:
        return ask(path, query) <= [(left,)]

    await until(ended, f"the end of all but {left} jobs", PATIENCE, pause=0.1)


def expect_whole(path: Path) -> None:
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


async def enqueue_quick(workload: Workload, executions: Path) -> None:
    call = workload.record.bind(str(executions))
    await workload.app.enqueue_many([call] * JOBS)


async def test_three_processes_do_everything_once(
    workload: Workload, start: Start, path: Path, executions: Path
) -> None:
    nodes = [start(f"sqlite:///{path}", "--concurrency", "200") for _ in range(3)]
    ids = {node.id for node in nodes}  # all are there before the first could do everything
    await enqueue_quick(workload, executions)
    await until_ended(path)
    runs = Execution.read_all(executions)
    assert len(runs) == JOBS, "none lost"
    assert len({run.job for run in runs}) == JOBS, "none twice"
    assert ask(path, "SELECT state, count(*) FROM detent_jobs GROUP BY 1") == [("succeeded", JOBS)]
    shares = Counter(run.node for run in runs)
    assert set(shares) == ids, "each had its share"
    for node in nodes:
        node.signal()
    assert [await asyncio.to_thread(node.ended) for node in nodes] == [0, 0, 0]
    assert await workload.app.store.nodes() == []
    expect_whole(path)


async def test_a_killed_process_keeps_its_rows_and_no_others(
    workload: Workload, start: Start, path: Path, executions: Path, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    nodes = [start(f"sqlite:///{path}", "--concurrency", "200", **LEASE) for _ in range(3)]
    hanging = workload.hang.bind(str(executions), str(released))
    slow = {job.id for job in await workload.app.enqueue_many([hanging] * SLOW)}
    await until_running(workload, SLOW)
    victim = await holder(workload, nodes)
    await enqueue_quick(workload, executions)
    await asyncio.to_thread(victim.kill)
    held = await expect_held(workload, victim)
    # All the others are done by the living, while those hang that they hold themselves.
    await until_ended(path, left=max(SLOW, len(held)))
    released.touch()
    # Its lease runs out; then the living take what it held.
    await until_ended(path)
    runs = Execution.read_all(executions)
    assert {run.job for run in runs} >= slow
    assert len({run.job for run in runs}) == JOBS + SLOW, "none lost"
    twice = {job for job, count in Counter(run.job for run in runs).items() if count > 1}
    assert twice <= held, "none twice but what the dead had begun"
    assert ask(path, "SELECT state, count(*) FROM detent_jobs GROUP BY 1") == [
        ("succeeded", JOBS + SLOW)
    ]
    expect_whole(path)


async def until_running(workload: Workload, count: int) -> None:
    async def running() -> bool:
        return sum(queue.running for queue in await workload.app.store.queues()) == count

    await until(running, f"{count} running jobs")


async def holder(workload: Workload, nodes: list[NodeProcess]) -> NodeProcess:
    """Return a node that holds some of the slow jobs."""
    for node in nodes:
        if await workload.app.store.claims_of(node.id):
            return node
    raise AssertionError("nobody holds what runs")


async def expect_held(workload: Workload, dead: NodeProcess) -> set[UUID]:
    """Return the jobs that a dead node holds; they are shown as running in its name."""
    held = {job_id for job_id, _ in await workload.app.store.claims_of(dead.id)}
    assert held
    found = await workload.app.store.get_jobs(sorted(held))
    assert {(each.state, each.node) for each in found} == {(State.RUNNING, dead.id)}
    return held


# Fairness

UNFAIR: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
while True:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO hammer VALUES (?)", [("x" * 200,)] * 200)
    connection.execute("COMMIT")
"""
OURS: Final = """
import asyncio, sys
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job
async def main():
    store = SqliteStore(sys.argv[1])
    while True:
        await store.enqueue_jobs([new_job("hammer") for _ in range(500)])
asyncio.run(main())
"""


@contextmanager
def hammering(path: Path, program: str) -> Iterator[None]:
    """Two processes that write without a pause."""
    command = [sys.executable, "-c", program, str(path)]
    running = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield
        assert [process.poll() for process in running] == [None, None]
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.parametrize("program", [UNFAIR, OURS], ids=["strangers", "our own kind"])
async def test_a_heartbeat_gets_through_between_processes_that_never_pause(
    path: Path, program: str
) -> None:
    store = SqliteStore(str(path))
    node = await joined(store)
    await store.database.write(lambda session: session.change("CREATE TABLE hammer (text)"))
    with hammering(path, program):
        await until_written(store)
        waits = [await timed_beat(store, node) for _ in range(60)]
    await store.close()
    # A node has two and a half seconds for a beat before it tries anew, and ten in all.
    assert max(waits) < 2.0, sorted(waits)[-5:]
    expect_whole(path)


async def until_written(store: SqliteStore) -> None:
    count = "SELECT (SELECT count(*) FROM hammer) + (SELECT count(*) FROM detent_job)"

    async def written() -> bool:
        return bool(await store.database.read(lambda session: session.value(count) > 2000))

    await until(written, "the hammering")


async def timed_beat(store: SqliteStore, node: UUID) -> float:
    before = time.monotonic()
    assert (await store.beat(node, timedelta(seconds=15))).alive
    await asyncio.sleep(0.02)
    return time.monotonic() - before
