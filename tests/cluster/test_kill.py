"""If these fail, a node that dies takes jobs with it, or one that is told to stop does."""

import asyncio
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent import State
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.processes import NodeProcess, Start
from tests.cluster.workload import Execution, Workload

SLOTS: Final = 20
QUICK: Final = 3_000
SLOW: Final = 60


class Scene:
    """A node that holds more claims than it runs: quick jobs made it greedy, slow ones came."""

    def __init__(self, workload: Workload, executions: Path, released: Path) -> None:
        self.workload = workload
        self.executions = executions
        self.released = released
        self.slow: list[UUID] = []

    async def play(self, node: NodeProcess, connection: Any) -> list[UUID]:
        """Return the ids of the claims that the node holds; some of them have not been started."""
        path, until_exists = str(self.executions), str(self.released)
        await self.workload.app.enqueue_many(
            [self.workload.record.bind(path) for _ in range(QUICK)]
            + [self.workload.hang.bind(path, until_exists) for _ in range(SLOW)]
        )

        async def settled() -> bool:
            held = await self.held(connection)
            return len(self.begun()) == SLOTS and len(held) > SLOTS

        await until(settled, "a node with more claims than slots")
        return await self.held(connection)

    async def held(self, connection: Any) -> list[UUID]:
        rows = await connection.fetch("SELECT id FROM detent.detent_running ORDER BY id")
        return [row["id"] for row in rows]

    def begun(self) -> list[UUID]:
        """The slow jobs that were started."""
        return [run.job for run in Execution.read_all(self.executions)[QUICK:]]


@pytest.fixture
def scene(workload: Workload, executions: Path, tmp_path: Path) -> Scene:
    return Scene(workload, executions, tmp_path / "released")


async def test_a_killed_node_loses_nothing(scene: Scene, start: Start, postgres_url: str) -> None:
    app = scene.workload.app
    async with connected(postgres_url) as connection:
        first = start(postgres_url, "--concurrency", str(SLOTS), "--name", "doomed")
        held = await scene.play(first, connection)
        first.kill()
        dead = first.id
        await expect_held(app, dead, held)
        assert [(node.name, node.incarnation) for node in await app.store.nodes()] == [
            ("doomed", dead)
        ]
        # One that starts on the same machine sees that the process is gone, and waits for nothing.
        second = start(postgres_url, "--concurrency", "100")
        await until_running(connection, SLOW)
        (first_node,) = [node for node in await app.nodes.list() if node.incarnation == dead]
        assert first_node.death == "its process had ended when another one started"
        scene.released.touch()
        await until_all_ended(connection)
        assert {info.state for info in [await app.jobs.get(job_id) for job_id in held]} == {
            State.SUCCEEDED
        }
        await expect_runs(scene, held, dead, second.id)


async def expect_held(app: Any, node: UUID, held: list[UUID]) -> None:
    """All claims of a dead node are shown as its own, those it never started too."""
    for info in [await app.jobs.get(job_id) for job_id in held]:
        assert (info.state, info.node, info.attempt) == (State.RUNNING, node, 1)


async def until_running(connection: Any, count: int) -> None:
    async def running() -> bool:
        found: int = await connection.fetchval("SELECT count(*) FROM detent.detent_running")
        return found == count

    await until(running, f"{count} running jobs")


async def expect_runs(scene: Scene, held: list[UUID], dead: UUID, living: UUID) -> None:
    """What the dead node had begun was begun again; what it only held was run once."""
    runs = [run for run in Execution.read_all(scene.executions) if run.job in held]
    begun = [run.job for run in runs if run.node == dead]
    assert len(begun) == SLOTS
    assert sorted(run.job for run in runs if run.node == living) == held
    assert {run.attempt for run in runs} == {1}, "a crash is not a failed attempt"


async def test_a_node_that_is_told_to_stop_ends_what_it_began_and_gives_back_the_rest(
    scene: Scene, start: Start, postgres_url: str
) -> None:
    app = scene.workload.app
    async with connected(postgres_url) as connection:
        node = start(postgres_url, "--concurrency", str(SLOTS))
        held = await scene.play(node, connection)
        node.signal()
        node.wait_for("draining")
        await until_running(connection, SLOTS)  # what was not started goes back at once
        assert (await app.store.nodes())[0].state == "draining"
        scene.released.touch()
        assert await asyncio.to_thread(node.ended) == 0
        assert await app.store.nodes() == []
        assert await scene.held(connection) == []
    begun = scene.begun()
    for info in [await app.jobs.get(job_id) for job_id in held]:
        state = State.SUCCEEDED if info.id in begun else State.PENDING
        assert (info.state, info.attempt) == (state, 1)
    assert len(begun) == len(set(begun)) == SLOTS
