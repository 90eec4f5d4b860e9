"""Claims jobs that may have killed their node, one at a time.

Should it happen again, the culprit is known: a node never holds a second suspect.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from detent._engine.claim import Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.service import Service
from detent.events import Bus
from detent.model.job import SUSPECT
from detent.model.rescue import is_suspect, suspect_lane
from detent.spi.notifier import Wake
from detent.spi.runtime import Runtime
from detent.spi.scans import LaneScan
from detent.spi.store import ClaimStore

# Suspects are few, and hints tell of them; this is for hints that were lost.
INTERVAL: Final = timedelta(seconds=15)


class SuspectClaimer(Service):
    """Asks for one suspect while the node has none."""

    name = "suspects"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: ClaimStore,
        *,
        claimer: Claimer,
        dispatcher: Dispatcher,
        max_crashes: int,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._claimer = claimer
        self._dispatcher = dispatcher
        self._max_crashes = max_crashes
        self._holds = False
        self._in_doubt = False
        """Whether a claim was made, or not, of whose end we have not been told."""
        self.compare: Callable[[], Awaitable[None]] | None = None
        """What gives back claims that the node does not know of."""
        self.claim_gated: Callable[[], Awaitable[None]] | None = None
        """What claims a suspect that stands behind a gate."""

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier; nothing in them means that some may be missing."""
        if not wakes or any(getattr(wake, "lane", "").endswith(SUSPECT) for wake in wakes):
            self.wake()

    def room_came(self) -> None:
        """A job has ended: perhaps the suspect, perhaps one that was in the way of one."""
        if self._holds or self._dispatcher.kept_back:
            self.wake()

    async def run_once(self) -> float:
        """Claim one, unless one is here."""
        if self._has_one():
            return INTERVAL.total_seconds()
        if self._in_doubt and self.compare is not None:
            await self.compare()
        rooms = self._dispatcher.all_rooms()
        lanes = {
            suspect_lane(lane): queue
            for queue, lanes in self._claimer.lanes_by_queue.items()
            for lane in lanes
        }
        scans = [LaneScan(lane, queue, 1) for lane, queue in lanes.items() if rooms[queue] > 0]
        self._in_doubt = True
        if scans and self._claimer.able:
            await self._claimer.claim(scans, 1)
        if self.claim_gated is not None and self._claimer.able and not self._has_one():
            await self.claim_gated()
        self._in_doubt = False
        self._dispatcher.kept_back = {}
        if not self._has_one():
            full = [lane for lane, queue in lanes.items() if rooms[queue] == 0]
            self._dispatcher.kept_back = await self._awaited(full, lanes)
        return INTERVAL.total_seconds() * self.runtime.uniform(0.8, 1.0)

    async def _awaited(self, full: Sequence[str], lanes: Mapping[str, str]) -> dict[str, int]:
        """Return the room to keep in queues that are full while suspects of theirs wait.

        Otherwise a node that always has enough to do would never take one: whatever becomes free
        is claimed at once.
        """
        if not full:
            return {}
        return {lanes[found.lane]: 1 for found in await self._store.look(full)}

    def _has_one(self) -> bool:
        held = self._dispatcher.held.values()
        self._holds = any(is_suspect(each.claim.crashes, self._max_crashes) for each in held)
        return self._holds
