"""The lanes with gates that a node knows of: which may be asked now, which later, and why."""

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from typing import Final

from detent.model.gates import FAIR, QUEUE, gate_name, gates_of, without_gates
from detent.model.job import SUSPECT, queue_of

# A node that knows so many has enough to do; it looks for others when some are empty.
MOST: Final = 20_000
# How many of those that wait for one gate are let go when it may be open: as many as one claim
# asks. If it turns out to be open still, the next follow.
BATCH: Final = 64


class KnownLane:
    """One lane, and when it may be asked."""

    __slots__ = ("at", "blocked_by", "gates", "heard", "is_tight", "lane", "queue", "weight")

    def __init__(self, lane: str) -> None:
        gates = gates_of(lane)
        self.lane = lane
        self.queue = queue_of(lane)
        self.gates = (*(each.name for each in gates), gate_name(QUEUE, self.queue))
        self.weight = max((each.weight for each in gates if each.kind == FAIR), default=1)
        """How many turns it has for each of another."""
        self.at = 0.0
        """When it may be asked, unless it is ready."""
        self.blocked_by: str | None = None
        """The gate that was full: an end of a job behind it may change that."""
        self.is_tight = True
        """Whether the last claim was ended by one of its gates, for all that is known."""
        self.heard = False
        """Whether something was heard of it, or of one of its gates, since it was asked."""


class KnownLanes:
    """All that a node knows of, each either ready or planned for a moment."""

    def __init__(self, served: Collection[str], monotonic: Callable[[], float]) -> None:
        self._served = served
        self._monotonic = monotonic
        self._known: dict[str, KnownLane] = {}
        self._blocked: dict[str, dict[str, KnownLane]] = {}
        self._asked: list[KnownLane] = []
        self._later: list[tuple[float, str]] = []
        self.ready: dict[str, KnownLane] = {}
        """Those that may be asked now, in the order of their turns."""
        self.suspects: dict[str, None] = {}

    @property
    def full(self) -> bool:
        """Whether no more are wanted."""
        return len(self._known) >= MOST

    def is_tight(self, lane: str) -> bool:
        """Tell whether others may wait for the gates of a lane."""
        known = self._known.get(lane)
        return known is None or known.is_tight

    # What is heard and found

    def hear(self, lane: str) -> bool:
        """Something happened in a lane: it may have jobs, and its gates may be open.

        Return whether this concerns the node.
        """
        gates = (*(gate.name for gate in gates_of(lane)), gate_name(QUEUE, queue_of(lane)))
        opened = sum(self.open(gate) for gate in gates)
        for known in self._asked:
            known.heard |= not known.heard and any(gate in gates for gate in known.gates)
        mine = self._lane(lane)
        if mine is not None:
            mine.heard = True
            self._let_go(mine)
        return mine is not None or opened > 0 or lane in self.suspects

    def find(self, lane: str, due_in: float) -> bool:
        """A look found jobs in a lane; return whether it was not known before."""
        if lane in self._known:
            return False
        known = self._lane(lane)
        if known is None:
            return lane in self.suspects
        self.ready_at(known, due_in)
        return True

    def open(self, gate: str) -> int:
        """A gate may be open: let some go that wait for it; return how many."""
        waiting = self._blocked.get(gate)
        if not waiting:
            return 0
        some = list(waiting.values())[:BATCH]
        for known in some:
            self._let_go(known)
        return len(some)

    def open_all(self) -> None:
        """Any gate may be open now."""
        for known in self._asked:
            known.heard = True
        for waiting in list(self._blocked.values()):
            for known in list(waiting.values()):
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
            known.heard = False

    def answered(self) -> None:
        """The answer is there, and has been taken in."""
        self._asked = []

    def ready_at(self, known: KnownLane, seconds: float) -> None:
        """Ask a lane again after so long; it goes behind all that are ready."""
        self._unblock(known)
        self.ready.pop(known.lane, None)
        if seconds <= 0:
            self.ready[known.lane] = known
            return
        known.at = self._monotonic() + seconds
        heappush(self._later, (known.at, known.lane))

    def block(self, known: KnownLane, gate: str, seconds: float) -> None:
        """Ask a lane again when a gate may be open, or after so long."""
        self.ready_at(known, seconds)
        known.blocked_by = gate
        self._blocked.setdefault(gate, {})[known.lane] = known

    def drop(self, known: KnownLane) -> None:
        """A lane is empty."""
        self._unblock(known)
        self.ready.pop(known.lane, None)
        self._known.pop(known.lane, None)

    def come_due(self) -> None:
        """Let those be ready whose moment has come."""
        now = self._monotonic()
        while self._later and self._later[0][0] <= now:
            at, lane = heappop(self._later)
            known = self._known.get(lane)
            if known is not None and known.at == at:
                self._let_go(known)

    def first_due(self) -> float | None:
        """Return the first moment at which one will be ready."""
        while self._later:
            at, lane = self._later[0]
            known = self._known.get(lane)
            if known is not None and known.at == at and lane not in self.ready:
                return at
            heappop(self._later)
        return None

    def _let_go(self, known: KnownLane) -> None:
        self._unblock(known)
        self.ready.setdefault(known.lane, known)

    def _unblock(self, known: KnownLane) -> None:
        gate, known.blocked_by = known.blocked_by, None
        if gate is not None:
            waiting = self._blocked.get(gate, {})
            waiting.pop(known.lane, None)
            if not waiting:
                self._blocked.pop(gate, None)
