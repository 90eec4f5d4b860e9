"""The lanes with gates that a node knows of: which may be asked now, which later, and why."""

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from itertools import chain
from typing import Final

from detent._engine.families import Families
from detent._engine.lane import NOTHING, TOKENS, UNKNOWN, KnownLane, Places, opened_by
from detent.model.gates import is_gated
from detent.model.job import SUSPECT, Priority, queue_of
from detent.spi.limits import LaneAnswer

# A node that knows so many has enough to do; others are known only if they may not have to wait.
MOST: Final = 20_000
# How many of those that wait for one gate are let go when it may be open: as many as one claim
# asks. If it turns out to be open still, the next follow.
BATCH: Final = 64
# Of lanes that are ready, how many of each priority are looked at for whose turn it is.
WINDOW: Final = 200
SOON: Final = 0.001
# What is told of the end of a job: nothing that is more urgent than what was there.
ENDED: Final = Priority.LOWEST
# A look that finds a job so much earlier than it was expected has found another one.
EARLIER: Final = 0.1


class KnownLanes:
    """All that a node knows of, each either ready or planned for a moment."""

    def __init__(self, serves: Callable[[str], bool], monotonic: Callable[[], float]) -> None:
        self._serves = serves
        self._monotonic = monotonic
        self._known: dict[str, KnownLane] = {}
        self._blocked: dict[str, Places] = {}
        self._keepers: dict[str, dict[str, KnownLane]] = {}
        """By what they wait for the lanes for which the rest of a gate is kept."""
        self._asked: list[KnownLane] = []
        self._later: list[tuple[float, str]] = []
        self._ready: dict[str, Places] = {}
        self._beside: dict[str, Places] = {}
        """The lanes without gates that may be asked together with those of `_ready`."""
        self._met: dict[str, dict[str, KnownLane]] = {}
        """The same by queue, ready or not."""
        self._limited: Collection[str] = ()
        self.families = Families(monotonic)
        self.suspects: dict[str, None] = {}

    @property
    def any_known(self) -> bool:
        """Whether any lane is known."""
        return bool(self._known)

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
        beside = self._beside.get(queue, Places())
        while lanes := self._ready[queue].first(WINDOW) + beside.first(WINDOW):
            if not self._keepers:
                return lanes
            free = [known for known in lanes if not self._waits_behind(known, precedes)]
            if free:
                return free
        return []

    def is_ready_in(self, queue: str) -> bool:
        """Tell whether any of a queue may be asked now."""
        return bool(self._ready.get(queue))

    def _waits_behind(
        self, known: KnownLane, precedes: Callable[[KnownLane, KnownLane], bool]
    ) -> bool:
        """Let a lane wait with the one before it for which its gate is kept, if there is one."""
        for gate in known.gates:
            for place in (gate, TOKENS + gate):
                for keeper in self._keepers.get(place, {}).values():
                    if precedes(keeper, known):
                        self._wait_for(known, place, max(keeper.at - self._monotonic(), SOON))
                        return True
        return False

    @property
    def some_kept(self) -> bool:
        """Whether the rest of a gate is kept for somebody."""
        return bool(self._keepers)

    def is_tight(self, lane: str) -> bool:
        """Tell whether others may wait for the gates of a lane."""
        known = self._known.get(self.families.resolve(lane))
        return known is None or known.is_tight

    def is_known(self, known: KnownLane) -> bool:
        """Tell whether a lane is still known by itself."""
        return self._known.get(known.lane) is known

    # What is heard and found

    def hear(
        self, lane: str, priority: int | None = None, *, ended: bool = False, came: bool = False
    ) -> bool:
        """Something happened in a lane: it may have jobs, and its gates may be open.

        With the priority of what came, if that is known; an end of a job is nothing that came. A
        job that merely `came` opens no gate. Return whether this concerns the node.
        """
        named, lane = lane, self.families.resolve(lane)
        is_new = lane not in self._known
        came = came and priority is not None and priority != ENDED
        awaited = chain(self._blocked, (gate for each in self._asked for gate in each.gates))
        opened = 0 if came else self.open_any(opened_by(named, lane, awaited))
        mine = self._lane(lane)
        if mine is not None:
            mine.heard |= not came
            # Where others wait already for a gate, one more changes nothing; unless all of them
            # stand behind one that needs much, and this one does not.
            is_behind = mine.blocked_by in self._keepers and mine.keeps is None
            # What comes to a family may be of a key that keeps nothing out.
            comes_behind = came and mine.head and not mine.is_whole
            waits = mine.waits_for_tokens or (comes_behind and mine.blocked_by)
            if is_new or not (ended or priority == ENDED):
                mine.is_quiet |= is_new and priority != ENDED
                mine.came = max(mine.came, UNKNOWN if priority is None else priority)
                self._heard_of(mine, priority)
            if is_behind or not waits:
                self._let_go(mine)
        return mine is not None or opened > 0 or lane in self.suspects

    def open_any(self, gates: Mapping[str, None]) -> int:
        """Gates may be open: let some go that wait for them; return how many."""
        for known in self._asked:
            known.heard |= not known.heard and any(gate in gates for gate in known.gates)
        return sum(self.open(gate) for gate in gates)

    def _heard_of(self, known: KnownLane, priority: int | None) -> None:
        """Something of that priority has come, just now for all that is known."""
        if priority is None or priority == UNKNOWN:
            self.learn(known, None)
        elif known.is_quiet or (known.head is not None and priority > known.head[0]):
            self.learn(known, (priority, self._monotonic()))

    def learn(
        self, known: KnownLane, head: tuple[int, float] | None, *, is_quiet: bool = False
    ) -> None:
        """Take in how urgent a lane is."""
        known.head, known.is_quiet = head, is_quiet
        if known.home is not None:
            known.home.add(known)

    def told(self, known: KnownLane, head: tuple[int, float] | None) -> None:
        """Take in what an answer says of the head of a lane, and what has come meanwhile."""
        self.learn(known, head, is_quiet=head is None)
        if known.changed:
            self._heard_of(known, known.came)

    def find(self, lane: str, due_in: float, head: tuple[int, float] | None) -> bool:
        """A look found jobs in a lane; return whether it was not known before."""
        if (known := self._known.get(self.families.resolve(lane))) is not None:
            if known.is_whole and known.home is None:
                self._let_go(known)
            elif not known.is_whole and known not in self._asked:
                self.learn(known, head, is_quiet=head is None)
                if known.home is None and known.at > self._monotonic() + due_in + EARLIER:
                    # It came after the lane was asked, and nobody told.
                    self.ready_at(known, due_in)
            return False
        known = self._lane(lane)
        if known is None or known.is_whole:
            return known is not None or lane in self.suspects
        self.learn(known, head, is_quiet=head is None)
        self.ready_at(known, due_in)
        return True

    def visit(self, lanes: Iterable[str]) -> None:
        """Let some lanes be asked which no look finds, unless they wait for a gate."""
        for lane in lanes:
            known = self._lane(lane)
            if known is not None and known.home is None:
                self._let_go(known)

    def limit(self, queues: Collection[str]) -> None:
        """Know which queues have a limit: there lanes without gates are like all others."""
        self._limited = queues
        for known in [each for each in self._known.values() if not is_gated(each.lane)]:
            if known.beside is (known.queue in queues):
                self.drop(known)

    def meet(self, lanes: Iterable[str]) -> None:
        """Let lanes without gates be asked beside others, if they are not known."""
        for lane in lanes:
            if lane not in self._known and (known := self._lane(lane)) is not None:
                self._let_go(known)

    def leave_beside(self, queue: str) -> float | None:
        """Forget the lanes without gates of a queue; return when the first was to be asked.

        None if there was none: they are empty.
        """
        beside = list(self._met.get(queue, {}).values())
        moments = [float("-inf") if self._is_ready(each) else each.at for each in beside]
        for known in beside:
            self.drop(known)
        return min(moments, default=None)

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

    def set_apart(self, whole: KnownLane, lane: str) -> None:
        """Claim from a lane of a family by itself from now on."""
        if self.families.set_apart(whole.lane, lane) and (known := self._lane(lane)) is not None:
            self._let_go(known)

    def hear_family(self, lane: str) -> bool:
        """Something happened in some lanes of a family; return whether it is not known in which."""
        if not self.families.is_told_by(lane) or not self._serves(lane):
            return False
        lanes = self.families.lanes_of(lane)
        if self.families.may_begin(lane):
            self._begin_whole(lane, lanes)
            return False
        for known in filter(None, map(self._known.get, lanes)):
            if not known.waits_for_tokens:
                self._let_go(known)
        return True

    def _begin_whole(self, lane: str, lanes: Iterable[str]) -> KnownLane:
        for each in lanes:
            if (known := self._known.get(each)) is not None:
                self.drop(known)
        known = KnownLane(self.families.begin(lane))
        self._known[known.lane] = known
        self._let_go(known)
        return known

    def _lane(self, lane: str) -> KnownLane | None:
        lane = self.families.resolve(lane)
        known = self._known.get(lane)
        if known is not None:
            return known
        if not self._serves(lane):
            return None
        if lane.endswith(SUSPECT):
            self.suspects[lane] = None
            return None
        beside = not is_gated(lane) and queue_of(lane) not in self._limited
        known = KnownLane(lane, beside=beside)
        if (lanes := self.families.met(lane)) is not None:
            return self._begin_whole(lane, lanes)
        if len(self._known) >= MOST and not self._make_way_for(known):
            return None
        self._known[lane] = known
        if beside:
            self._met.setdefault(known.queue, {})[lane] = known
        return known

    def _make_way_for(self, known: KnownLane) -> bool:
        """Forget one that waits for a gate, in favour of one of whose gates none is known as full.

        It will be found again by a look. Of those who wait for the same gates there are enough.
        """
        if any(gate in self._blocked or TOKENS + gate in self._blocked for gate in known.gates):
            return False
        for waiting in self._blocked.values():
            for other in waiting.first(1):
                if other.keeps is None:
                    self.drop(other)
                    return True
        return False

    # What is asked

    def ask(self, lanes: Iterable[KnownLane]) -> None:
        """Take note of what is heard of these from now on."""
        self._asked = list(lanes)
        for known in self._asked:
            known.heard, known.came = False, NOTHING

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
        if due_in > (look if wait is None else wait):
            self.ready_at(known, due_in)
        elif wait is None:
            self._wait_for(known, told.blocked_by, look)
        else:
            self._wait_for(known, TOKENS + told.blocked_by, max(min(wait, look), due_in))
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
        self.families.left(known.lane)
        if known.beside:
            self._met[known.queue].pop(known.lane, None)

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
        places = self._beside if known.beside else self._ready
        ready = places.get(known.queue)
        if ready is None:
            ready = places[known.queue] = Places()
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
