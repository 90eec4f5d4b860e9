"""Asks lanes without gates beside those with gates, so that a queue has one order over all of them.

While lanes of a queue that have gates are ready on this node, the claimer lends the whole queue:
its other lanes are asked in the same claims, the most urgent first. A queue without such lanes is
never lent, and pays nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from detent._engine.claim import Claimer
from detent._engine.floors import Floors
from detent._engine.lanes import KnownLanes
from detent.model.gates import is_gated
from detent.model.job import Claim, queue_of
from detent.spi.scans import LaneScan

# For how long a lane that was empty is not asked again, unless a hint comes.
EMPTY: Final = 1.0


class LentQueues:
    """The queues that the claimer has lent."""

    def __init__(
        self, claimer: Claimer, lanes: KnownLanes, own: Floors, monotonic: Callable[[], float]
    ) -> None:
        self._claimer = claimer
        self._lanes = lanes
        self._own = own
        self._monotonic = monotonic
        self._lent: dict[str, None] = {}
        self._empty: dict[str, float] = {}
        """Lanes without gates that were empty, and until when that is believed."""

    def __contains__(self, queue: str) -> bool:
        return queue in self._lent

    def heard(self, lane: str) -> None:
        """Something happened in a lane: it need not be empty any more."""
        self._empty.pop(lane, None)

    def found_empty(self, lane: str) -> None:
        """A claim found nothing at all in a lane without gates."""
        self._empty[lane] = self._monotonic() + EMPTY

    def borrow(self, queues: Iterable[str]) -> None:
        """Ask all lanes of these queues from now on."""
        now = self._monotonic()
        for queue in queues:
            if queue not in self._lent:
                self._lent[queue] = None
                self._claimer.lend(queue)
            lanes = self._claimer.lanes_by_queue[queue]
            self._lanes.meet([lane for lane in lanes if self._empty.get(lane, now) <= now])

    def give_back(self, *, also_ready: bool = False) -> None:
        """Leave queues to the claimer again in which nothing with gates is ready."""
        for queue in [*self._lent]:
            if also_ready or not self._lanes.is_ready_in(queue):
                del self._lent[queue]
                self._claimer.take_back(queue, self._lanes.leave_beside(queue))

    # Where scans begin: in lanes that are lent where those of the claimer do.

    def floors_of(self, beside: bool) -> Floors:
        """Return the floors that count in a lane."""
        return self._claimer.floors if beside else self._own

    def raise_floors(self, claims: Sequence[Claim], scans: Sequence[LaneScan]) -> None:
        """Take in what was claimed."""
        if not self._lent:
            self._own.raise_to(claims, scans)
            return
        own: list[Claim] = []
        lent: list[Claim] = []
        for claim in claims:
            is_lent = queue_of(claim.lane) in self._lent and not is_gated(claim.lane)
            (lent if is_lent else own).append(claim)
        self._own.raise_to(own, scans)
        self._claimer.floors.raise_to(lent, scans)
