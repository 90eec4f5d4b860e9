"""The services of one node, made and introduced to each other."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from detent._engine.adopt import Adopter
from detent._engine.attempt import Workbench
from detent._engine.claim import Claimer
from detent._engine.daemons import DaemonKeeper
from detent._engine.dispatch import Dispatcher
from detent._engine.finish import Finisher
from detent._engine.leadership import MAINTENANCE, SCHEDULER, Campaign, Elector
from detent._engine.look import Looker
from detent._engine.maintenance.locks import LockForgetter
from detent._engine.maintenance.prune import Pruner
from detent._engine.maintenance.rescue import Rescuer
from detent._engine.reconcile import Reconciler
from detent._engine.scribe import Scribe
from detent._engine.service import Service
from detent._engine.signals import SignalReader
from detent._engine.suspect import SuspectClaimer
from detent._engine.watchdog import Watchdog
from detent.config import Config
from detent.daemons import Daemon
from detent.events import Bus
from detent.spi.codec import Codec
from detent.spi.executor import Executor
from detent.spi.leadership import TermFence
from detent.spi.middleware import Middleware
from detent.spi.nodes import NodeIdentity, NodeInfo
from detent.spi.notifier import Notifier, Wake
from detent.spi.runtime import Runtime
from detent.spi.store import Store
from detent.tasks import Registry

WORKER: Final = "worker"
Hook = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What a node is made from."""

    runtime: Runtime
    bus: Bus
    store: Store
    notifier: Notifier | None
    registry: Registry
    config: Config
    identity: NodeIdentity
    codecs: Mapping[str, Codec]
    executors: Mapping[str, Executor]
    middleware: Sequence[Middleware] = ()
    hooks: Mapping[str, Sequence[Hook]] = field(default_factory=dict)
    stack: Callable[[], str] | None = None
    """The stack of the thread that runs the node; called on another one. None where a blocked
    loop would block that other thread too.
    """
    load: Callable[[], Mapping[str, float]] = dict
    """What the process says of itself with each heartbeat; called on the heartbeat's thread."""
    is_gone: Callable[[NodeInfo], bool] = lambda _node: False
    """Whether another node is known to have ended: its process was on this machine."""
    daemons: Iterable[Daemon] = ()
    fence: TermFence | None = None
    """What fences the transactions of daemons, if not the store alone."""


