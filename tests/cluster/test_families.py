"""If these fail, nodes that share the keys of a limit exceed it, mix up their order, or starve."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from detent import App
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.family_tasks import steps, turn
from tests.cluster.processes import ROOT, Start
from tests.node_process import launching

TASKS: Final = "tests.cluster.family_tasks:app"
KEYS: Final = 150
EACH: Final = 4
CROWD: Final = KEYS * EACH // 4
JOBS: Final = KEYS * EACH + CROWD
# A claim may give one job; an end, a hint and the rest of a node come on top.
STATEMENTS_PER_JOB: Final = 5


@pytest.fixture
def launch() -> Iterator[Start]:
    with launching(TASKS, ROOT) as start:
        yield start


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.touch()
    return path


async def enqueued(url: str, trace: Path) -> None:
    """Enqueue jobs of many keys, a fifth of them of one, each key in its order."""
    keys = [key for key in range(KEYS) for _ in range(EACH)] + [0] * CROWD
    random.Random(1).shuffle(keys)
    numbers = Counter[int]()
    async with App(url) as app:
        calls = []
        for key in keys:
            calls.append(turn.bind(key, numbers[key], str(trace)))
            numbers[key] += 1
        await app.enqueue_many(calls)


def check(trace: Path, nodes: int) -> None:
    """Fail if two of a key ran at once or in another order, or a node had next to nothing."""
    running: dict[int, int] = {}
    last = defaultdict[int, int](lambda: -1)
    shares = Counter[int]()
    for step in steps(trace):
        if step.begins:
            assert step.key not in running, f"{step} while {running[step.key]} ran"
            assert step.number == last[step.key] + 1, step
            running[step.key] = last[step.key] = step.number
            shares[step.pid] += 1
        else:
            assert running.pop(step.key) == step.number
    assert not running
    assert shares.total() == JOBS
    assert len(shares) == nodes
    assert min(shares.values()) > JOBS // nodes // 20, shares


@pytest.mark.parametrize("nodes", [2, pytest.param(4, marks=pytest.mark.slow)])
async def test_nodes_share_a_family_on_postgres(
    postgres_url: str, launch: Start, trace: Path, nodes: int
) -> None:
    await enqueued(postgres_url, trace)
    async with connected(postgres_url) as connection:
        before = await statements(connection)
        # Nobody begins before all of them are there.
        async with App(postgres_url) as app:
            await app.queues.pause("default")
            await started(launch, postgres_url, nodes)
            await app.queues.resume("default")
        await until_all_ended(connection, patience=120)
        asked = await statements(connection) - before
    check(trace, nodes)
    print(f"{asked / JOBS:.2f} statements per job on {nodes} nodes")  # noqa: T201  for whoever looks
    assert asked / JOBS < STATEMENTS_PER_JOB


@pytest.mark.parametrize("nodes", [2, pytest.param(4, marks=pytest.mark.slow)])
async def test_nodes_share_a_family_on_sqlite(
    tmp_path: Path, launch: Start, trace: Path, nodes: int
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    await enqueued(url, trace)
    async with App(url) as app:
        await app.queues.pause("default")
        await started(launch, url, nodes)
        await app.queues.resume("default")

    async def ended() -> bool:
        return sum(not step.begins for step in steps(trace)) == JOBS

    await until(ended, "all jobs to end", 120)
    check(trace, nodes)


async def started(launch: Start, url: str, nodes: int) -> None:
    for node in [launch(url, "--concurrency", "8") for _ in range(nodes)]:
        await asyncio.to_thread(node.wait_for, "started; taking jobs")


async def statements(connection: Any) -> int:
    """Return how many transactions there were in this database: each statement of a node is one."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    found: int = await connection.fetchval(query)
    return found
