"""Keeps the node's lease alive, from a thread of its own, and knows when it is lost.

User code can block the event loop; it cannot block this. A node that could not renew for two
thirds of its lease must assume that others will soon take its jobs, and stops first.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from detent._engine.maintenance.rescue import LeaseNews
from detent.config import ClusterConfig
from detent.errors import Conflict, StoreError
from detent.events import Bus, ClockSkew
from detent.spi.nodes import NodeIdentity, NodeStore
from detent.spi.runtime import Runtime, Thread
from detent.spi.store import StoreLifecycle

TRUST: Final = 2 / 3
# After a beat that failed the next follows after this share of the interval.
RETRY: Final = 0.1


class HeartbeatStore(NodeStore, StoreLifecycle, Protocol):
    """What a heartbeat needs of a store: its thread also closes the connections it opened."""


class Membership:
    """One incarnation's place in the cluster."""

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: HeartbeatStore,
        identity: NodeIdentity,
        config: ClusterConfig,
    ) -> None:
        self._runtime = runtime
        self._bus = bus
        self._store = store
        self._config = config
        self._thread: Thread | None = None
        self._renewed = runtime.monotonic()
        self._dead = False
        self._store_time = datetime.min.replace(tzinfo=UTC)
        self.identity = identity
        self.skew = timedelta(0)
        self.unanswered = False
        """Whether the last heartbeat got no answer."""
        self.draining = False
        """Whether somebody wants this node to drain."""
        self.slots: Mapping[str, int] = {}
        """What was said for all nodes about the slots of queues."""
        self.nodes = 0
        """How many nodes are active."""
        self.limited: Sequence[str] = ()
        """The queues that have a limit of their own."""
        self.beside: Callable[[], Coroutine[Any, Any, None]] | None = None
        """What else is to be done on the thread of the heartbeat, for as long as it beats."""
        self.load: Callable[[], Mapping[str, float]] = dict
        self.on_news: Callable[[LeaseNews], None] = lambda _news: None
        """Both are called on the thread of the heartbeat."""

    @property
    def incarnation(self) -> UUID:
        """Who this node is, this time."""
        return self.identity.incarnation

    async def join(self, *, ready: bool = True) -> None:
        """Register, and begin to beat; who is not ready gets nothing to do yet."""
        before = self._runtime.monotonic()
        self._measure(await self._store.join(self.identity, self._config.lease, ready=ready))
        self._renewed = before
        self._thread = self._runtime.thread(self._beat_on, "detent-heartbeat")

    async def activate(self) -> None:
        """Be ready to work from now on."""
        # Told to drain meanwhile, or taken for dead: the next heartbeat says so, and what follows.
        with contextlib.suppress(Conflict):
            self._measure(await self._store.join(self.identity, self._config.lease))

    async def leave(self) -> None:
        """Stop beating and take the name off the list, unless claims are left behind."""
        await self.stop()
        await self._store.leave(self.incarnation)

    async def stop(self) -> None:
        """Stop beating."""
        if self._thread is not None:
            self._thread.stop()
            await self._thread.joined()
            self._thread = None

    def trouble(self) -> str | None:
        """Return why this incarnation must stop working, or None while all is well."""
        if self._dead:
            return "the cluster has declared it dead"
        silent = self._runtime.monotonic() - self._renewed
        if silent > self._config.lease.total_seconds() * TRUST:
            return f"its lease could not be renewed for {silent:.1f} s"
        return None

    async def _beat_on(self) -> None:
        """Beat until stopped; runs on its own thread, with its own connection."""
        interval = self._config.heartbeat_interval.total_seconds()
        trust = self._config.lease.total_seconds() * TRUST
        # A beat that gets no answer must leave time for another before the trust ends.
        patience = min(interval, (trust - interval) / 2)
        beside = self._begin_beside()
        try:
            while not self._dead:
                pause = interval * self._runtime.uniform(0.9, 1.0)
                try:
                    # Not wait_for: before Python 3.12 it may swallow the order to stop.
                    async with asyncio.timeout(patience):
                        self.unanswered = not await self._beat()
                    if self.unanswered:
                        pause = interval * RETRY
                except (StoreError, TimeoutError):
                    # The store's trouble is told by the services; here only time counts.
                    self.unanswered = True
                    pause = interval * RETRY
                await self._runtime.sleep(pause)
        finally:
            if beside is not None:
                beside.cancel()
            await self._store.close()

    def _begin_beside(self) -> Any:
        if self.beside is None:
            return None
        return self._runtime.spawn(self.beside(), "detent-beside-heartbeat")

    async def ask(self, patience: float) -> None:
        """Hear now what the next heartbeat would bring; trouble with the store is left to it.

        Whoever asks also watches over the lease, and must not wait for long.
        """
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(patience):
                await self._beat()

    async def _beat(self) -> bool:
        """Renew the lease; return whether it was, or only stands because nobody can write."""
        before = self._runtime.monotonic()
        beat = await self._store.beat(self.incarnation, self._config.lease, self.load())
        if not beat.alive:
            self._dead = True
            return True
        if beat.safe_for is not None:
            trusted = self._config.lease.total_seconds() * TRUST
            self._renewed = max(self._renewed, before + min(beat.safe_for - trusted, 0.0))
            return False
        # The lease counts from when the store read its clock, which is not before we asked. An
        # answer that waited for a blocked loop does not undo what the thread has heard since.
        self._renewed = max(self._renewed, before)
        self.draining = beat.draining
        self.slots = beat.slots
        self.nodes, self.limited = beat.nodes, beat.limited
        now = self._runtime.monotonic()
        self.on_news(LeaseNews(now, None if beat.next_end is None else now + beat.next_end))
        self._measure(beat.now)
        return True

    def store_time(self) -> datetime:
        """Return a moment of the store's clock that has passed, and not long ago."""
        return self._store_time

    def _measure(self, store_now: datetime) -> None:
        self._store_time = store_now
        skew = self._runtime.utcnow() - store_now
        if abs(skew) > self._config.skew_warning >= abs(self.skew):
            self._bus.emit(ClockSkew(self.incarnation, skew.total_seconds()))
        self.skew = skew
