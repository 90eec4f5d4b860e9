"""If these fail, a node cannot be stopped while its database is silent, and its host kills it.

The way to the database swallows everything: connections stay open, new ones are taken, and nothing
is ever answered.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from detent import App
from tests.chaos.proxy import FaultProxy
from tests.cluster.database import until
from tests.cluster.processes import NodeProcess, Start
from tests.cluster.test_failover import until_run
from tests.cluster.workload import Workload

DRAIN: Final = 3.0
ONE_SIGNAL: Final = DRAIN + 5.0
TWO_SIGNALS: Final = 3.0
# What a process needs to go, on a machine that is busy with other tests.
GOING: Final = 1.5


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgres_url) as proxy:
        yield proxy


async def ended(node: NodeProcess) -> float:
    """Return how long it takes until a process has ended."""
    began = time.monotonic()
    assert await asyncio.to_thread(node.ended, 60) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("silent_for", [0.0, 4.0])
@pytest.mark.parametrize("signals", [1, 2])
async def test_a_node_ends_in_time_though_its_database_is_silent(
    start: Start,
    postgres_url: str,
    proxy: FaultProxy,
    executions: Path,
    signals: int,
    silent_for: float,
) -> None:
    node = start(proxy.url, "--concurrency", "20", "--drain-timeout", f"{DRAIN:g}s")
    async with App(postgres_url) as app:
        workload = Workload(app)
        calls = [workload.work.bind(str(executions), 0.05) for _ in range(2_000)]
        calls += [workload.work.bind(str(executions), 60.0) for _ in range(5)]
        await app.enqueue_many(calls)
    await until_run(executions, 100)
    proxy.blackhole()
    await asyncio.sleep(silent_for)
    node.signal()
    if signals == 2:
        await asyncio.sleep(0.5)
        node.signal()
    took = await ended(node)
    print(f"{signals} signals after {silent_for} s of silence: {took:.1f} s")  # noqa: T201
    assert took < (ONE_SIGNAL if signals == 1 else TWO_SIGNALS) + GOING, node.said()
    assert "answers again" not in node.said()


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_node_that_starts_ends_in_time_though_its_database_is_silent(
    start: Start, proxy: FaultProxy, signals: int
) -> None:
    proxy.blackhole()
    node = start(proxy.url, "--drain-timeout", f"{DRAIN:g}s")

    async def asks() -> bool:
        return proxy.connections > 0

    await until(asks, "its first connection")
    for _ in range(signals):
        node.signal()
        await asyncio.sleep(0.5)
    began = time.monotonic()
    assert await asyncio.to_thread(node.ended, 60) == 1
    limit = ONE_SIGNAL if signals == 1 else TWO_SIGNALS
    assert time.monotonic() - began < limit + GOING, node.said()
    assert node.said().splitlines() == ["detent: error: stopped before the node had started"]
