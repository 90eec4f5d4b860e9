"""If these fail, a job that blocks its node is run twice, or nobody learns who it was."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from detent import State
from tests.cluster.database import until
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

# So long that a busy machine does not cost a node its lease; what is tested here could.
LEASE: Final = 3.0
SHORT: Final = {"DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s", "DETENT_CLUSTER_LEASE": f"{LEASE}s"}
THREE_LEASES: Final = 3 * LEASE
FENCED: Final = "could not prove that it is alive"


@pytest.mark.parametrize("name", ["spin", "nap"])
async def test_a_loop_blocked_for_three_leases_is_run_once_and_named(
    workload: Workload, start: Start, postgres_url: str, executions: Path, name: str
) -> None:
    nodes = [start(postgres_url, **SHORT) for _ in range(2)]
    ids = [node.id for node in nodes]
    job = await workload.app.tasks.get(name).enqueue(str(executions), THREE_LEASES)
    await job.result(timeout=30)
    (run,) = Execution.read_all(executions)
    node = nodes[ids.index(run.node)]
    await asyncio.to_thread(node.wait_for, f"job {job.id} ({name}) has kept the event loop")
    await asyncio.to_thread(node.wait_for, f"in {name}")
    for each in nodes:
        assert FENCED not in each.said()
    states = {node.state for node in await workload.app.nodes.list()}
    assert states == {"active"}


async def test_a_process_held_up_by_c_code_loses_its_job_and_is_told_why(
    workload: Workload, start: Start, postgres_url: str, executions: Path
) -> None:
    nodes = [start(postgres_url, **SHORT) for _ in range(2)]
    ids = [node.id for node in nodes]
    job = await workload.grip.enqueue(str(executions), THREE_LEASES)

    async def again() -> bool:
        return len(Execution.read_all(executions)) == 2

    await until(again, "a second run", LEASE + 10)
    lost, valid = Execution.read_all(executions)
    assert lost.node != valid.node
    assert valid.at - lost.at <= LEASE + 2.0
    assert await job.result(timeout=10) == f"by {valid.fence}"
    held = nodes[ids.index(lost.node)]
    await asyncio.to_thread(held.wait_for, FENCED)
    await asyncio.to_thread(held.wait_for, "the whole process was held up for")
    await asyncio.to_thread(held.wait_for, f"by C code in job {job.id} (grip), which")
    await asyncio.to_thread(held.wait_for, 'executor="process"')
    info = await workload.app.jobs.get(job.id)
    assert (info.state, info.fence, info.attempt) == (State.SUCCEEDED, valid.fence, 1)
    assert len(Execution.read_all(executions)) == 2

    async def anew() -> bool:
        known = await workload.app.nodes.list()
        return sum(node.state == "active" for node in known) == 2

    await until(anew, "the held-up process as a node again")
