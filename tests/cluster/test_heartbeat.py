"""If this fails, a job that does not yield costs its node the lease, and runs again elsewhere."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.database import connected, until
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

LEASE: Final = 3.0
ENVIRON: Final = {
    "DETENT_CLUSTER_LEASE": f"{LEASE:g}s",
    "DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s",
}


@pytest.mark.slow
async def test_the_heart_beats_while_a_job_blocks_the_event_loop(
    postgres_url: str, workload: Workload, start: Start, executions: Path
) -> None:
    node = start(postgres_url, **ENVIRON)
    job = await workload.spin.enqueue(str(executions), 3 * LEASE + 1)
    async with connected(postgres_url) as connection:
        await until_begun(executions)
        began = time.monotonic()
        while time.monotonic() < began + 3 * LEASE:
            assert await is_alive(connection), "the lease has run out"
            await asyncio.sleep(0.2)
        assert len(Execution.read_all(executions)) == 1
        await job.result(timeout=30)
        assert await is_alive(connection)
    await expect_load(workload)
    (run,) = Execution.read_all(executions)
    assert run.node == node.id
    assert [known.incarnation for known in await workload.app.store.nodes()] == [node.id]
    assert "could not prove" not in node.said()
    node.signal()
    assert await asyncio.to_thread(node.ended) == 0


async def expect_load(workload: Workload) -> None:
    (known,) = await workload.app.nodes.list()
    assert set(known.load) == {"running", "slots", "connections", "cpu", "rss", "lag"}
    # It claims, beats, leads and listens.
    assert 4 <= known.load["connections"] <= 12, known.load
    assert known.load["rss"] > 10_000_000


async def until_begun(executions: Path) -> None:
    async def begun() -> bool:
        return bool(Execution.read_all(executions))

    await until(begun, "the job to begin")


async def is_alive(connection: Any) -> bool:
    """Whether the cluster believes in the node, by the only clock that counts."""
    alive: bool = await connection.fetchval(
        "SELECT bool_and(state = 'active' AND lease_until > clock_timestamp())"
        " FROM detent.detent_node"
    )
    return alive
