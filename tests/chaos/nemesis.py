"""The one who breaks things, as a seed tells him."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import asyncpg

from detent.stores.postgres.failures import DRIVER_ERRORS
from detent.testing.postgres import TemporaryPostgres
from tests.chaos.nodes import ChaosNode
from tests.chaos.plan import Faults, Plan

Deed = Callable[[], Coroutine[Any, Any, None]]


class Kill(NamedTuple):
    """A process that was killed."""

    pid: int
    at: float
    """By the clock of the effects."""
    alone: bool
    """Whether its neighbours could not see it."""


class Nemesis:
    """Does one thing after another, often several at once, to nodes and to the server."""

    def __init__(
        self, plan: Plan, nodes: list[ChaosNode], server: TemporaryPostgres, url: str
    ) -> None:
        self._random = random.Random(plan.seed)
        self._plan = plan
        self._nodes = nodes
        self._server = server
        self._url = url
        self._lease = plan.lease
        self._repair: asyncio.Task[None] | None = None
        self._going: dict[asyncio.Task[None], None] = {}
        self.done = Faults()
        self.kills: list[Kill] = []
        self.mended_at = float("inf")
        """When nothing was broken any more, by the clock of the effects."""

    @property
    def share(self) -> float:
        """How much of the plan was done."""
        return self.done.share_of(self._plan.least)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Break things until it is over, and at least as often as planned; then mend them."""
        while not is_over() or self.share < 1.0:
            self._revive()
            task = asyncio.create_task(self._choose()())
            self._going[task] = None
            task.add_done_callback(lambda done: self._going.pop(done, None))
            # In proportion, so that with long leases not everything is broken all the time.
            await asyncio.sleep(self._random.uniform(0.05, 0.8) * self._plan.pace)
        await asyncio.gather(*self._going)
        self._revive()
        self.mended_at = time.time()

    async def let_go(self) -> None:
        """End what is going on; the server is left in one piece, running or not."""
        for task in list(self._going):
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        if self._repair is not None:
            await self._repair

    def _revive(self) -> None:
        """Start nodes again that did not find the database when they started, and gave up."""
        for node in self._nodes:
            if not node.busy and not node.alive:
                node.start()

    def _choose(self) -> Deed:
        """Return the next deed: by chance, but those that are lacking sooner."""
        weights: dict[str, tuple[Deed, float]] = {
            "kills": (self._kill, 10),
            "freezes": (self._freeze, 5),
            "blackholes": (self._blackhole, 2),
            "hang_ups": (self._hang_up, 2),
            "terminations": (self._terminate, 2),
            "restarts": (self._restart, 1),
        }
        lacking = self.done.lacking(self._plan.least)
        weighted = [
            (deed, weight if name in lacking else weight / 5)
            for name, (deed, weight) in weights.items()
        ]
        (deed,) = self._random.choices(
            [deed for deed, _ in weighted], [weight for _, weight in weighted]
        )
        return deed

    def _victim(self) -> ChaosNode | None:
        free = [node for node in self._nodes if node.is_victim]
        return self._random.choice(free) if free else None

    def _leave(self, node: ChaosNode) -> None:
        node.leave_in_peace(self._random.uniform(0.5, 1.5) * self._lease)

    async def _kill(self) -> None:
        node = self._victim()
        if node is None:
            return
        node.busy = True
        self.kills.append(Kill(node.pid, time.time(), node.alone))
        await asyncio.to_thread(node.kill)
        self.done.kills += 1
        await asyncio.sleep(self._random.uniform(0.0, 2 * self._lease))
        node.start()
        self._leave(node)

    async def _freeze(self) -> None:
        node = self._victim()
        if node is None:
            return
        node.busy = True
        node.freeze()
        await asyncio.sleep(self._lease * self._random.uniform(1.2, 2.5))
        node.thaw()
        self.done.freezes += 1
        self._leave(node)

    async def _blackhole(self) -> None:
        node = self._victim()
        if node is None:
            return
        node.busy = True
        node.proxy.blackhole()
        await asyncio.sleep(self._lease * self._random.uniform(0.5, 2.5))
        if self._random.random() < 0.5:
            node.proxy.hang_up()
        node.proxy.heal()
        self.done.blackholes += 1
        self._leave(node)

    async def _hang_up(self) -> None:
        node = self._victim()
        if node is not None:
            node.proxy.hang_up()
            self.done.hang_ups += 1

    async def _terminate(self) -> None:
        try:
            connection = await asyncpg.connect(self._url, timeout=5)
            try:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'detent' AND random() < 0.3"
                )
            finally:
                await connection.close(timeout=5)
        except DRIVER_ERRORS:
            return
        self.done.terminations += 1

    async def _restart(self) -> None:
        if self._repair is None:
            self._repair = asyncio.create_task(self._kill_server())
            # To its end, even if this run is broken off: nobody may start a server afterwards.
            await asyncio.shield(self._repair)
            self._repair = None

    async def _kill_server(self) -> None:
        await asyncio.to_thread(self._server.kill)
        await asyncio.sleep(self._random.uniform(0.0, min(self._lease, 3.0)))
        await asyncio.to_thread(self._server.start)
        self.done.restarts += 1
