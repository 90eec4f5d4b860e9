"""Claims jobs that may have killed their node: many together, and fewer after each crash.

Should it happen again, one of those that ran together did it. After some crashes a suspect runs
without another one on its node, and then the culprit is known.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol
from uuid import UUID

from detent._engine.claim import Admit, Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.service import Service
from detent.events import Bus
from detent.model.job import SUSPECT, Claim
from detent.model.rescue import is_suspect, suspect_lane, together
from detent.spi.nodes import NodeStore
from detent.spi.notifier import Wake
from detent.spi.runtime import Runtime
from detent.spi.scans import LaneScan
from detent.spi.store import ClaimStore

# Suspects are few, and hints tell of them; this is for hints that were lost.
INTERVAL: Final = timedelta(seconds=15)
# The share of a full queue's slots that is kept for suspects while some wait.
KEPT: Final = 1 / 4


class SuspectStore(ClaimStore, NodeStore, Protocol):
    """What claims suspects, and gives back those that may not run together."""


class SuspectClaimer(Service):
    """Asks for suspects, as many as may run together on this node."""

    name = "suspects"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: SuspectStore,
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
        self._declined = False
        """Whether a suspect waits that must not run beside those that are here."""
        self._refused: list[tuple[UUID, int]] = []
        """Claims of such suspects, which are to be given back."""
        self._in_doubt = False
        """Whether a claim was made, or not, of whose end we have not been told."""
        self.compare: Callable[[], Awaitable[None]] | None = None
        """What gives back claims that the node does not know of."""
        self.claim_gated: Callable[[int, Mapping[str, int], Admit], Awaitable[None]] | None = None
        """What claims suspects that stand behind a gate."""

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier; nothing in them means that some may be missing."""
        if not wakes or any(getattr(wake, "lane", "").endswith(SUSPECT) for wake in wakes):
            self.wake()

    def room_came(self) -> None:
        """A job has ended: perhaps a suspect, perhaps one that was in the way of one."""
        if self._holds or self._dispatcher.kept_back:
            self.wake()

    async def run_once(self) -> float:
        """Claim suspects until there are no more, or no more may run here."""
        if self._more() == 0 or not self._claimer.able:
            return self.unasked(INTERVAL.total_seconds())
        if self._in_doubt and self.compare is not None:
            await self.compare()
        lanes = {
            suspect_lane(lane): queue
            for queue, lanes in self._claimer.lanes_by_queue.items()
            for lane in lanes
        }
        self._in_doubt = True
        while (more := self._more()) and await self._claim(lanes, more):
            pass
        self._in_doubt = False
        self._dispatcher.kept_back = {}
        if more := self._more():
            self._dispatcher.kept_back = await self._awaited(lanes, more)
        return INTERVAL.total_seconds() * self.runtime.uniform(0.8, 1.0)

    async def _claim(self, lanes: Mapping[str, str], most: int) -> bool:
        """Claim at most so many, first those without gates; return whether any came to stay."""
        node = self._claimer.node_id
        if node is None or not self._claimer.able:
            return False
        before = len(self._crashes())
        free = self._free()
        scans = [
            LaneScan(lane, queue, min(most, free[queue]))
            for lane, queue in lanes.items()
            if free[queue] > 0
        ]
        if scans:
            await self._claimer.claim(scans, most, self._admit)
        if self.claim_gated is not None and len(self._crashes()) == before and self._more():
            await self.claim_gated(most, self._free(), self._admit)
        if self._refused and self._claimer.node_id == node:
            await self._store.release_claims(node, self._refused)
        self._refused = []
        return len(self._crashes()) > before

    def _admit(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return those that may run together, beside those that are here."""
        crashes, admitted = self._crashes(), []
        for claim in claims:
            worst = max([*crashes, claim.crashes])
            if len(crashes) < together(worst, self._max_crashes):
                crashes.append(claim.crashes)
                admitted.append(claim)
            else:
                self._refused.append((claim.id, claim.fence))
        self._declined |= bool(self._refused)
        return admitted

    async def _awaited(self, lanes: Mapping[str, str], more: int) -> dict[str, int]:
        """Return the room to keep in queues that are full while suspects of theirs wait.

        Otherwise a node that always has enough to do would never take one: whatever becomes free
        is claimed at once.
        """
        free = self._free()
        full = [lane for lane, queue in lanes.items() if free[queue] == 0]
        if not full:
            return {}
        queues = dict.fromkeys(lanes[found.lane] for found in await self._store.look(full))
        slots = self._dispatcher.queues
        return {queue: min(more, max(int(slots[queue].limit * KEPT), 1)) for queue in queues}

    def _free(self) -> dict[str, int]:
        """Return how many claims of each queue could start at once, with what is kept back."""
        rooms = self._dispatcher.all_rooms()
        free = self._dispatcher.free(list(rooms))
        return {queue: min(room, free[queue]) for queue, room in rooms.items()}

    def _more(self) -> int:
        """Return how many suspects the node may take beside those that it holds."""
        crashes = self._crashes()
        self._holds = bool(crashes)
        if not crashes:
            # How many may run beside it is known when it is here.
            self._declined = False
            return 1
        if self._declined:
            return 0
        return max(together(max(crashes), self._max_crashes) - len(crashes), 0)

    def _crashes(self) -> list[int]:
        """Return how often the suspects that the node holds have crashed."""
        held = [each.claim.crashes for each in self._dispatcher.held.values()]
        return [crashes for crashes in held if is_suspect(crashes, self._max_crashes)]
