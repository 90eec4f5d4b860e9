"""Where scans begin: behind the dead rows that vacuum may not yet remove.

For every lane and priority the position of the first job of the last claim. Jobs can come to
stand below it (a release, a rescue, a transaction that committed late): wake-ups with positions
and the looker lower it again.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from detent.model.job import Claim, Position, Priority
from detent.spi.notifier import Hint, Wake
from detent.spi.scans import Floor, LaneScan

_LOWEST: Final = UUID(int=0)
_NONE: Final[tuple[Floor | None, ...]] = (None,) * len(Priority)


class Floors:
    """The floors of one node."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[Floor | None]] = {}

    def of(self, lane: str) -> Sequence[Floor | None]:
        """Return the floor of each priority of a lane, as it is now."""
        return tuple(self._lanes.get(lane, _NONE))

    def raise_to(self, claims: Iterable[Claim], scans: Iterable[LaneScan] = ()) -> None:
        """Remember the first job of each lane and priority in a claim.

        A floor that is no longer the one in `scans`, with which the claim was made, stays: it was
        lowered meanwhile, for a job that the claim has not seen.
        """
        first: dict[tuple[str, int], Floor] = {}
        for claim in claims:
            # Within one priority claims come in the order of their due times.
            key = (claim.lane, claim.priority)
            if key not in first:
                first[key] = Floor(claim.due_at, claim.id)
        asked = {scan.lane: scan.floors for scan in scans}
        for (lane, priority), floor in first.items():
            floors = self._lanes.setdefault(lane, list(_NONE))
            if lane not in asked or floors[priority] == asked[lane][priority]:
                floors[priority] = floor

    def lower_to(self, positions: Iterable[Position]) -> bool:
        """Let scans begin at these positions at the latest; return whether any floor moved."""
        moved = False
        for lane, priority, due_at, job_id in positions:
            floors = self._lanes.get(lane)
            if floors is None:
                continue
            floor = floors[priority]
            if floor is not None and (due_at, job_id) < floor:
                floors[priority] = Floor(due_at, job_id)
                moved = True
        return moved

    def learn(self, lanes: Iterable[str], positions: Iterable[Position], moment: datetime) -> bool:
        """Take in a look at everything, which began after `moment` of the store's clock.

        Where nothing was due scans may begin at that moment: dead rows stand in the way of an
        empty priority just as well. Returns whether any floor was lowered.
        """
        found = list(positions)
        lowered = self.lower_to(found)
        heads = {(head.lane, head.priority): Floor(head.due_at, head.id) for head in found}
        for lane in lanes:
            floors = self._lanes.setdefault(lane, list(_NONE))
            for priority, floor in enumerate(floors):
                if floor is None:
                    floors[priority] = heads.get((lane, priority), Floor(moment, _LOWEST))
        return lowered

    def forget_lane(self, lane: str) -> None:
        """Begin the scans of one lane at the very beginning again."""
        self._lanes.pop(lane, None)

    def forget(self) -> None:
        """Begin all scans at the very beginning again."""
        self._lanes.clear()


def positions_in(wakes: Iterable[Wake]) -> list[Position]:
    """Return the positions that wake-ups carry."""
    return [
        Position(wake.lane, wake.priority, wake.due_at, wake.id)
        for wake in wakes
        if isinstance(wake, Hint)
        and wake.priority is not None
        and wake.due_at is not None
        and wake.id is not None
    ]
