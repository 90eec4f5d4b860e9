"""Gives the jobs of dead nodes to the living, as soon as a lease has run out.

No node is in charge of this. Each heartbeat brings the moment when the first lease of another
node ends; every node looks then, a little apart from the others, and the store gives each lost
claim to one of them. While all nodes are well that moment never comes.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from detent._engine.service import Service
from detent.events import Bus, ClaimOrphaned, JobRescued, NodeDied
from detent.model.job import queue_of
from detent.spi.rescue import Rescued, RescueStore
from detent.spi.runtime import Runtime

PAGE: Final = 500
# Nodes look this long apart from each other, so that one finds the work done by the first.
APART: Final = 0.5
# The leader looks everywhere, which reads all claims, dead rows included: it takes at most this
# share of the time. What was slow may have been the line, so the rest has an end.
SHARE: Final = 0.01
LONGEST_REST: Final = 300.0
# How often the news of the heartbeat, which come on another thread, are looked at, and claims that
# somebody was busy with.
GLANCE: Final = 1.0


class LeaseNews(NamedTuple):
    """What a heartbeat told of the others' leases, by the node's own monotonic clock."""

    heard_at: float
    ends_at: float | None
    """When the first lease of another node ends."""


NOTHING: Final = LeaseNews(0.0, None)


class Rescuer(Service):
    """Looks when a lease ends, and every so often for what was left behind."""

    name = "rescuer"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: RescueStore,
        *,
        max_crashes: int,
        sweep_interval: timedelta,
        forget_after: timedelta,
        leads: Callable[[], bool],
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._max_crashes = max_crashes
        self._sweep_interval = sweep_interval.total_seconds()
        self._forget_after = forget_after
        self._leads = leads
        """Whether this node does the chores of the cluster."""
        self._looked_at: float | None = None
        self._sweep_at = 0.0
        self._everywhere_at = 0.0
        self._apart = 0.0
        self._busy = False
        self._news = NOTHING
        self.on_rescued: Callable[[Sequence[Rescued]], None] = lambda _jobs: None

    def hear(self, news: LeaseNews) -> None:
        """Take what the heartbeat heard; called on its thread."""
        self._news = news

    async def run_once(self) -> float:
        """Rescue a page if there may be something to rescue; else do nothing."""
        now = self.runtime.monotonic()
        if not (self.woken or self._is_due(now)):
            return self.unasked(self._wait(now))
        sweep = self._looked_at is None or now >= self._sweep_at
        everywhere = sweep and now >= self._everywhere_at and self._leads()
        rescue = await self._store.rescue(PAGE, self._max_crashes, everywhere=everywhere)
        if everywhere:
            took = self.runtime.monotonic() - now
            self._everywhere_at = now + min(took / SHARE, LONGEST_REST)
        for node in rescue.nodes:
            self.bus.emit(NodeDied(node.incarnation, node.name, node.host, node.pid))
        for job in rescue.jobs:
            self.bus.emit(JobRescued(job.id, job.task, job.queue, job.node, job.state, job.crashes))
        for orphan in rescue.orphans:
            queue = queue_of(orphan.lane)
            self.bus.emit(ClaimOrphaned(orphan.id, queue, orphan.node, orphan.fence))
        self.on_rescued(rescue.jobs)
        self._busy = rescue.busy > 0
        if len(rescue.jobs) + len(rescue.orphans) >= PAGE:
            self.wake()
            return 0.0
        if sweep:
            await self._store.forget_nodes(self._forget_after, PAGE)
            self._sweep_at = now + self._sweep_interval * self.runtime.uniform(0.8, 1.0)
        self._looked_at = now
        self._apart = self.runtime.uniform(0.0, APART)
        return self._wait(now)

    def _is_due(self, now: float) -> bool:
        if self._looked_at is None or now >= self._sweep_at or self._busy:
            return True
        heard_at, ends_at = self._news
        if ends_at is None or now < ends_at + self._apart:
            return False
        # Another lease may end before the next heartbeat tells of it: until then, look often.
        return self._looked_at < max(ends_at, heard_at) or now >= self._looked_at + GLANCE

    def _wait(self, now: float) -> float:
        moments = [now + GLANCE, self._sweep_at]
        if self._news.ends_at is not None:
            moments.append(self._news.ends_at + self._apart)
        return max(min(moment for moment in moments if moment > now), 0.01) - now + 0.001
