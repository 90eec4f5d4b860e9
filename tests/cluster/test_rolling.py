"""If these fail, a deploy loses jobs, or runs them twice."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.scene import Scene
from tests.chaos.tasks import BEGIN, END
from tests.cluster.database import connected, states, until_all_ended
from tests.node_process import NodeProcess

NODES: Final = 3
SLOTS: Final = 40
LASTS: Final = 0.25


@pytest.fixture
async def scene(postgres_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(postgres_url, tmp_path)
    yield scene
    await scene.close()


async def signal(_scene: Scene, node: NodeProcess, _name: str) -> None:
    """As a service manager does it."""
    node.signal()


async def drain(scene: Scene, _node: NodeProcess, name: str) -> None:
    """As an operator does it, from anywhere."""
    command = [sys.executable, "-m", "detent", "nodes", "drain", name, "--url", scene.url]
    await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("leave", [signal, drain])
async def test_nodes_are_replaced_under_load_and_every_job_runs_once(
    scene: Scene, leave: object
) -> None:
    assert callable(leave)
    nodes = {f"old-{number}": start(scene, f"old-{number}") for number in range(NODES)}
    async with scene.load(2 * SLOTS / LASTS, LASTS):
        for number, (name, old) in enumerate(nodes.items()):
            await scene.until_busy(old, SLOTS // 2)
            new = start(scene, f"new-{number}")
            await scene.until_busy(new, SLOTS // 2)
            await leave(scene, old, name)
            assert await asyncio.to_thread(old.ended) == 0
    await expect_each_once(scene)


def start(scene: Scene, name: str) -> NodeProcess:
    return scene.start("--concurrency", str(SLOTS), "--name", name)


async def expect_each_once(scene: Scene) -> None:
    """No job was lost, charged or run twice."""
    async with connected(scene.url) as connection:
        await until_all_ended(connection)
        found = await states(connection)
        attempts = await connection.fetchval("SELECT count(*) FROM detent.detent_attempt")
        most = await connection.fetchval("SELECT max(attempt) FROM detent.detent_outcome")
    # What was on its way when we stopped asking may have come, too.
    assert list(found) == ["succeeded"]
    assert found["succeeded"] >= len(scene.acknowledged)
    assert (attempts, most) == (0, 1)
    runs = Counter(effect.job for effect in scene.effects() if effect.what == BEGIN)
    ends = Counter(effect.job for effect in scene.effects() if effect.what == END)
    assert set(scene.acknowledged) <= set(runs)
    assert runs == ends
    assert max(runs.values()) == 1
    print(f"{len(runs):,} jobs while {NODES} nodes were replaced")  # noqa: T201  for whoever looks
