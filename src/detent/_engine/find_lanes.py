"""Finds lanes with gates of which no hint has told, page by page, beside the hot path."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from detent._engine.lanes import KnownLanes
from detent._engine.look import rest_after
from detent._engine.permits import GateStore
from detent.model.job import SUSPECT
from detent.spi.limits import Head
from detent.spi.runtime import Runtime

PAGE: Final = 500
# Hints tell of lanes and of open gates; these looks are for hints that were lost.
LOOK: Final = 5.0
ALONE: Final = 1.0
# The pause between looks of a node that hears hints and has long seen no job behind a gate.
RARE_LOOK: Final = 20.0


class LaneFinder:
    """The looks of one node."""

    def __init__(
        self, runtime: Runtime, store: GateStore, lanes: KnownLanes, boost_interval: timedelta
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._lanes = lanes
        self._boost_interval = boost_interval
        self._cursor = ""
        self._stirred_at = runtime.monotonic()
        """When this node last knew of a job behind a gate."""
        self.next_at = 0.0
        self.alone = False
        """Whether no hints reach the node."""

    @property
    def is_at_the_beginning(self) -> bool:
        """Whether the next look is the first of a round."""
        return not self._cursor

    def soon(self) -> None:
        """Look at all lanes as soon as possible."""
        self.next_at, self._cursor = 0.0, ""

    def recheck(self, quiet: float = 0.0) -> float:
        """Return when to ask again: the later, the longer it has been `quiet`."""
        least, most = (ALONE, LOOK) if self.alone else (LOOK, RARE_LOOK)
        return min(max(quiet, least), most) * self._runtime.uniform(0.8, 1.0)

    def since(self, head: Head | None) -> tuple[int, float] | None:
        """Return a head with the moment since when it is due, by this node's clock."""
        if head is None:
            return None
        return head.priority, self._runtime.monotonic() - head.waited

    async def look(self, queues: Collection[str], *, stirred: bool) -> bool:
        """Look at the next page of lanes; return whether new suspects are among them.

        A look may walk over many dead rows, so it is never part of a claim or a heartbeat, and its
        share of the time is bounded.
        """
        before = self._runtime.monotonic()
        page = await self._store.gated_lanes(
            list(queues), self._cursor, PAGE, self._boost_interval, self._lanes.families.names
        )
        news = [
            found.lane
            for found in page
            if self._lanes.find(found.lane, found.due_in, self.since(found.head))
        ]
        self._cursor = page[-1].lane if len(page) == PAGE else ""
        now = self._runtime.monotonic()
        if page or stirred or self._lanes.any_known:
            self._stirred_at = now
        pause = 0.0 if self._cursor else self.recheck(now - self._stirred_at)
        # Of new ones nobody has told: there may be more, and slots that wait for them.
        rest = 0.0 if self._cursor and news else rest_after(now - before)
        self.next_at = now + max(pause, rest)
        return any(lane.endswith(SUSPECT) for lane in news)
