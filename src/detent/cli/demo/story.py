"""The course of the demonstration: start nodes, enqueue, kill one, watch the others go on."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from detent.app import App
from detent.cli.command import Failed
from detent.cli.demo import plan
from detent.cli.demo.cluster import Cluster
from detent.cli.demo.report import Ledger, account
from detent.spi.nodes import NodeInfo

GLANCE: Final = 0.1
# When this share of the jobs has ended, a node is killed.
KILL_AT: Final = 0.4
PATIENCE: Final = 75.0


class Audience(Protocol):
    """Whoever watches."""

    def tell(self, line: str) -> None:
        """Hear what has just happened."""

    def advance(self, done: int, total: int) -> None:
        """Hear how far it is."""


async def play(app: App, url: str, folder: Path, audience: Audience, size: int) -> Ledger:
    """Play it from start to end."""
    loop = asyncio.get_running_loop()
    cluster = Cluster(app, url, folder, count=3)
    try:
        await cluster.start()
        names = ", ".join(f"{node.name} (pid {node.pid})" for node in await cluster.active())
        audience.tell(f"3 nodes share {Path(url.partition('://')[2]).name}: {names}")
        began = loop.time()
        enqueued = await plan.enqueue(size)
        acknowledged = [job.id for job in (*enqueued.jobs, *enqueued.canceled)]
        audience.tell(
            f"enqueued {len(acknowledged):,} jobs in {loop.time() - began:.1f} s; "
            f"{enqueued.duplicates} more calls had the key of one of them, and got that one"
        )
        rescued = await _run(app, cluster, audience, len(acknowledged))
        return await account(app, acknowledged, rescued, loop.time() - began)
    finally:
        cluster.stop()


async def _run(app: App, cluster: Cluster, audience: Audience, total: int) -> set[UUID]:
    """Wait until all jobs have ended, killing a node on the way; return what it held."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + PATIENCE
    watch: _Watch | None = None
    while (left := await _left(app)) > 0:
        audience.advance(total - left, total)
        if watch is None and left <= total * (1 - KILL_AT):
            watch = _Watch(*await cluster.kill_one(), cluster, loop.time)
            audience.tell(watch.obituary())
        if watch is not None and await watch.is_over():
            audience.tell(watch.rescue())
        if loop.time() > ends_at:
            raise Failed(f"{left} jobs had not ended after {PATIENCE:.0f} s")
        await asyncio.sleep(GLANCE)
    audience.advance(total, total)
    # What was rescued may have ended between two glances.
    if watch is not None and await watch.is_over():
        audience.tell(watch.rescue())
    return set() if watch is None else watch.held


async def _left(app: App) -> int:
    """Return how many jobs have not ended."""
    return sum(queue.pending + queue.running for queue in await app.queues.list())


class _Watch:
    """Looks on while the jobs of a dead node are taken over."""

    def __init__(
        self, node: NodeInfo, held: set[UUID], cluster: Cluster, now: Callable[[], float]
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._now = now
        self._killed_at = now()
        self._told = False
        self.held = held

    def obituary(self) -> str:
        node = self._node
        return f"kill -9 {node.pid}: {node.name} is gone, and {len(self.held)} jobs with it"

    async def is_over(self) -> bool:
        """Tell once that nothing is held by the dead any more."""
        if self._told or await self._cluster.claims(self._node):
            return False
        self._told = True
        return True

    def rescue(self) -> str:
        passed = self._now() - self._killed_at
        return f"the other two have rescued all {len(self.held)} after {passed:.1f} s"
