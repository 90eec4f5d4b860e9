"""One lane with gates as a node knows it, and the places where lanes stand by their urgency."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from detent.model.gates import FAIR, KEY, QUEUE, gate_name, gates_of, is_whole
from detent.model.job import GATE_SEPARATOR, Priority, queue_of

# Who waits for the tokens of a rate waits for a gate that no end of a job opens.
TOKENS: Final = "tokens of "
# The place of lanes of which nobody knows how urgent they are, behind those of all priorities.
UNKNOWN: Final = len(Priority)
# Less than any priority.
NOTHING: Final = -1


def opened_by(named: str, lane: str, awaited: Iterable[str]) -> dict[str, None]:
    """Return the gates that may be open when something happened in a lane, of those awaited too.

    That is the lane that was `named`; the node knows it as `lane`. All lanes of a family have the
    same name in hints of many, and its keys are gates of other lanes, too.
    """
    gates = dict.fromkeys(gate.name for gate in gates_of(lane))
    gates[gate_name(QUEUE, queue_of(lane))] = None
    if named[-1] == KEY:
        limit = named.partition(GATE_SEPARATOR)[2]
        gates |= dict.fromkeys(gate for gate in awaited if gate.startswith(limit))
    elif named != lane:
        gates |= keys_of((named,))
    return gates


def keys_of(lanes: Iterable[str]) -> dict[str, None]:
    """Return the gates of some lanes, each of them of a family: it has no other."""
    return {lane.partition(GATE_SEPARATOR)[2]: None for lane in lanes}


class KnownLane:
    """One lane, and when it may be asked."""

    __slots__ = (
        "at",
        "beside",
        "blocked_by",
        "came",
        "gates",
        "head",
        "heard",
        "home",
        "is_quiet",
        "is_tight",
        "is_whole",
        "keeps",
        "lane",
        "members",
        "own_weight",
        "place",
        "queue",
        "share",
        "weight",
    )

    def __init__(self, lane: str, *, beside: bool = False) -> None:
        gates = gates_of(lane)
        self.lane = lane
        self.beside = beside
        """Whether it has no gates, and is only asked beside others of its queue that have some."""
        self.is_whole = is_whole(lane)
        """Whether it stands for all lanes of a family."""
        self.members = 1
        """As how many lanes it counts where each has its turn."""
        self.queue = queue_of(lane)
        self.gates = (*(each.name for each in gates), gate_name(QUEUE, self.queue))
        fair = next((each for each in gates if each.kind == FAIR), None)
        self.share = fair.name if fair is not None else None if gates else lane
        """The fair share that it belongs to, with all other lanes of the same key.

        A lane without gates is a share by itself: neither it nor what stands behind gates waits
        until the backlog of the other is gone.
        """
        self.own_weight = 1 if fair is None else fair.weight
        self.weight = self.own_weight
        """How many turns its share has for each of another."""
        self.head: tuple[int, float] | None = None
        """The priority of its most urgent job, and since when that is due; None if not known."""
        self.is_quiet = False
        """Whether nothing of it was due, for all that is known."""
        self.home: Places | None = None
        """Where it stands: among those that are ready, or that wait for one gate."""
        self.place = UNKNOWN
        self.at = 0.0
        """When it may be asked, unless it is ready."""
        self.blocked_by: str | None = None
        """The gate that was full: an end of a job behind it may change that."""
        self.keeps: str | None = None
        """What it waits for, if the rest of a gate is kept for it, and not for those behind it."""
        self.is_tight = True
        """Whether the last claim was ended by one of its gates, for all that is known."""
        self.heard = False
        """Whether something was heard of it, or of one of its gates, since it was asked."""
        self.came = NOTHING
        """The highest priority of what may have come since it was asked."""

    @property
    def changed(self) -> bool:
        """Whether something may have come since it was asked."""
        return self.came > NOTHING

    @property
    def waits_for_tokens(self) -> bool:
        """Whether it is a rate that keeps it out: only time can change that."""
        return self.blocked_by is not None and self.blocked_by.startswith(TOKENS)

    def leave(self) -> None:
        """Stand nowhere any more."""
        if self.home is not None:
            self.home.remove(self)
            self.home = None


class Places:
    """Lanes by the priority of their heads, each in the order in which they came."""

    def __init__(self) -> None:
        self._lanes: tuple[dict[str, KnownLane], ...] = tuple({} for _ in range(UNKNOWN + 1))

    def __bool__(self) -> bool:
        return any(self._lanes)

    def add(self, known: KnownLane) -> None:
        """Take one in, behind all others; one that is here already keeps its place."""
        place = UNKNOWN if known.head is None else known.head[0]
        if known.home is self and known.place == place:
            return
        known.leave()
        self._lanes[place][known.lane] = known
        known.home, known.place = self, place

    def remove(self, known: KnownLane) -> None:
        """Let one go; see `KnownLane.leave`."""
        del self._lanes[known.place][known.lane]

    def first(self, each: int) -> list[KnownLane]:
        """Return the first of each priority, and the first of which nothing is known."""
        return [known for lanes in self._lanes for known in islice(lanes.values(), each)]
