"""One node: its start, its watch over its lease, its drain and its end."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from detent._engine.attempt import Stop
from detent._engine.crew import Crew
from detent._engine.listen import Listener
from detent._engine.membership import Membership
from detent._engine.parts import NodeParts
from detent._engine.patience import LAST_CALL, Patience
from detent._engine.service import Service
from detent._engine.wakeup import Wakeup
from detent.errors import ConfigError, StoreError
from detent.events import (
    HookFailed,
    NodeDraining,
    NodeFenced,
    NodeReplaced,
    NodeStarted,
    NodeStopped,
    TasksUnreached,
)
from detent.model.failure import describe
from detent.spi.nodes import NodeIdentity
from detent.spi.notifier import EVERYONE, SignalHint, Wake

# How often the lease is looked at, as a share of it.
WATCH: Final = 1 / 30
# A fenced node asks again for the store at most this share of its lease later.
RETURN: Final = 1 / 10
# What was told to stop gets this long to end, before its claims are given back all the same.
STOP_GRACE: Final = 5.0
FLUSH_LIMIT: Final = 10.0
UNDO_LIMIT: Final = 2.0


class Node:
    """A running node."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._runtime, self._bus = parts.runtime, parts.bus
        self._crew = Crew(parts)
        self._membership = self._member(parts.identity)
        self._crew.claimer.may_claim = self._may_claim
        self._crew.bench.may_run = self._has_lease
        self._crew.bench.is_dying = self._is_dying
        self._crew.claimer.store_time = self._store_time
        self._crew.finisher.on_flushed = self._flushed
        self._tasks: dict[str, Any] = {}
        self._quiet, self._called = Wakeup(self._runtime), Wakeup(self._runtime)
        self._slots: Mapping[str, int] = {}
        self._stop_asked, self._stopped = asyncio.Event(), asyncio.Event()
        self._stopping = False
        self._patience = Patience(self._runtime, self._bus)
        self.was_sent_away = False
        """Whether it ends because somebody drained it by name, from outside."""
        self._recycled = False
        """Whether it ends because a fresh process is to take its place."""
        self._draining = asyncio.Lock()
        self._listener: Listener | None = None

    def _member(self, identity: NodeIdentity) -> Membership:
        """Return a place in the cluster, not yet taken."""
        parts, crew = self._parts, self._crew
        member = Membership(self._runtime, self._bus, parts.store, identity, parts.config.cluster)
        member.load = lambda: {**crew.load(), **parts.load()}
        member.on_news = crew.rescuer.hear
        if crew.watchdog is not None:
            member.beside = crew.watchdog.look_on
        return member

    @property
    def identity(self) -> NodeIdentity:
        """Who this node is at the moment."""
        return self._membership.identity

    @property
    def store_is_silent(self) -> bool:
        """Whether the store did not answer while the node ended."""
        return self._patience.unanswered

    @property
    def busy(self) -> int:
        """How many jobs run."""
        return self._crew.dispatcher.busy

    def _may_claim(self) -> bool:
        return not self._crew.finisher.overloaded and self._has_lease()

    def _has_lease(self) -> bool:
        return self._membership.trouble() is None

    def _is_dying(self) -> bool:
        """Whether all tasks of the loop were canceled: the program ends without a drain."""
        watch = self._tasks.get("watch")
        return watch is not None and watch.cancelling() > 0

    def _store_time(self) -> datetime:
        # The membership of the moment: after a fence it is another one.
        return self._membership.store_time()

    def _flushed(self) -> None:
        self._crew.flushed()
        if not self._crew.dispatcher.held:
            self._quiet.set()

    # Start

    async def start(self) -> None:
        """Join the cluster and begin to work."""
        if self._has_had_enough():
            limit, rss = self._parts.config.node.max_rss, self._parts.load()["rss"]
            raise ConfigError(
                f"max_rss = {limit:,}: the process takes {rss:,.0f} bytes before its first job"
            )
        await self._run_hooks("start")
        try:
            await self._membership.join(ready=False)
            await self._begin()
        except BaseException:
            await self._undo_start()
            raise
        # A node that is told to leave does so by itself; its program may have no part in it.
        self._tasks["ending"] = self._runtime.spawn(self.wait_stopped(), "detent-ending")
        self._bus.emit(
            NodeStarted(self.identity.incarnation, self.identity.name, self.identity.queues)
        )
        if self._parts.unreached:
            self._bus.emit(TasksUnreached(self.identity.incarnation, self._parts.unreached))
        await self._run_hooks("ready")

    async def _begin(self) -> None:
        await self._bury_predecessors()
        self._crew.work_for(self._membership.incarnation)
        await self._crew.declarer.begin()
        with contextlib.suppress(StoreError):
            # Before the first claim, if the store answers; otherwise as soon as it does.
            await self._crew.prepare()
        if self._parts.limits:
            # The first heartbeat may have been before: which queues have a limit is to be heard.
            self._called.set()
        await self._membership.activate()
        for service in self._crew:
            self._spawn(service)
        if self._parts.notifier is not None and self._parts.config.wakeup.enabled:
            notifier = self._parts.notifier
            self._listener = Listener(self._runtime, self._bus, notifier, self._receive)
            self._listener.on_change = self._crew.rely_on_wakeups
            self._tasks["listener"] = self._runtime.spawn(self._listener.run(), "detent-listener")
        else:
            self._crew.rely_on_wakeups(False)
        self._tasks["watch"] = self._runtime.spawn(self._watch(), "detent-watch")

    async def _undo_start(self) -> None:
        """Leave nothing behind of a start that failed: its heart would go on beating."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(UNDO_LIMIT):
                await self._membership.leave()

    async def _bury_predecessors(self) -> None:
        """Declare nodes dead whose process is known to have ended; the rescuer's first look
        takes their jobs.
        """
        store, mine = self._parts.store, self._membership.incarnation
        gone = [
            node.incarnation
            for node in await store.nodes()
            if node.state != "dead" and node.incarnation != mine and self._parts.is_gone(node)
        ]
        if gone:
            await store.declare_dead(gone, "its process had ended when another one started")

    def _spawn(self, service: Service) -> None:
        self._tasks[service.name] = self._runtime.spawn(service.run(), f"detent-{service.name}")

    def _receive(self, wakes: Sequence[Wake]) -> None:
        meant = (self._membership.incarnation, EVERYONE)
        if any(isinstance(wake, SignalHint) and wake.node in meant for wake in wakes):
            # For its jobs, or for the node itself.
            self._crew.signals.wake()
            self._called.set()
        self._crew.receive(wakes)

    # Watching over the lease

    async def _watch(self) -> None:
        """Stop everything when the lease is lost, and join again under a new incarnation."""
        pause = self._parts.config.cluster.lease.total_seconds() * WATCH
        unanswered, recoveries = False, 0
        while True:
            if await self._called.wait(pause):
                await self._membership.ask(pause)
            before = unanswered, recoveries
            unanswered, recoveries = self._membership.unanswered, self._crew.recoveries()
            if (before[0] and not unanswered) or recoveries != before[1]:
                self._store_answers()
            if self._membership.slots != self._slots:
                self._slots = self._membership.slots
                self._crew.dispatcher.resize(self._slots)
            self._crew.gates.hear_of(self._membership.limited)
            self._crew.responders.hear_of(self._membership.nodes, self._membership.limited)
            trouble = self._membership.trouble()
            if trouble is not None:
                await self._fence(trouble)
            elif not self._stopping and (self._membership.draining or self._has_had_enough()):
                self.was_sent_away = self._membership.draining
                self._recycled = not self.was_sent_away
                self.stop()
            elif not self._stopping and (stuck := self._crew.dispatcher.too_many_stuck()):
                self._recycled = True
                self._bus.emit(NodeReplaced(self.identity.incarnation, *stuck))
                self.stop()

    def _store_answers(self) -> None:
        self._crew.store_answers()
        if self._listener is not None:
            self._listener.store_answers()

    def _has_had_enough(self) -> bool:
        """Tell whether the process is to be replaced by a fresh one."""
        config = self._parts.config.node
        if config.max_jobs is not None and self._crew.dispatcher.ended >= config.max_jobs:
            return True
        return config.max_rss is not None and self._parts.load().get("rss", 0) > config.max_rss

    async def _fence(self, reason: str) -> None:
        """Drop all work: others may have it by now. What had ended waits for `_retire`."""
        old = self._membership
        self._bus.emit(NodeFenced(old.incarnation, reason))
        self._crew.abandon()
        # A drain need not wait any longer for what is no longer here.
        self._quiet.set()
        await old.stop()
        lease = self._parts.config.cluster.lease.total_seconds()
        pause = min(0.5, lease * RETURN)
        while True:
            fresh = self._member(replace(old.identity, incarnation=self._runtime.new_id()))
            try:
                await self._retire(old, reason)
                if self._draining.locked():
                    return  # nobody will work under a new name any more
                await fresh.join()
            except StoreError:
                await self._runtime.sleep(pause * self._runtime.uniform(0.5, 1.0))
                # Often enough to be back long before the others may take what it held: they wait
                # for a whole lease, from the first answer that one of them gets.
                pause = min(pause * 2, lease * RETURN)
                continue
            self._membership = fresh
            self._store_answers()
            self._crew.work_for(fresh.incarnation)
            self._crew.claimer.poll_soon()
            return

    async def _retire(self, old: Membership, reason: str) -> None:
        """Write what had ended under the old incarnation and give back what else it held.

        Claims that others took meanwhile stay with them: the fence decides. Nothing is held
        against the jobs that go back: they were stopped, and no process crashed.
        """
        await self._crew.finisher.write_known(old.incarnation)
        await self._crew.release_claims(old.incarnation)
        # Jobs whose end the store refuses to the last are left to the rescue, which charges them.
        gives_all_back = not self._crew.finisher.known
        await self._parts.store.declare_dead([old.incarnation], reason, fenced=gives_all_back)
        self._crew.finisher.abandon(f"the node was fenced: {reason}")
        # A claim that was on its way until then is found now, and not by the next sweep.
        self._crew.rescuer.wake()

    # End

    def stop(self, *, now: bool = False) -> None:
        """Make the node drain and end; a second time, or with `now`, without waiting."""
        hurry = now or self._stopping
        self._stopping = True
        self._stop_asked.set()
        if hurry:
            self._patience.hurry()
            self._quiet.set()
            self._crew.daemons.hurry()

    async def wait_stopped(self) -> None:
        """Wait until the node was asked to stop, drain it, and return when it is gone."""
        await self._stop_asked.wait()
        await self.drain()

    async def drain(self) -> None:
        """Claim no more, wait for what runs, give back the rest, and leave."""
        async with self._draining:
            if not self._stopped.is_set():
                await self._drain()
        # Also for those that wait for it although nobody called `stop`.
        self._stop_asked.set()

    async def _drain(self) -> None:
        for service in self._crew.claiming:
            service.stop()
        self._crew.dispatcher.drain()
        await self._run_hooks("drain")
        self._bus.emit(NodeDraining(self.identity.incarnation, self._crew.dispatcher.busy))
        limit = self._parts.config.node.drain_timeout.total_seconds()
        ends_at = self._runtime.monotonic() + limit
        grace = 0.0 if self._patience.hurried else limit
        winding_down = self._runtime.spawn(self._crew.daemons.wind_down(grace), "detent-wind-down")
        await self._end(LAST_CALL, *self._crew.claiming)
        await self._patience.attempt(self._crew.stop_leading())
        drain = self._parts.store.drain(self.identity.incarnation, returns=self._recycled)
        await self._patience.attempt(drain)
        await self._wait_quiet(ends_at - self._runtime.monotonic(), unless_hurried=True)
        stopped = self._crew.dispatcher.stop_all(Stop.DRAIN)
        # Also for those that have ended: what is not written yet would be done again.
        await self._wait_quiet(self._stop_grace())
        # Those that would not stop are given back as well; they are among the stopped.
        await self._give_back_the_rest()
        released = self._crew.dispatcher.released + stopped
        await self._patience.see_end([winding_down], limit + FLUSH_LIMIT)
        await self._patience.attempt(self._crew.elector.retire())
        await self._leave()
        self._bus.emit(NodeStopped(self.identity.incarnation, released))
        await self._run_hooks("stop")
        self._stopped.set()
        gone = self._parts.on_gone()
        if gone is not None:
            await gone

    async def _wait_quiet(self, limit: float, *, unless_hurried: bool = False) -> None:
        """Wait until nothing is held any more, or the limit, or until we are told to hurry."""
        ends_at = self._runtime.monotonic() + limit
        while self._crew.dispatcher.held and (left := ends_at - self._runtime.monotonic()) > 0:
            if unless_hurried and self._patience.hurried:
                return
            await self._quiet.wait(left)

    def _stop_grace(self) -> float:
        """Return how long what was told to stop has to end: ends cannot be written in silence."""
        return self._patience.limit(STOP_GRACE) if self._patience.unanswered else STOP_GRACE

    async def _give_back_the_rest(self) -> None:
        """Release the claims of what would not stop; what it writes later is refused."""
        self._crew.dispatcher.abandon()
        await self._patience.attempt(self._hand_back(self.identity.incarnation), needed=True)
        self._crew.finisher.abandon("the node ended before the store took it")

    async def _hand_back(self, node: UUID) -> None:
        with contextlib.suppress(StoreError):
            await self._crew.finisher.write_known(node)
        await self._crew.release_claims(node)

    async def _leave(self) -> None:
        """End the services and the membership, in that order: heartbeats go on to the last."""
        for name in ("watch", "listener"):
            task = self._tasks.pop(name, None)
            if task is not None:
                task.cancel()
        await self._end(FLUSH_LIMIT, *self._crew.lasting, *self._crew.writing)
        # After the last end is written, so that it is told too.
        await self._end(FLUSH_LIMIT, *self._crew.announcer.services)
        await self._crew.announcer.close()
        if self._recycled:
            # Meanwhile somebody may have drained it by name: then nobody is to take its place.
            await self._membership.ask(self._patience.limit(LAST_CALL))
            self.was_sent_away = self._membership.draining
        await self._patience.attempt(self._membership.leave(), needed=True)
        for name, executor in self._parts.executors.items():
            try:
                await executor.close()
            except Exception as error:  # noqa: BLE001  somebody's own must not keep us here
                self._bus.emit(HookFailed(f"{name}.close()", describe(error)))
        if self._parts.lifetime is not None:
            for name, failure in await self._parts.lifetime.close():
                self._bus.emit(HookFailed(f"closing {name}", describe(failure)))

    async def _end(self, limit: float, *services: Service) -> None:
        for service in services:
            service.stop()
        tasks = [self._tasks.pop(each.name) for each in services if each.name in self._tasks]
        await self._patience.see_end(tasks, limit)

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
