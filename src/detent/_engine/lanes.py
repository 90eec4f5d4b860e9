"""The lanes with gates that a node knows of: which may be asked now, which later, and why."""

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from detent.model.gates import FAIR, QUEUE, gate_name, gates_of, without_gates
from detent.model.job import SUSPECT, Priority, queue_of
from detent.spi.limits import LaneAnswer

# A node that knows so many has enough to do; it looks for others when some are empty.
MOST: Final = 20_000
# How many of those that wait for one gate are let go when it may be open: as many as one claim
# asks. If it turns out to be open still, the next follow.
BATCH: Final = 64


# Of lanes that are ready, how many of each priority are looked at for whose turn it is.
WINDOW: Final = 200
SOON: Final = 0.001
# What is told of the end of a job: nothing that is more urgent than what was there.
ENDED: Final = Priority.LOWEST
# Who waits for the tokens of a rate waits for a gate that no end of a job opens.
_TOKENS: Final = "tokens of "
# The place of lanes of which nobody knows how urgent they are, behind those of all priorities.
_UNKNOWN: Final = len(Priority)


def is_shut(told: LaneAnswer) -> bool:
    """Tell whether jobs of a lane are due, and a gate keeps them out: no other job changes that."""
    return told.blocked_by is not None and told.due_in == 0


class KnownLane:
    """One lane, and when it may be asked."""

    __slots__ = (
        "at",
        "blocked_by",
        "changed",
        "gates",
        "head",
        "heard",
        "home",
        "is_tight",
        "keeps",
        "lane",
        "own_weight",
        "place",
        "queue",
        "share",
        "weight",
    )

    def __init__(self, lane: str) -> None:
        gates = gates_of(lane)
        self.lane = lane
        self.queue = queue_of(lane)
        self.gates = (*(each.name for each in gates), gate_name(QUEUE, self.queue))
        fair = next((each for each in gates if each.kind == FAIR), None)
        self.share = None if fair is None else fair.name
        """The fair share that it belongs to, with all other lanes of the same key."""
        self.own_weight = 1 if fair is None else fair.weight
        self.weight = self.own_weight
        """How many turns its share has for each of another."""
        self.head: tuple[int, float] | None = None
        """The priority of its most urgent job, and since when that is due; None if not known."""
        self.home: Places | None = None
        """Where it stands: among those that are ready, or that wait for one gate."""
        self.place = _UNKNOWN
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
        self.changed = False
        """Whether something may have come that is more urgent, since it was asked."""

    @property
    def waits_for_tokens(self) -> bool:
        """Whether it is a rate that keeps it out: only time can change that."""
        return self.blocked_by is not None and self.blocked_by.startswith(_TOKENS)

    def leave(self) -> None:
        """Stand nowhere any more."""
        if self.home is not None:
            self.home.remove(self)
            self.home = None


class Places:
    """Lanes by the priority of their heads, each in the order in which they came."""

    def __init__(self) -> None:
        self._lanes: tuple[dict[str, KnownLane], ...] = tuple({} for _ in range(_UNKNOWN + 1))

    def __bool__(self) -> bool:
        return any(self._lanes)

    def add(self, known: KnownLane) -> None:
        """Take one in, behind all others; one that is here already keeps its place."""
        place = _UNKNOWN if known.head is None else known.head[0]
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


