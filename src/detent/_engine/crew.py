"""The services of one node, made and introduced to each other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from detent._engine.adopt import Adopter
from detent._engine.announce import Announcer
from detent._engine.attempt import Workbench
from detent._engine.breaker import BreakerKeeper
from detent._engine.claim import Claimer
from detent._engine.daemons import DaemonKeeper
from detent._engine.declare import Declarer
from detent._engine.dispatch import Dispatcher
from detent._engine.find import LaneFinder
from detent._engine.finish import Finisher
from detent._engine.gates import GatedClaimer
from detent._engine.guards import ResilienceGuard
from detent._engine.leadership import MAINTENANCE, SCHEDULER, Campaign, Elector
from detent._engine.look import Looker
from detent._engine.maintenance.locks import LockForgetter
from detent._engine.maintenance.prune import Pruner
from detent._engine.maintenance.rates import RateForgetter
from detent._engine.maintenance.rescue import Rescuer
from detent._engine.maintenance.slots import SlotForgetter
from detent._engine.parts import NodeParts
from detent._engine.reconcile import Reconciler
from detent._engine.responders import Responders
from detent._engine.schedule import Firer
from detent._engine.scribe import Scribe
from detent._engine.service import Service
from detent._engine.signals import SignalReader
from detent._engine.suspect import SuspectClaimer
from detent._engine.unstarted import UnstartedReleaser
from detent._engine.watchdog import Watchdog
from detent.spi.guard import Guard
from detent.spi.nodes import UNSTARTED
from detent.spi.notifier import Wake

WORKER: Final = "worker"


class Crew:
    """All services of a node."""

    def __init__(self, parts: NodeParts) -> None:
        runtime, bus, store, config = parts.runtime, parts.bus, parts.store, parts.config
        self._parts = parts
        self._does_chores = True
        self.scribe = Scribe(runtime, bus, store)
        self.finisher = Finisher(runtime, bus, store, store)
        self.announcer = Announcer(runtime, bus, store, parts.audience, config, parts.clean)
        self.breakers = self._breakers()
        self.bench = self._bench()
        grace = config.node.cancel_grace.total_seconds()
        self.dispatcher = Dispatcher(self.bench, self.finisher, config.node.slots(), grace)
        self.responders = Responders(runtime, bus, store, parts.notifier, self._hand_out)
        self.claimer = self._claimer()
        self.unstarted = UnstartedReleaser(self.bench, store, self.dispatcher, self.claimer)
        self.looker = Looker(runtime, bus, store, self.claimer)
        self.finder = LaneFinder(runtime, bus, store, self.claimer)
        interval = config.node.reconcile_interval.total_seconds()
        self.reconciler = compare = Reconciler(runtime, bus, store, self.dispatcher, interval)
        interval = config.node.signal_interval.total_seconds()
        self.signals = SignalReader(runtime, bus, store, self.dispatcher, interval, compare.wake)
        self.adopter = Adopter(runtime, bus, store, parts.registry, self.claimer.look_anew)
        self.rescuer = self._rescuer()
        self.pruner = Pruner(runtime, bus, store, config.retention)
        self.suspects = SuspectClaimer(
            runtime,
            bus,
            store,
            claimer=self.claimer,
            dispatcher=self.dispatcher,
            max_crashes=config.cluster.max_crashes,
        )
        self.gates = self._gated_claimer()
        self.elector = self._elector()
        self.pruner.term = lambda: self.elector.leads(MAINTENANCE)
        self.daemons = self._daemons()
        self.lock_forgetter = LockForgetter(runtime, bus, store, self.elector)
        self.rates = RateForgetter(runtime, bus, store, self.elector)
        self.declarer = self._declarer()
        self.firer = self._firer()
        self.slot_forgetter = SlotForgetter(runtime, bus, store, self.elector, config.schedules)
        self.watchdog = None if parts.stack is None else self._watchdog(parts.stack)
        self._introduce()

    def _claimer(self) -> Claimer:
        parts = self._parts
        return Claimer(
            parts.runtime,
            parts.bus,
            parts.store,
            dispatcher=self.dispatcher,
            responders=self.responders,
            config=parts.config.node,
            polling=parts.config.polling,
            boost_interval=parts.config.store.priority_boost_interval,
        )

    def _rescuer(self) -> Rescuer:
        parts, config = self._parts, self._parts.config.cluster
        return Rescuer(
            parts.runtime,
            parts.bus,
            parts.store,
            max_crashes=config.max_crashes,
            sweep_interval=config.sweep_interval,
            forget_after=config.forget_after,
            leads=self._leads_maintenance,
        )

    def _gated_claimer(self) -> GatedClaimer:
        parts = self._parts
        return GatedClaimer(
            parts.runtime,
            parts.bus,
            self.dispatcher.keeping_permits(parts.store),
            parts.notifier,
            claimer=self.claimer,
            dispatcher=self.dispatcher,
            config=parts.config.node,
            boost_interval=parts.config.store.priority_boost_interval,
            limits=parts.limits,
        )

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

    def _leads_maintenance(self) -> bool:
        return self.elector.leads(MAINTENANCE) is not None

    def _firer(self) -> Firer:
        parts = self._parts
        schedules = parts.config.schedules
        firer = Firer(parts.runtime, parts.bus, parts.store, parts.registry, schedules)
        firer.may_flag = lambda: self.elector.leads(SCHEDULER) is not None
        return firer

    def _declarer(self) -> Declarer:
        parts = self._parts
        declarer = Declarer(
            parts.runtime,
            parts.bus,
            parts.store,
            parts.notifier,
            schedules=parts.schedules,
            elector=self.elector,
            node_name=parts.identity.name,
            config=parts.config.schedules,
        )
        declarer.seal = parts.seal
        return declarer

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
        keeper.clean = parts.clean
        offered = set(parts.identity.capabilities)
        keeper.take(
            daemon
            for daemon in parts.daemons
            if daemon.role in parts.identity.roles and offered.issuperset(daemon.needs)
        )
        return keeper

    def _breakers(self) -> BreakerKeeper | None:
        parts = self._parts
        if not parts.breakers or parts.resilience is not None:
            return None
        return BreakerKeeper(parts.runtime, parts.bus, parts.store, parts.notifier, parts.breakers)

    def _guards(self) -> tuple[Guard, ...]:
        own = self._parts.resilience
        strategy = self.breakers if own is None else own
        # After all others: a trial call is not spent on an attempt that another guard refuses.
        around = () if strategy is None else (ResilienceGuard(strategy),)
        return (*self._parts.guards, *around)

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
            lifetime=parts.lifetime,
            limits=parts.config.limits,
            scribe=self.scribe,
            guards=self._guards(),
            sealing=parts.sealing,
            clean=parts.clean,
            sanitizer=parts.sanitizer,
            listeners=self.announcer.listeners,
            heard=self.announcer.listeners.by_type,
        )

    def _introduce(self) -> None:
        """Let the services know each other, by the few calls they need."""
        self.finisher.forget = self.dispatcher.forget
        self.finisher.announcer = self.firer.announcer = self.announcer
        self.rescuer.on_rescued = self.announcer.rescued
        self.finisher.on_requeued = self._requeued
        self.finisher.on_released = self.dispatcher.stuck.on_released = self.gates.released
        self.gates.on_suspect = self.suspects.wake
        self.suspects.claim_gated = self.gates.claim_suspects
        self.suspects.compare = self.reconciler.compare
        self.dispatcher.on_room = self.room_came
        self.claimer.on_lost_reply = self.reconciler.wake
        self.firer.on_fired = self._hand_out
        self.firer.seal = self._parts.seal

    async def prepare(self) -> None:
        """Know what there is to claim, before the first claim."""
        await self.gates.declare()
        await self.finder.look()
        await self.gates.prepare()

    def _requeued(self, queues: Iterable[str]) -> None:
        """Jobs of these queues may be due again soon; those who claim have to plan for it."""
        self.claimer.ask(queues)
        self.gates.ask(queues)

    def flushed(self) -> None:
        """Ends have been written: claims are over, and there may be room for suspects."""
        self.claimer.able_again()
        self.gates.room_came()
        self.suspects.room_came()

    def room_came(self, queue: str | None = None) -> None:
        """A slot of a queue is free, or of any."""
        self.claimer.room_came(queue)
        self.gates.room_came()
        self.suspects.room_came()

    def rely_on_wakeups(self, hears: bool) -> None:
        """Let those who claim know whether wake-ups reach this node."""
        self.claimer.rely_on_wakeups(hears)
        self.finder.rely_on_wakeups(hears)
        self.gates.rely_on_wakeups(hears)

    def __iter__(self) -> Iterator[Service]:
        """All of them, in the order in which they start."""
        yield from (*self.writing, *self.claiming, *self.lasting)
        yield from self.announcer.services

    @property
    def writing(self) -> Sequence[Service]:
        """Those that write what jobs say and how they end; they stop last."""
        return (self.scribe, *self.finisher.services)

    @property
    def claiming(self) -> Sequence[Service]:
        """Those that bring work, or can leave theirs to others; they stop first."""
        firing = (self.firer,) if SCHEDULER in self._parts.identity.roles else ()
        chores = (
            self.pruner,
            self.lock_forgetter,
            self.rates,
            self.slot_forgetter,
            self.declarer,
            *firing,
        )
        if WORKER not in self._parts.config.node.roles:
            return chores
        claimers = (self.claimer, self.gates, self.suspects)
        # It comes first: it knows how many jobs the executors can run.
        return (
            self.unstarted,
            *claimers,
            self.responders,
            self.looker,
            self.finder,
            self.adopter,
            *chores,
        )

    @property
    def lasting(self) -> Sequence[Service]:
        """Those that go on until the last job has ended."""
        watchdog = () if self.watchdog is None else (self.watchdog,)
        leading = (self.elector, self.daemons)
        breakers = () if self.breakers is None else (self.breakers,)
        return (self.signals, self.reconciler, self.rescuer, *leading, *breakers, *watchdog)

    def work_for(self, incarnation: UUID | None) -> None:
        """Tell the services in whose name they work; with None they write nothing."""
        parts: tuple[Any, ...] = (
            self.claimer,
            self.finisher,
            self.scribe,
            self.signals,
            self.reconciler,
            self.elector,
            self.firer,
        )
        for part in parts:
            part.node_id = incarnation
        if self.breakers is not None and incarnation is not None:
            # What was seen of a service stays true, whatever became of the claims.
            self.breakers.node_id = incarnation
        self.responders.work_for(incarnation)
        self.elector.wake()
        self.firer.wake()

    async def stop_leading(self) -> None:
        """Give up the roles whose chores have ended; daemons give up their own."""
        self._does_chores = False
        await self.elector.resign(MAINTENANCE, SCHEDULER)

    def abandon(self) -> None:
        """Drop all work: others may have it by now. Ends that are known are kept unwritten."""
        self.elector.abandon()
        self.work_for(None)
        self.finisher.break_off()
        self.dispatcher.abandon()
        self.scribe.forget()
        self.claimer.floors.forget()
        self.gates.forget()

    def recoveries(self) -> int:
        """Return how often a service had an answer of the store after trouble."""
        return sum(service.recoveries for service in self)

    def store_answers(self) -> None:
        """Let the services try again that wait after trouble with the store."""
        for service in self:
            service.store_answers()

    async def release_claims(self, node: UUID) -> None:
        """Release every claim in a name of this node, those too whose reply was lost.

        A job whose end is known is not run again as if nothing had been: its claim is left to
        the rescue, which charges the job for it.
        """
        store = self._parts.store
        known = dict.fromkeys(self.finisher.known)
        claims = [claim for claim in await store.claims_of(node) if claim[0] not in known]
        if claims:
            await store.release_claims(node, claims)

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups; nothing in them means that some may be missing."""
        admitted = self.responders.admit(wakes)
        if admitted or not wakes:
            self._hand_out(admitted)

    def _hand_out(self, wakes: Sequence[Wake]) -> None:
        """Hand wake-ups to the services that wait for work."""
        self.claimer.receive(wakes)
        self.finder.receive(wakes)
        self.gates.receive(wakes)
        self.suspects.receive(wakes)
        self.elector.receive(wakes)
        self.firer.receive(wakes)
        self.announcer.receive(wakes)
        if self.breakers is not None:
            self.breakers.receive(wakes)

    def load(self) -> Mapping[str, float]:
        """Return how busy the node is."""
        unstarted = self.dispatcher.unstarted()
        return {
            **{f"{UNSTARTED}{queue}": count for queue, count in unstarted.items()},
            "running": self.dispatcher.running,
            "slots": self.dispatcher.slots,
            "connections": self._parts.store.connections(),
            "lag": 0.0 if self.watchdog is None else round(self.watchdog.lag, 3),
        }
