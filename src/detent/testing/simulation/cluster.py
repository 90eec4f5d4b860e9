"""The simulated machines: processes with a node in each."""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from detent._engine.node import Node
from detent.app import App
from detent.config import ClusterConfig, Config, NodeConfig
from detent.errors import StoreUnavailable
from detent.spi.leadership import Term
from detent.spi.nodes import NodeInfo
from detent.testing.simulation.auditor import HEALED, Auditor
from detent.testing.simulation.book import Book
from detent.testing.simulation.checker import Checker
from detent.testing.simulation.distant import DistantStore
from detent.testing.simulation.history import History
from detent.testing.simulation.ledger import Ledger
from detent.testing.simulation.network import Network
from detent.testing.simulation.notifier import SeededNotifier
from detent.testing.simulation.outside import ATTEMPTS, SINK, TIMEOUT, Receiver
from detent.testing.simulation.plan import BEATS, LANES, OUTAGE, OUTSIDE, WORKERS, Fate
from detent.testing.simulation.process import ALWAYS, NEVER, WORLD, Process, ProcessRuntime, who
from detent.testing.simulation.service import Service, declare_fragile
from detent.testing.simulation.workers import declare_pooled
from detent.testing.simulation.workload import CAPABILITY, declare, declare_daemon
from detent.testing.virtual import VirtualRuntime, running_loop

SLOTS: Final = {"default": 4, "mail": 2}
HOUR: Final = timedelta(hours=1)
# How long a supervisor waits before it starts a process again that has ended by itself.
REVIVAL: Final = (0.5, 10.0)


