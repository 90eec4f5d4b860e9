"""Families: which limits by key a node claims from as a whole, and which of their lanes not.

All lanes that differ in nothing but the key of a task's limit are a family. Of a few of them each
is known by itself. Of many it would take longer to know them than to run their jobs: then one claim
looks at the first jobs of all of them, and the node knows no lane but that of the whole.

What a few keys keep out would stand in front of everything else. So these lanes are set apart: the
node claims from each of them by itself. Where that does not help, it does so for all lanes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from detent.model.gates import any_of, family_of, is_whole, whole
from detent.model.job import Position
from detent.spi.limits import FamilyAnswer
from detent.spi.scans import Floor

# A family with more lanes than this is claimed from as a whole.
FEW: Final = 64
# How many jobs to look at for each that is wanted, at most; and how many at least.
FARTHEST: Final = 8
SHORTEST_WALK: Final = 16
# How many lanes of a family may be set apart.
MOST_APART: Final = 64
# Where too many jobs are kept out, or the store says no, lanes are claimed from singly for so long.
RESTS: Final = (5.0, 60.0)
_NONE: Final[Sequence[Floor | None]] = (None,) * 5


class Family:
    """One that is claimed from as a whole."""

    __slots__ = ("apart", "floors", "name", "stretch")

    def __init__(self, name: str) -> None:
        self.name = name
        self.apart: dict[str, None] = {}
        """Lanes that are claimed from by themselves."""
        self.stretch = 1
        """How many jobs to look at for each that is wanted."""
        self.floors = list(_NONE)

    def walk(self, room: int) -> int:
        """Return how many jobs to look at for some."""
        return max(room, SHORTEST_WALK) * self.stretch

    def learn(self, answer: FamilyAnswer, asked: Sequence[Floor | None], room: int) -> bool:
        """Take in an answer to a claim with those floors; return whether to go on like this."""
        has_moved = False
        for priority, floor in enumerate(answer.floors):
            # One that was lowered meanwhile stays.
            if floor is not None and self.floors[priority] == asked[priority]:
                has_moved |= floor != asked[priority]
                self.floors[priority] = floor
        if answer.is_all or room == 0:
            return True
        taken = len(answer.claims)
        if taken < room and (answer.blocked or self.apart):
            is_stuck = not has_moved and not answer.crowd and taken < max(room // 4, 1)
            if self.stretch == FARTHEST and is_stuck:
                return False
            self.stretch = min(self.stretch * 2, FARTHEST)
        elif not answer.blocked:
            self.stretch = max(self.stretch // 2, 1)
        if self.apart or room < FEW:
            return len(self.apart) < MOST_APART
        # With so few keys lanes are faster.
        return answer.keys > FEW // 8

    def lower_to(self, position: Position) -> None:
        """Let scans begin at a position at the latest."""
        floor = self.floors[position.priority]
        if floor is not None and (position.due_at, position.id) < floor:
            self.floors[position.priority] = Floor(position.due_at, position.id)


class Families:
    """Those that a node has seen."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._whole: dict[str, Family] = {}
        self._lanes: dict[str, dict[str, None]] = {}
        """By family the lanes that are known by themselves."""
        self._rests: dict[str, tuple[float, float]] = {}
        """Until when a family is not tried again, and for how long it was put off the last time."""

    @property
    def names(self) -> Sequence[str]:
        """Those that are claimed from as a whole."""
        return list(self._whole)

    def of(self, lane: str) -> Family | None:
        """Return the family that a lane stands for as a whole."""
        return self._whole.get(lane[:-2]) if is_whole(lane) else None

    def resolve(self, lane: str) -> str:
        """Return the lane under which the node knows another: itself, or that of its family."""
        if not self._whole:
            return lane
        name = family_of(lane)
        family = None if name is None else self._whole.get(name)
        return lane if family is None or lane in family.apart else whole(family.name)

    def met(self, lane: str) -> Sequence[str] | None:
        """Take note of a lane that is to be known by itself.

        Return all that are known, if there are so many that the whole should be instead.
        """
        name = family_of(lane)
        if name is None or name in self._whole:
            return None
        lanes = self._lanes.setdefault(name, {})
        lanes[lane] = None
        if len(lanes) <= FEW or self._is_resting(name):
            return None
        return list(lanes)

    def left(self, lane: str) -> None:
        """A lane is known no more."""
        name = family_of(lane)
        if name is None:
            if is_whole(lane):
                self._whole.pop(lane[:-2], None)
            return
        if (lanes := self._lanes.get(name)) is not None:
            lanes.pop(lane, None)
            if not lanes:
                del self._lanes[name]
        family = self._whole.get(name)
        if family is not None and lane in family.apart:
            del family.apart[lane]
            # What comes to it from now on is found with the others.
            family.floors = list(_NONE)

    def begin(self, lane: str) -> str:
        """Claim from the family of a lane as a whole; return the lane that stands for it."""
        name = family_of(lane)
        assert name is not None
        self._whole[name] = Family(name)
        return whole(name)

    def is_told_by(self, lane: str) -> bool:
        """Tell whether a hint names all lanes of a family that is not known as a whole."""
        name = family_of(lane)
        return name is not None and lane == any_of(name) and name not in self._whole

    def set_apart(self, whole_lane: str, lane: str) -> bool:
        """Take a lane out of its family; return whether it was in it."""
        family = self.of(whole_lane)
        if family is None or lane in family.apart:
            return False
        family.apart[lane] = None
        return True

    def may_begin(self, lane: str) -> bool:
        """Tell whether the family of a lane could be tried as a whole."""
        return not self._is_resting(family_of(lane) or "")

    def lanes_of(self, lane: str) -> Sequence[str]:
        """Return the lanes of the same family that are known by themselves."""
        return list(self._lanes.get(family_of(lane) or "", ()))

    def rest(self, family: Family) -> None:
        """Claim lane by lane for some time."""
        least, most = RESTS
        _, before = self._rests.get(family.name, (0.0, 0.0))
        pause = min(max(before * 2, least), most)
        self._rests[family.name] = self._monotonic() + pause, pause

    def worked(self, family: Family) -> None:
        """It is worth while."""
        self._rests.pop(family.name, None)

    def end_rests(self) -> None:
        """Limits may have been changed."""
        self._rests.clear()

    def lower_to(self, positions: Iterable[Position]) -> None:
        """Let scans begin at these positions at the latest."""
        if not self._whole:
            return
        for position in positions:
            name = family_of(position.lane)
            if name is not None and (family := self._whole.get(name)) is not None:
                family.lower_to(position)

    def forget_floors(self) -> None:
        """Let all scans begin at the very beginning."""
        for family in self._whole.values():
            family.floors = list(_NONE)

    def _is_resting(self, name: str) -> bool:
        until, _ = self._rests.get(name, (0.0, 0.0))
        return self._monotonic() < until