class KnownLanes:
    """All that a node knows of, each either ready or planned for a moment."""

    def __init__(self, served: Collection[str], monotonic: Callable[[], float]) -> None:
        self._served = served
        self._monotonic = monotonic
        self._known: dict[str, KnownLane] = {}
        self._blocked: dict[str, Places] = {}
        self._keepers: dict[str, dict[str, KnownLane]] = {}
        """By what they wait for the lanes for which the rest of a gate is kept."""
        self._asked: list[KnownLane] = []
        self._later: list[tuple[float, str]] = []
        self._ready: dict[str, Places] = {}
        self.suspects: dict[str, None] = {}

    @property
    def ready(self) -> bool:
        """Whether any may be asked now."""
        return any(self._ready.values())

    @property
    def ready_queues(self) -> list[str]:
        """The queues of those that may be asked now."""
        return [queue for queue, places in self._ready.items() if places]

    def ready_in(
        self, queue: str, precedes: Callable[[KnownLane, KnownLane], bool]
    ) -> list[KnownLane]:
        """Return the first of a queue that may be asked now, of each priority.

        Who comes behind one for which a gate is kept waits there with it.
        """
        while lanes := self._ready[queue].first(WINDOW):
            if not self._keepers:
                return lanes
            free = [known for known in lanes if not self._waits_behind(known, precedes)]
            if free:
                return free
        return []

    def _waits_behind(
        self, known: KnownLane, precedes: Callable[[KnownLane, KnownLane], bool]
    ) -> bool:
        """Let a lane wait with the one before it for which its gate is kept, if there is one."""
        for gate in known.gates:
            for place in (gate, _TOKENS + gate):
                for keeper in self._keepers.get(place, {}).values():
                    if precedes(keeper, known):
                        self._wait_for(known, place, max(keeper.at - self._monotonic(), SOON))
                        return True
        return False

    @property
    def some_kept(self) -> bool:
        """Whether the rest of a gate is kept for somebody."""
        return bool(self._keepers)

    @property
    def full(self) -> bool:
        """Whether no more are wanted."""
        return len(self._known) >= MOST

    def is_tight(self, lane: str) -> bool:
        """Tell whether others may wait for the gates of a lane."""
        known = self._known.get(lane)
        return known is None or known.is_tight

    # What is heard and found

    def hear(
        self,
        lane: str,
        priority: int | None = None,
        *,
        ended: bool = False,
        came: bool = False,
    ) -> bool:
        """Something happened in a lane: it may have jobs, and its gates may be open.

        With the priority of what came, if that is known; an end of a job is nothing that came. A
        job that merely `came` opens no gate. Return whether this concerns the node.
        """
        is_new = lane not in self._known
        came = came and priority is not None and priority != ENDED
        opened = 0 if came else self._open_gates_of(lane)
        mine = self._lane(lane)
        if mine is not None:
            mine.heard |= not came
            if is_new or not (ended or priority == ENDED):
                mine.changed = True
                self._heard_of(mine, priority, is_new=is_new and priority != ENDED)
            # Where others wait already for a gate, one more changes nothing; unless all of them
            # stand behind one that needs much, and this one does not.
            is_behind = mine.blocked_by in self._keepers and mine.keeps is None
            waits = mine.waits_for_tokens or (came and mine.blocked_by and mine.head)
            if is_behind or not waits:
                self._let_go(mine)
        return mine is not None or opened > 0 or lane in self.suspects

    def _open_gates_of(self, lane: str) -> int:
        gates = (*(gate.name for gate in gates_of(lane)), gate_name(QUEUE, queue_of(lane)))
        for known in self._asked:
            known.heard |= not known.heard and any(gate in gates for gate in known.gates)
        return sum(self.open(gate) for gate in gates)

    def _heard_of(self, known: KnownLane, priority: int | None, *, is_new: bool) -> None:
        """Something of that priority has come, just now for all that is known."""
        if priority is None or (known.head is None and not is_new):
            self.learn(known, None)
        elif known.head is None or priority > known.head[0]:
            self.learn(known, (priority, self._monotonic()))

    def learn(self, known: KnownLane, head: tuple[int, float] | None) -> None:
        """Take in how urgent a lane is."""
        known.head = head
        if known.home is not None:
            known.home.add(known)

    def find(self, lane: str, due_in: float, head: tuple[int, float] | None) -> bool:
        """A look found jobs in a lane; return whether it was not known before."""
        if (known := self._known.get(lane)) is not None:
            if known not in self._asked:
                self.learn(known, head)
            return False
        known = self._lane(lane)
        if known is None:
            return lane in self.suspects
        known.head = head
        self.ready_at(known, due_in)
        return True

    def open(self, gate: str) -> int:
        """A gate may be open: let some go that wait for it; return how many."""
        waiting = self._blocked.get(gate)
        if not waiting:
            return 0
        some = [*self._keepers.get(gate, {}).values(), *waiting.first(BATCH)]
        for known in some:
            self._let_go(known)
        return len(some)

    def open_all(self) -> None:
        """Any gate may be open now."""
        for known in self._asked:
            known.heard = True
        for waiting in list(self._blocked.values()):
            for known in waiting.first(MOST):
                self._let_go(known)

    def _lane(self, lane: str) -> KnownLane | None:
        known = self._known.get(lane)
        if known is not None:
            return known
        if without_gates(lane) not in self._served or self.full:
            return None
        if lane.endswith(SUSPECT):
            self.suspects[lane] = None
            return None
        known = self._known[lane] = KnownLane(lane)
        return known

    # What is asked

    def ask(self, lanes: Iterable[KnownLane]) -> None:
        """Take note of what is heard of these from now on."""
        self._asked = list(lanes)
        for known in self._asked:
            known.heard = known.changed = False

    def answered(self) -> None:
        """The answer is there, and has been taken in."""
        self._asked = []

    def ready_at(self, known: KnownLane, seconds: float) -> None:
        """Ask a lane again after so long; it goes behind all that are ready."""
        self._leave(known)
        if seconds <= 0:
            self._let_go(known)
            return
        known.at = self._monotonic() + seconds
        heappush(self._later, (known.at, known.lane))

    def block(self, known: KnownLane, told: LaneAnswer, look: float) -> None:
        """Ask a lane again when the gate that keeps it out may be open.

        After a `look` it asks in any case: a hint of an end may be lost, or of another rate.
        """
        assert told.blocked_by is not None
        wait, due_in = told.retry_after, told.due_in or 0.0
        if wait is None:
            self._wait_for(known, told.blocked_by, max(look, due_in))
        elif wait < due_in:
            self.ready_at(known, due_in)
        else:
            self._wait_for(known, _TOKENS + told.blocked_by, max(min(wait, look), due_in))
        if told.keeps and known.blocked_by is not None:
            known.keeps = known.blocked_by
            self._keepers.setdefault(known.keeps, {})[known.lane] = known

    def _wait_for(self, known: KnownLane, gate: str, seconds: float) -> None:
        self.ready_at(known, seconds)
        if known.home is None:
            known.blocked_by = gate
            self._blocked.setdefault(gate, Places()).add(known)

    def drop(self, known: KnownLane) -> None:
        """A lane is empty."""
        self._leave(known)
        self._known.pop(known.lane, None)

    def come_due(self) -> None:
        """Let those be ready whose moment has come."""
        now = self._monotonic()
        while self._later and self._later[0][0] <= now:
            at, lane = heappop(self._later)
            known = self._known.get(lane)
            if known is not None and known.at == at:
                tokens = known.blocked_by if known.waits_for_tokens else None
                self._let_go(known)
                if tokens is not None:
                    # All who wait for them ask together, or whose turn it is would not matter.
                    self.open(tokens)

    def first_due(self) -> float | None:
        """Return the first moment at which one will be ready."""
        while self._later:
            at, lane = self._later[0]
            known = self._known.get(lane)
            if known is not None and known.at == at and not self._is_ready(known):
                return at
            heappop(self._later)
        return None

    def _is_ready(self, known: KnownLane) -> bool:
        return known.home is not None and known.blocked_by is None

    def _let_go(self, known: KnownLane) -> None:
        """Let one be asked; one that may be already keeps its place."""
        if not self._is_ready(known):
            self._leave(known)
        ready = self._ready.get(known.queue)
        if ready is None:
            ready = self._ready[known.queue] = Places()
        ready.add(known)

    def _leave(self, known: KnownLane) -> None:
        known.leave()
        gate, known.blocked_by = known.blocked_by, None
        if gate is not None and not self._blocked.get(gate):
            self._blocked.pop(gate, None)
        if known.keeps is not None:
            keepers = self._keepers[known.keeps]
            del keepers[known.lane]
            if not keepers:
                del self._keepers[known.keeps]
            known.keeps = None