class Crew:
    """All services of a node."""

    def __init__(self, parts: NodeParts) -> None:
        runtime, bus, store, config = parts.runtime, parts.bus, parts.store, parts.config
        self._parts = parts
        self._does_chores = True
        self.scribe = Scribe(runtime, bus, store)
        self.finisher = Finisher(runtime, bus, store, store)
        self.bench = self._bench()
        self.dispatcher = Dispatcher(self.bench, self.finisher, config.node.slots())
        self.claimer = Claimer(
            runtime,
            bus,
            store,
            dispatcher=self.dispatcher,
            config=config.node,
            polling=config.polling,
            boost_interval=config.store.priority_boost_interval,
        )
        self.looker = Looker(runtime, bus, store, self.claimer)
        self.signals = SignalReader(
            runtime, bus, store, self.dispatcher, config.node.signal_interval.total_seconds()
        )
        self.reconciler = Reconciler(
            runtime,
            bus,
            store,
            self.dispatcher,
            self.claimer,
            config.node.reconcile_interval.total_seconds(),
        )
        self.adopter = Adopter(runtime, bus, store, parts.registry, self.claimer.look_anew)
        self.rescuer = Rescuer(
            runtime,
            bus,
            store,
            max_crashes=config.cluster.max_crashes,
            sweep_interval=config.cluster.sweep_interval,
            forget_after=config.cluster.forget_after,
        )
        self.pruner = Pruner(runtime, bus, store, config.retention)
        self.suspects = SuspectClaimer(
            runtime,
            bus,
            store,
            claimer=self.claimer,
            dispatcher=self.dispatcher,
            max_crashes=config.cluster.max_crashes,
        )
        self.elector = self._elector()
        self.pruner.may_sweep = lambda: self.elector.leads(MAINTENANCE) is not None
        self.daemons = self._daemons()
        self.lock_forgetter = LockForgetter(runtime, bus, store, self.elector)
        self.watchdog = None if parts.stack is None else self._watchdog(parts.stack)
        self._introduce()

    def _watchdog(self, stack: Callable[[], str]) -> Watchdog:
        parts = self._parts
        patience = parts.config.node.loop_warning
        return Watchdog(
            parts.runtime, parts.bus, dispatcher=self.dispatcher, patience=patience, stack=stack
        )

    def _elector(self) -> Elector:
        parts = self._parts
        elector = Elector(
            parts.runtime,
            parts.bus,
            parts.store,
            parts.notifier,
            node_name=parts.identity.name,
            config=parts.config.cluster,
        )
        roles = [MAINTENANCE, *(role for role in parts.identity.roles if role == SCHEDULER)]
        for role in roles:
            elector.run_for(Campaign(role, is_wanted=lambda: self._does_chores))
        return elector

    def _daemons(self) -> DaemonKeeper:
        parts = self._parts
        keeper = DaemonKeeper(
            parts.runtime,
            parts.bus,
            parts.store,
            parts.fence or parts.store,
            elector=self.elector,
            node_name=parts.identity.name,
        )
        offered = set(parts.identity.capabilities)
        keeper.take(
            daemon
            for daemon in parts.daemons
            if daemon.role in parts.identity.roles and offered.issuperset(daemon.needs)
        )
        return keeper

    def _bench(self) -> Workbench:
        parts = self._parts
        return Workbench(
            runtime=parts.runtime,
            bus=parts.bus,
            registry=parts.registry,
            claims=parts.store,
            contexts=parts.store,
            codecs=parts.codecs,
            executors=parts.executors,
            middleware=parts.middleware,
            limits=parts.config.limits,
            scribe=self.scribe,
        )

    def _introduce(self) -> None:
        """Let the services know each other, by the few calls they need."""
        self.finisher.forget = self.dispatcher.forget
        self.finisher.on_requeued = self.claimer.wake
        self.dispatcher.on_room = self.room_came
        self.claimer.on_lost_reply = self.reconciler.wake

    def room_came(self) -> None:
        """A slot is free, or a claim has been ended for good."""
        self.claimer.room_came()
        self.suspects.room_came()

    def __iter__(self) -> Iterator[Service]:
        """All of them, in the order in which they start."""
        yield from (self.finisher, self.scribe, *self.claiming, *self.lasting)

    @property
    def claiming(self) -> Sequence[Service]:
        """Those that bring work, or can leave theirs to others; they stop first."""
        chores = (self.pruner, self.lock_forgetter)
        if WORKER not in self._parts.config.node.roles:
            return chores
        return (self.claimer, self.looker, self.suspects, self.adopter, *chores)

    @property
    def lasting(self) -> Sequence[Service]:
        """Those that go on until the last job has ended."""
        watchdog = () if self.watchdog is None else (self.watchdog,)
        leading = (self.elector, self.daemons)
        return (self.signals, self.reconciler, self.rescuer, *leading, *watchdog)

    def work_for(self, incarnation: UUID | None) -> None:
        """Tell the services in whose name they work; with None they write nothing."""
        parts: tuple[Any, ...] = (
            self.claimer,
            self.finisher,
            self.scribe,
            self.signals,
            self.reconciler,
            self.elector,
        )
        for part in parts:
            part.node_id = incarnation
        self.elector.wake()

    async def stop_leading(self) -> None:
        """Give up the roles whose chores have ended; daemons give up their own."""
        self._does_chores = False
        await self.elector.resign(MAINTENANCE, SCHEDULER)

    def abandon(self) -> None:
        """Drop all work: others may have it by now. Nothing of it is written any more."""
        self.elector.abandon()
        self.work_for(None)
        self.finisher.abandon()
        self.dispatcher.abandon()
        self.scribe.forget()
        self.claimer.floors.forget()

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Hand wake-ups to those who wait for work."""
        self.claimer.receive(wakes)
        self.suspects.receive(wakes)
        self.elector.receive(wakes)

    def load(self) -> Mapping[str, float]:
        """Return how busy the node is."""
        return {
            "running": self.dispatcher.busy,
            "slots": self.dispatcher.slots,
            "lag": 0.0 if self.watchdog is None else round(self.watchdog.lag, 3),
        }
