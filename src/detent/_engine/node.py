"""One node: its services wired together, its start, its drain and its end."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from detent._engine.adopt import Adopter
from detent._engine.attempt import Stop, Workbench
from detent._engine.claim import Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.failure import describe
from detent._engine.finish import Finisher
from detent._engine.look import Looker
from detent._engine.membership import Membership
from detent._engine.reconcile import Reconciler
from detent._engine.scribe import Scribe
from detent._engine.service import Service
from detent._engine.signals import SignalReader
from detent._engine.wakeup import Wakeup
from detent.config import Config
from detent.errors import StoreError
from detent.events import Bus, HookFailed, NodeDraining, NodeFenced, NodeStarted, NodeStopped
from detent.spi.codec import Codec
from detent.spi.executor import Executor
from detent.spi.middleware import Middleware
from detent.spi.notifier import Notifier, SignalHint, Wake
from detent.spi.runtime import Runtime
from detent.spi.store import NodeIdentity, Store
from detent.tasks import Registry

# How often the lease is looked at, as a share of it.
WATCH: Final = 1 / 30
# What was told to stop gets this long to end, before its claims are given back all the same.
STOP_GRACE: Final = 5.0
FLUSH_LIMIT: Final = 10.0

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


class Node:
    """A running node."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        runtime, bus, store, config = parts.runtime, parts.bus, parts.store, parts.config
        self._runtime, self._bus = runtime, bus
        self._membership = Membership(runtime, bus, store, parts.identity, config.cluster)
        self._scribe = Scribe(runtime, bus, store)
        bench = Workbench(
            runtime=runtime,
            bus=bus,
            registry=parts.registry,
            claims=store,
            contexts=store,
            codecs=parts.codecs,
            executors=parts.executors,
            middleware=parts.middleware,
            limits=config.limits,
            scribe=self._scribe,
        )
        self._finisher = Finisher(runtime, bus, store, store)
        self._dispatcher = Dispatcher(bench, self._finisher, config.node.slots())
        self._claimer = Claimer(
            runtime,
            bus,
            store,
            dispatcher=self._dispatcher,
            config=config.node,
            polling=config.polling,
            boost_interval=config.store.priority_boost_interval,
        )
        self._looker = Looker(runtime, bus, store, self._claimer)
        self._signals = SignalReader(
            runtime, bus, store, self._dispatcher, config.node.signal_interval.total_seconds()
        )
        self._reconciler = Reconciler(
            runtime,
            bus,
            store,
            self._dispatcher,
            self._claimer,
            config.node.reconcile_interval.total_seconds(),
        )
        self._adopter = Adopter(runtime, bus, store, parts.registry, self._claimer.look_anew)
        self._tasks: dict[str, Any] = {}
        self._quiet = Wakeup(runtime)
        self._stop_asked = Wakeup(runtime)
        self._stopping = False
        self._hurry = False
        self._draining = asyncio.Lock()
        self._stopped = asyncio.Event()
        self._wire()

    def _wire(self) -> None:
        """Let the parts know each other, by the few calls they need."""
        self._finisher.forget = self._dispatcher.forget
        self._finisher.on_flushed = self._flushed
        self._finisher.on_requeued = self._claimer.wake
        self._dispatcher.on_room = self._claimer.room_came
        self._claimer.may_claim = self._may_claim
        self._claimer.store_time = self._store_time
        self._claimer.on_lost_reply = self._reconciler.wake

    @property
    def identity(self) -> NodeIdentity:
        """Who this node is at the moment."""
        return self._membership.identity

    @property
    def busy(self) -> int:
        """How many jobs run."""
        return self._dispatcher.busy

    def _may_claim(self) -> bool:
        return not self._finisher.overloaded and self._membership.trouble() is None

    def _store_time(self) -> datetime:
        return self._membership.store_time()

    def _flushed(self) -> None:
        self._claimer.room_came()
        if not self._dispatcher.held:
            self._quiet.set()

    # Start

    async def start(self) -> None:
        """Join the cluster and begin to work."""
        await self._run_hooks("start")
        await self._membership.join()
        self._identify()
        for service in self._services():
            self._spawn(service)
        if self._parts.notifier is not None and self._parts.config.wakeup.enabled:
            listen = self._parts.notifier.listen(self._receive)
            self._tasks["listener"] = self._runtime.spawn(listen, "detent-listener")
        self._tasks["watch"] = self._runtime.spawn(self._watch(), "detent-watch")
        self._bus.emit(
            NodeStarted(self.identity.incarnation, self.identity.name, self.identity.queues)
        )
        await self._run_hooks("ready")

    def _services(self) -> tuple[Service, ...]:
        return (
            self._finisher,
            self._scribe,
            self._claimer,
            self._looker,
            self._signals,
            self._reconciler,
            self._adopter,
        )

    def _spawn(self, service: Service) -> None:
        self._tasks[service.name] = self._runtime.spawn(service.run(), f"detent-{service.name}")

    def _identify(self) -> None:
        """Tell the services in whose name they work."""
        incarnation = self._membership.incarnation
        for part in (
            self._claimer,
            self._finisher,
            self._scribe,
            self._signals,
            self._reconciler,
        ):
            part.node_id = incarnation

    def _receive(self, wakes: Sequence[Wake]) -> None:
        mine = self._membership.incarnation
        if any(isinstance(wake, SignalHint) and wake.node == mine for wake in wakes):
            self._signals.wake()
        self._claimer.receive(wakes)

    # Watching over the lease

    async def _watch(self) -> None:
        """Stop everything when the lease is lost, and join again under a new incarnation."""
        pause = self._parts.config.cluster.lease.total_seconds() * WATCH
        while True:
            trouble = self._membership.trouble()
            if trouble is not None:
                await self._fence(trouble)
            await self._runtime.sleep(pause)

    async def _fence(self, reason: str) -> None:
        """Drop all work: others may have it by now. Nothing of it is written any more."""
        old = self._membership
        self._bus.emit(NodeFenced(old.incarnation, reason))
        self._claimer.node_id = self._finisher.node_id = self._scribe.node_id = None
        self._signals.node_id = self._reconciler.node_id = None
        self._finisher.abandon()
        self._dispatcher.abandon()
        self._scribe.forget()
        self._claimer.floors.forget()
        # A drain need not wait any longer for what is no longer here.
        self._quiet.set()
        await old.stop()
        pause = 0.5
        while True:
            identity = replace(old.identity, incarnation=self._runtime.new_id())
            fresh = Membership(
                self._runtime,
                self._bus,
                self._parts.store,
                identity,
                self._parts.config.cluster,
            )
            try:
                await fresh.join()
            except StoreError:
                await self._runtime.sleep(pause * self._runtime.uniform(0.5, 1.0))
                pause = min(pause * 2, 10.0)
                continue
            self._membership = fresh
            self._identify()
            self._claimer.wake()
            return

    # End

    def stop(self, *, now: bool = False) -> None:
        """Ask the node to drain and end; a second time, or with `now`, without waiting."""
        self._hurry = self._hurry or now or self._stopping
        self._stopping = True
        self._stop_asked.set()
        if self._hurry:
            self._quiet.set()

    async def wait_stopped(self) -> None:
        """Wait until the node was asked to stop, drain it, and return when it is gone."""
        await self._stop_asked.wait(None)
        await self.drain()

    async def drain(self) -> None:
        """Claim no more, wait for what runs, give back the rest, and leave."""
        async with self._draining:
            if not self._stopped.is_set():
                await self._drain()

    async def _drain(self) -> None:
        await self._run_hooks("drain")
        self._bus.emit(NodeDraining(self.identity.incarnation, self._dispatcher.busy))
        await self._end(self._claimer, self._looker, self._adopter)
        await self._try(self._parts.store.drain(self.identity.incarnation))
        released = self._dispatcher.release_waiting()
        limit = self._parts.config.node.drain_timeout.total_seconds()
        await self._wait_quiet(limit, unless_hurried=True)
        stopped = self._dispatcher.stop_all(Stop.DRAIN)
        # Also for those that have ended: what is not written yet would be done again.
        await self._wait_quiet(STOP_GRACE)
        # Those that would not stop are given back as well; they are among the stopped.
        await self._give_back_the_rest()
        released += stopped
        await self._leave()
        self._bus.emit(NodeStopped(self.identity.incarnation, released))
        await self._run_hooks("stop")
        self._stopped.set()

    async def _wait_quiet(self, limit: float, *, unless_hurried: bool = False) -> None:
        """Wait until nothing is held any more, or the limit, or until we are told to hurry."""
        ends_at = self._runtime.monotonic() + limit
        while self._dispatcher.held and (left := ends_at - self._runtime.monotonic()) > 0:
            if unless_hurried and self._hurry:
                return
            await self._quiet.wait(left)

    async def _give_back_the_rest(self) -> None:
        """Release the claims of what would not stop; what it writes later is refused."""
        self._dispatcher.abandon()
        self._finisher.abandon()
        await self._try(self._release_all())

    async def _release_all(self) -> None:
        """Release every claim in this node's name, those too whose reply was lost."""
        node, store = self.identity.incarnation, self._parts.store
        claims = await store.claims_of(node)
        if claims:
            await store.release_claims(node, claims)

    async def _leave(self) -> None:
        """End the services and the membership, in that order: heartbeats go on to the last."""
        for name in ("watch", "listener"):
            task = self._tasks.pop(name, None)
            if task is not None:
                task.cancel()
        await self._end(self._signals, self._reconciler, self._scribe, self._finisher)
        await self._try(self._membership.leave())
        for executor in self._parts.executors.values():
            await executor.close()

    async def _end(self, *services: Service) -> None:
        for service in services:
            service.stop()
        for service in services:
            task = self._tasks.pop(service.name, None)
            if task is not None:
                timer = self._runtime.later(FLUSH_LIMIT, task.cancel)
                try:
                    await task
                except asyncio.CancelledError:
                    if not task.cancelled():
                        raise
                finally:
                    timer.cancel()

    async def _try(self, work: Awaitable[Any]) -> None:
        """Do something at the end that may fail: whoever looks after the dead will do it."""
        try:
            await work
        except StoreError as error:
            self._bus.emit(HookFailed("drain", str(error)))

    async def _run_hooks(self, name: str) -> None:
        """Run the application's hooks. One that fails keeps a node from starting, and no more."""
        for hook in self._parts.hooks.get(name, ()):
            try:
                outcome = hook()
                if outcome is not None:
                    await outcome
            except Exception as error:
                if name == "start":
                    raise
                self._bus.emit(HookFailed(f"on_{name}", describe(error)))
