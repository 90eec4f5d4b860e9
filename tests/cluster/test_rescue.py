"""If these fail, the jobs of a lost process wait too long, are done by two, or never end."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent import State
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.processes import NodeProcess, Start
from tests.cluster.workload import Execution, Workload

LEASE: Final = 3.0
SHORT: Final = {"DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s", "DETENT_CLUSTER_LEASE": f"{LEASE}s"}


async def until_begun(path: Path, count: int) -> list[Execution]:
    async def begun() -> bool:
        return len(Execution.read_all(path)) >= count

    await until(begun, f"{count} executions")
    return Execution.read_all(path)


async def pids_of(workload: Workload) -> list[int]:
    return [node.pid for node in await workload.app.nodes.list() if node.state != "dead"]


async def test_the_jobs_of_a_lost_node_run_elsewhere_within_its_lease_and_two_seconds(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    first = start(postgres_url, "--name", "first", **SHORT)
    lost = first.id
    jobs = [await workload.work.enqueue(str(executions), 60.0) for _ in range(20)]
    await until_begun(executions, 20)
    second = start(postgres_url, "--name", "second", **SHORT)
    living = second.id
    first.kill()
    killed = time.time()
    runs = [run for run in await until_begun(executions, 40) if run.node == living]
    assert max(run.at for run in runs) - killed <= LEASE + 2.0
    assert sorted(run.job for run in runs) == sorted(job.id for job in jobs)
    (dead,) = [node for node in await workload.app.nodes.list() if node.state == "dead"]
    assert (dead.incarnation, dead.death) == (lost, "its lease ran out")


async def test_a_frozen_node_that_wakes_up_after_its_lease_has_nothing_to_say(
    workload: Workload, start: Start, postgres_url: str, executions: Path, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    frozen = start(postgres_url, **SHORT)
    lost = frozen.id
    job = await workload.hang.enqueue(str(executions), str(released))
    await until_begun(executions, 1)
    owner = start(postgres_url, **SHORT)
    living = owner.id
    frozen.signal(signal.SIGSTOP)
    runs = await until_begun(executions, 2)
    assert [run.node for run in runs] == [lost, living]
    assert runs[1].fence > runs[0].fence
    # Both have what they waited for. The frozen one, which wakes first, would be the first to end.
    owner.signal(signal.SIGSTOP)
    released.touch()
    frozen.signal(signal.SIGCONT)
    await asyncio.to_thread(frozen.wait_for, "could not prove that it is alive")
    info = await workload.app.jobs.get(job.id)
    assert (info.state, info.node, info.fence) == (State.RUNNING, living, runs[1].fence)
    owner.signal(signal.SIGCONT)
    await job.result(timeout=30)
    info = await workload.app.jobs.get(job.id)
    assert info.attempt == 1


async def test_a_parent_that_sees_its_child_die_gives_the_jobs_back_at_once(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    parent = start(postgres_url, "--processes", "2", "--name", "twin")
    await until_nodes(workload, 2)
    for _ in range(20):
        await workload.work.enqueue(str(executions), 5.0)
    runs = await until_begun(executions, 20)
    victim = runs[0].pid
    theirs = [run.job for run in runs if run.pid == victim]
    os.kill(victim, signal.SIGKILL)
    killed = time.time()
    again = (await until_begun(executions, 20 + len(theirs)))[20:]
    assert sorted(run.job for run in again) == sorted(theirs)
    assert max(run.at for run in again) - killed <= 1.0
    await until_nodes(workload, 2)
    assert victim not in await pids_of(workload)
    async with connected(postgres_url) as connection:
        await until_all_ended(connection)
    parent.signal()
    assert await asyncio.to_thread(parent.ended) == 0
    assert await pids_of(workload) == []


async def until_nodes(workload: Workload, count: int) -> None:
    async def there() -> bool:
        nodes = await workload.app.nodes.list()
        return sum(node.state == "active" for node in nodes) == count

    await until(there, f"{count} nodes")


async def test_two_kills_cost_innocent_jobs_no_more_than_their_work(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    """They are suspects by then. One at a time they would take two minutes."""
    jobs = [await workload.work.enqueue(str(executions), 4.0) for _ in range(30)]
    for kills in (1, 2):
        node = start(postgres_url, "--concurrency", "100", **SHORT)
        await until_begun(executions, 30 * kills)
        node.kill()
    start(postgres_url, "--concurrency", "100", **SHORT)
    runs = (await until_begun(executions, 90))[60:]
    assert max(run.at for run in runs) - min(run.at for run in runs) < 4.0, "side by side"
    for job in jobs:
        await job.result(timeout=30)
        assert [attempt.alone for attempt in await workload.app.jobs.attempts(job.id)] == [
            False,
            False,
        ]


@pytest.mark.slow
async def test_a_job_that_kills_its_process_fails_and_its_neighbours_succeed(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    # The poison among them comes to all of them at once, and again when they run again.
    calls = [workload.work.bind(str(executions), 0.05) for _ in range(200)]
    jobs = await workload.app.enqueue_many(
        [*calls[:20], workload.poison.bind(str(executions)), *calls[20:]]
    )
    poison = jobs[20]
    neighbours = [job for job in jobs if job is not poison]
    start(postgres_url, "--processes", "1", "--concurrency", "300", "--name", "solo")
    async with connected(postgres_url) as connection:
        # The parent waits longer after each death before it starts the next.
        await until_all_ended(connection, patience=180)
        hit: int = await connection.fetchval(
            "SELECT count(DISTINCT id) FROM detent.detent_attempt WHERE kind = 'crashed'"
        )
    print(f"{hit - 1} of 200 neighbours were struck")  # noqa: T201  for whoever looks
    assert hit > 100
    info = await workload.app.jobs.get(poison.id)
    assert (info.state, info.attempt) == (State.FAILED, 1)
    assert info.error is not None
    runs = [run for run in Execution.read_all(executions) if run.job == poison.id]
    attempts = await workload.app.jobs.attempts(poison.id)
    assert len(runs) == len(attempts)
    assert {attempt.kind for attempt in attempts} == {"crashed"}
    # Together with the others twice, with 64 and 8 suspects at most, and three times alone.
    assert sum(attempt.alone for attempt in attempts) == 3
    assert len(attempts) <= 2 + 2 + 3
    states = {(await workload.app.jobs.get(job.id)).state for job in neighbours}
    assert states == {State.SUCCEEDED}


async def test_a_supervised_node_leaves_when_its_parent_is_gone(
    workload: Workload, start: Start, postgres_url: str
) -> None:
    parent = start(postgres_url, "--processes", "1")
    await until_nodes(workload, 1)
    parent.kill()

    async def left() -> bool:
        return await workload.app.nodes.list() == []

    await until(left, "an orphan that drained and left")


async def test_a_child_that_was_drained_by_name_stays_away(
    workload: Workload, start: Start, postgres_url: str
) -> None:
    parent = start(postgres_url, "--processes", "2", "--name", "web")
    await until_nodes(workload, 2)
    await workload.app.nodes.drain("web-1")
    parent.wait_for("node web-1 was drained by name, and is not replaced")
    assert [node.name for node in await workload.app.nodes.list()] == ["web-2"]
    await workload.app.nodes.drain("web-2")
    assert parent.ended() == 0
    assert await workload.app.nodes.list() == []
    assert parent.said().count("started; taking jobs") == 2


async def test_a_node_is_replaced_after_so_many_jobs(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    start(postgres_url, "--processes", "1", "--max-jobs", "50", "--concurrency", "10")
    await workload.app.enqueue_many([workload.work.bind(str(executions), 0.05) for _ in range(400)])
    async with connected(postgres_url) as connection:
        await until_all_ended(connection, patience=60)
    runs = Execution.read_all(executions)
    assert len(runs) == len({run.job for run in runs}) == 400
    assert len({run.pid for run in runs}) > 1


async def test_a_node_is_replaced_when_it_has_grown_too_big(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    parent = start(postgres_url, "--processes", "1", "--max-rss", "300MB")
    jobs = [await workload.hoard.enqueue(str(executions), size) for size in (1_000, 400_000_000)]
    (_, big) = await until_begun(executions, 2)
    # It ends what it has begun, and another comes without anybody having died.
    for job in jobs:
        await job.result(timeout=30)

    async def another() -> bool:
        return [pid for pid in await pids_of(workload) if pid != big.pid] != []

    await until(another, "a fresh process")
    await (await workload.record.enqueue(str(executions))).result(timeout=30)
    first, second, third = Execution.read_all(executions)
    assert first.pid == second.pid != third.pid
    assert await workload.app.jobs.attempts(jobs[1].id) == []
    assert "ended with code" not in parent.said()


async def test_eight_nodes_that_start_at_once_clean_up_once(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    first = start(postgres_url, "--concurrency", "100")
    for _ in range(100):
        await workload.work.enqueue(str(executions), 2.0)
    await until_begun(executions, 100)
    first.kill()
    nodes: list[NodeProcess] = [start(postgres_url) for _ in range(8)]
    async with connected(postgres_url) as connection:
        await until_all_ended(connection)
        crashes: list[Any] = await connection.fetch("SELECT id FROM detent.detent_attempt")
    assert len(crashes) == len({UUID(str(row["id"])) for row in crashes}) == 100
    assert len(Execution.read_all(executions)) == 200
    assert all(node.alive for node in nodes)