class World:
    """What all processes of one run share: a store, and those who watch."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate
        self.clock = VirtualRuntime(fate.seed)
        self.cluster = ClusterConfig(heartbeat_interval=fate.lease / BEATS, lease=fate.lease)
        self.history = History(self.clock.monotonic)
        self.ledger = Ledger()
        self.network = Network(fate.seed)
        self.book = Book(self.history, self.ledger, self.cluster)
        self.checker = Checker(self.book, SLOTS)
        self.store = DistantStore(fate.seed, self.clock.utcnow, self.network, self.checker)
        self.checker.leases.store_troubled = self.store.troubled_since
        self.checker.breakers.store_troubled = self.store.troubled_since
        self.book.store_well_since = lambda: self.store.well_since
        self.checker.leaders.believes = self._believes
        hears = fate.wakeups and "wakes" not in fate
        self.auditor = Auditor(self.book, self.store, SLOTS, hears=hears)
        self.notifier = SeededNotifier(fate.seed)
        self.service = Service(fate.seed, fate.lasts) if OUTAGE in fate else None
        self.receiver: Receiver | None = None
        if OUTSIDE in fate:
            self.receiver = Receiver(fate.seed, fate.lasts, self.checker.outbox)
        if fate.wakeups:
            self.store.announcer = self.notifier
            self.store.hints = self.checker.hints
        if hears:
            self.checker.order.quiet_since = self._quiet_since
        self.processes: list[Process] = []
        self.nodes: dict[Process, Node] = {}
        self.shaken = ALWAYS
        """When a process last ended without a word."""
        self._clocks = random.Random(f"{fate.seed} clocks")

    def app(self, process: Process, name: str | None = None) -> App:
        """Return the app of one process."""
        skewed = "skew" in self.fate
        runtime = ProcessRuntime(
            process,
            f"{self.fate.seed} {process.name}",
            ahead=HOUR * self._clocks.uniform(-1, 1) if skewed else timedelta(0),
            rate=self._clocks.uniform(0.99, 1.01) if skewed else 1.0,
        )
        runtime.on_crash = self.checker.crashed
        node = NodeConfig(
            queues=SLOTS,
            drain_timeout=timedelta(seconds=8),
            name=name,
            capabilities=(CAPABILITY,) if LANES in self.fate else (),
        )
        app = App(
            config=Config(node=node, cluster=self.cluster),
            store=self.store,
            notifier=self.notifier if self.fate.wakeups else None,
            runtime=runtime,
        )
        process.app = app
        declare(app)
        if self.service is not None:
            declare_fragile(app, self.service)
        if WORKERS in self.fate:
            declare_pooled(app, self.ledger)
        if self.receiver is not None:
            app.sink(SINK, self.receiver, timeout=TIMEOUT, max_attempts=ATTEMPTS)
        app.middleware(self.ledger.watch)
        self.history.listen(process.name, app.bus)
        self.checker.listen(process, app.bus)
        return app

    def process(self, name: str) -> Process:
        """Return a new process."""
        process = Process(name, self.fate.seed)
        self.processes.append(process)
        process.died.add_done_callback(lambda _: self._bury(process), context=WORLD)
        return process

    def _quiet_since(self) -> float:
        """Return since when all is well, with every process and the store; NEVER if it is not."""
        nodes = [process.well_since for process in self.nodes if not process.ended]
        if self.network.weather.loses:
            return NEVER
        return max(self.store.well_since, self.shaken, *nodes) + HEALED

    def _believes(self, process: Process, role: str) -> Term | None:
        node = self.nodes.get(process)
        return None if node is None else node._crew.elector.leads(role)  # noqa: SLF001  a look inside

    def _bury(self, process: Process) -> None:
        # What it knew of jobs that came back it may have told nobody.
        self.shaken = running_loop().time()
        self.history.tell(process.name, "is dead")
        self.ledger.forget(process)
        self.notifier.forget(process)
        self.store.break_off(process)

    def end(self) -> None:
        """Let everybody clean up: nothing that happens from now on counts."""
        self.store.sealed = True
        self.history.sealed = True
        for process in self.processes:
            process.release()


@dataclass(slots=True, eq=False)
class Started:
    """A process and the node in it."""

    process: Process
    node: Node
    stopped: asyncio.Task[None] | None = None
    """Ends when the node has left; None while it starts."""


class Member:
    """A place in the cluster: a name, and the process that bears it at the moment."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._chance = random.Random(f"{world.fate.seed} {name}")
        self._starts = 0
        self.starting = False
        self._revival: asyncio.Task[None] | None = None
        self._pids: dict[int, Process] = {}
        self.name = name
        self.running: list[Started] = []
        """Usually one; more when a process was replaced that was only asleep."""
        self.in_hand = False
        """Whether somebody is about to do something to it, or has."""
        self.supervised = True

    @contextlib.contextmanager
    def handled(self) -> Iterator["Member"]:
        """Keep others from doing something to it at the same time."""
        self.in_hand = True
        try:
            yield self
        finally:
            self.in_hand = False

    async def start(self) -> None:
        """Start a process and the node in it, as often as it takes."""
        self.starting = True
        try:
            while not await self._try_to_start():  # noqa: ASYNC110  no real time
                await asyncio.sleep(1.0)
        finally:
            self.starting = False

    async def _try_to_start(self) -> bool:
        self._starts += 1
        world = self._world
        process = world.process(f"{self.name}.{self._starts}")
        self._pids[self._starts] = process
        app = world.app(process, self.name)
        if "daemon" in world.fate:
            declare_daemon(app, world.ledger)
        parts = app.node_parts(app.config)
        # Whatever machine this runs on, its name and number are no part of the history.
        identity = replace(parts.identity, host=f"host-{self.name}", pid=self._starts)
        node = Node(replace(parts, identity=identity, is_gone=self._is_gone))
        world.nodes[process] = node
        started = Started(process, node)
        self.running.append(started)
        process.died.add_done_callback(lambda _: self._on_end(process), context=WORLD)
        if not await process.run(_start_or_die(node), "start"):
            return False
        started.stopped = process.spawn(node.wait_stopped(), f"{process.name}: running")
        started.stopped.add_done_callback(lambda _: self._on_end(process), context=WORLD)
        return True

    def _is_gone(self, info: NodeInfo) -> bool:
        """Tell whether the process of a node is known to have ended: it was on this machine."""
        if not self._world.fate.knows_the_dead:
            return False
        return info.host == f"host-{self.name}" and self._pids[info.pid].dead

    def _on_end(self, process: Process) -> None:
        """Take note that a process has ended, of itself or not, and start another one."""
        if all(each.process is not process for each in self.running):
            return
        self.running = [each for each in self.running if each.process is not process]
        if self.supervised and not (self.in_hand or self.starting):
            self._world.history.tell("world", f"{process.name} has ended")
            self._revival = running_loop().create_task(self._revive(), name=f"revive {self.name}")

    async def _revive(self) -> None:
        await asyncio.sleep(self._chance.uniform(*REVIVAL))
        if self.supervised and not (self.running or self.starting):
            await self.start()

    async def drain(self) -> None:
        """Drain and end all that bears the name."""
        while self.starting:  # noqa: ASYNC110  no real time
            await asyncio.sleep(0.1)
        for each in list(self.running):
            each.node.stop()
            ends = [end for end in (each.stopped, each.process.died) if end is not None]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            self._on_end(each.process)


async def _start_or_die(node: Node) -> None:
    """Start a node; a process that cannot ends, and whoever started it tries again."""
    try:
        await node.start()
    except StoreUnavailable:
        who().kill()
        await running_loop().create_future()
