"""Decides whose turn it is among lanes: the most urgent first, then fair shares by their weights.

Each fair share has a pass, which grows by one part of its weight with every job it is given; the
one with the lowest pass is next. So a share of weight 3 has three turns for each of another, also
when slots become free one at a time. A lane without gates is a share of weight 1. Lanes that are in
no share keep the order of their heads.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace, merge
from itertools import islice
from typing import Final, NamedTuple

from detent._engine.lane import KnownLane

# The store's clock may be behind by so much: what has not aged yet there is not asked for.
BEHIND: Final = 0.05
# All lanes that are in no share take their turns as one, with the weight of all of them.
_NO_SHARE: Final = ""
MOST_PASSES: Final = 1_000


class Turn(NamedTuple):
    """What is asked of one lane: so many jobs, none less urgent than that; 0 is a look."""

    known: KnownLane
    room: int
    least: int


class Turns:
    """The turns of one queue."""

    def __init__(self, boost: float) -> None:
        self._boost = boost
        self._passes: dict[str, float] = {}
        self._clock = 0.0
        """The lowest pass of the last choice: who comes back has no more turns saved up."""
        self._alone = 0
        """How many lanes that are in no share there were."""

    def level(self, known: KnownLane, now: float) -> int | None:
        """Return how urgent the head of a lane is by now; None when that is not known."""
        return _level(known, self._boost, now)

    def precedes(self, now: float, one: KnownLane, other: KnownLane) -> bool:
        """Tell whether the head of one lane comes before that of another, for all that is known."""
        level, others = self.level(one, now), self.level(other, now)
        if level is None or others is None:
            return False
        return (-level, _since(one)) < (-others, _since(other))

    def choose(
        self,
        lanes: Sequence[KnownLane],
        room: int,
        most: int,
        now: float,
        *,
        alone: bool = True,
        others_wait: bool = False,
    ) -> list[Turn]:
        """Return what to ask of which lanes, the most urgent first: all room is given away.

        Where no other queue is asked (`alone`), those that are less urgent are asked in the same
        claim for what is left: the claim has no more than the room in all, and serves in order.
        While a gate is kept for others (`others_wait`) no lane gives more than is as urgent as its
        head.
        """
        levels: dict[int, list[KnownLane]] = {}
        unknown: list[KnownLane] = []
        for known in lanes:
            level = self.level(known, now)
            (unknown if level is None else levels.setdefault(level, [])).append(known)
        scarce = len(unknown) > 1 or room < len(lanes)
        if scarce and len(lanes) > 1 and any(known.beside for known in unknown):
            # One of them may have what comes before all others: each tells before any gives.
            return [Turn(known, 0, 0) for known in unknown[:most]]
        top = max(levels, default=0)
        # Lanes of which nobody knows how urgent they are get a chance, and tell.
        first = levels.pop(top, []) + unknown
        # One by itself may give all it has; of several none may hold up what is more urgent.
        least = top if len(lanes) > 1 or others_wait else 0
        shares = self._divide(first, room, most)
        asked = [Turn(known, count, least) for known, count in shares.items()]
        for level in sorted(levels, reverse=True) if alone else ():
            if (free := min(room, most) - len(asked)) > 0:
                shares |= (more := self._divide(levels[level], room, free))
                asked += [Turn(known, count, level) for known, count in more.items()]
        looks = [known for known in unknown if known not in shares]
        return asked + [Turn(known, 0, least) for known in looks[: most - len(asked)]]

    def took(self, known: KnownLane, count: int) -> None:
        """Count the turns that a lane has had."""
        share = known.share or _NO_SHARE
        weight = known.weight if known.share else max(self._alone, 1)
        before = max(self._passes.get(share, 0.0), self._clock)
        self._passes[share] = before + count / weight

    def _divide(self, lanes: Sequence[KnownLane], room: int, most: int) -> dict[KnownLane, int]:
        """Return how many jobs each lane is to have, of the first that have their turn."""
        given: dict[KnownLane, int] = {}
        for known in self._in_turn(lanes, once=True):
            given[known] = 0
            if len(given) == min(room, most):
                break
        if given:
            left = room - self._give_rounds(given, room)
            for known in islice(self._in_turn(list(given), once=False), left):
                given[known] += 1
        return given

    def _give_rounds(self, given: dict[KnownLane, int], room: int) -> int:
        """Give each share as many whole rounds as there is room for at once; return how much.

        It comes to the same as one turn after the other, and takes no time for each of them.
        """
        members: dict[str, list[KnownLane]] = {}
        for known in given:
            members.setdefault(known.share or _NO_SHARE, []).append(known)
        weights = {
            share: lanes[0].weight if share else sum(known.members for known in lanes)
            for share, lanes in members.items()
        }
        rounds = room // sum(weights.values())
        for share, lanes in members.items():
            if not share:
                for known in lanes:
                    given[known] += rounds * known.members
                continue
            each, more = divmod(rounds * weights[share], len(lanes))
            for number, known in enumerate(lanes):
                given[known] += each + (number < more)
        return rounds * sum(weights.values())

    def _in_turn(self, lanes: Sequence[KnownLane], *, once: bool) -> Iterator[KnownLane]:
        """Return lanes in the order of their turns: each once, or without an end."""
        members: dict[str, deque[KnownLane]] = {}
        for known in sorted(lanes, key=_since):
            members.setdefault(known.share or _NO_SHARE, deque()).append(known)
        self._alone = sum(known.members for known in members.get(_NO_SHARE, ()))
        # Of those with the same pass the one is first whose head has been due for the longest.
        heap = [
            (max(self._passes.get(share, 0.0), self._clock), _since(lanes[0]), share)
            for share, lanes in members.items()
        ]
        heapify(heap)
        self._tick(heap)
        while heap:
            at, _, share = heap[0]
            known = members[share].popleft()
            yield known
            if not once:
                members[share].append(known)
            if not members[share]:
                heappop(heap)
                continue
            weight = known.weight if known.share else self._alone
            heapreplace(heap, (at + 1 / weight, _since(members[share][0]), share))

    def _tick(self, heap: Sequence[tuple[float, float, str]]) -> None:
        self._clock = min(heap)[0] if heap else self._clock
        if len(self._passes) > MOST_PASSES:
            # These would be raised to the clock anyway.
            self._passes = {key: at for key, at in self._passes.items() if at > self._clock}


def in_order(queues: Sequence[Sequence[Turn]], boost: float, now: float) -> list[Turn]:
    """Return the turns of several queues, the most urgent first; within a queue as they are.

    They may have gates in common, and one claim may have less than the room of all.
    """

    def urgency(turn: Turn) -> tuple[float, float]:
        level = _level(turn.known, boost, now)
        return float("-inf") if level is None else -level, _since(turn.known)

    return list(merge(*queues, key=urgency))


def _level(known: KnownLane, boost: float, now: float) -> int | None:
    if known.head is None:
        return None
    priority, due = known.head
    waited = max(now - due - BEHIND, 0.0)
    return priority + (int(waited / boost) if boost else 0)


def _since(known: KnownLane) -> float:
    return float("-inf") if known.head is None else known.head[1]
