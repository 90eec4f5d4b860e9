"""The simulated machines: processes with a node in each, and the one that cleans up after them."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from detent._engine.node import Node
from detent.app import App
from detent.config import Config, NodeConfig
from detent.errors import StoreUnavailable
from detent.events import NodeFenced
from detent.stores.memory import MemoryNotifier
from detent.testing.simulation.checker import Checker
from detent.testing.simulation.history import History
from detent.testing.simulation.ledger import Ledger
from detent.testing.simulation.line import SeededLine
from detent.testing.simulation.store import WatchedStore, who
from detent.testing.simulation.workload import declare
from detent.testing.virtual import VirtualRuntime

T = TypeVar("T")

SLOTS: Final = {"default": 4, "mail": 2}
NODE: Final = NodeConfig(queues=SLOTS, drain_timeout=timedelta(seconds=8))
RESCUE_INTERVAL: Final = 1.0


async def as_process(name: str, work: Coroutine[Any, Any, T]) -> T:
    """Do something in the name of a simulated process, with all that it starts."""

    async def named() -> T:
        who.set(name)
        return await work

    return await asyncio.create_task(named(), name=f"{name}: {getattr(work, '__name__', '?')}")


class World:
    """What all processes of one run share: a store, and those who watch."""

    def __init__(self, seed: str, line: SeededLine, *, wakeups: bool) -> None:
        self.seed = seed
        self.line = line
        self._runtime = VirtualRuntime(seed)
        self.history = History(self._runtime.monotonic)
        self.ledger = Ledger()
        self.checker = Checker(self.history, self.ledger, SLOTS)
        self.store = WatchedStore(self._runtime.utcnow, line, self.checker)
        self.notifier = MemoryNotifier() if wakeups else None

    def app(self, name: str) -> App:
        """Return the app of one process."""
        app = App(
            config=Config(node=replace(NODE, name=name)),
            store=self.store,
            notifier=self.notifier,
            runtime=VirtualRuntime(f"{self.seed} {name}"),
        )
        declare(app, self.ledger)
        app.middleware(self.ledger.watch)
        self.history.listen(name, app.bus)
        app.on(NodeFenced, self.checker.node_fenced)
        return app


class Member:
    """A process that runs a node; after a restart it is another one."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._starts = 0
        self._node: Node | None = None
        self._base = name
        self.name = name

    async def start(self) -> None:
        """Start, as often as it takes."""
        self._starts += 1
        self.name = f"{self._base}.{self._starts}"
        app = self._world.app(self.name)
        node = Node(app.node_parts(app.config))
        await as_process(self.name, _start_surely(node))
        self._node = node

    async def drain(self) -> None:
        """Drain and end."""
        node, self._node = self._node, None
        if node is not None:
            await as_process(self.name, node.drain())


async def _start_surely(node: Node) -> None:
    while True:
        try:
            await node.start()
        except StoreUnavailable:
            await asyncio.sleep(1.0)
        else:
            return


async def rescue_on(world: World) -> None:
    """Look after dead nodes for ever; the cluster will do it by itself one day."""
    while True:
        try:
            await world.store.rescue()
        except StoreUnavailable:
            world.history.tell("rescuer", "could not")
        await asyncio.sleep(RESCUE_INTERVAL)
