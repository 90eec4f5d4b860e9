"""Chooses what a node asks for of the lanes that are ready, in all queues that have room."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from detent._engine.dispatch import Dispatcher
from detent._engine.lane import KnownLane
from detent._engine.lanes import BATCH, KnownLanes
from detent._engine.turns import Turn, Turns, in_order


class Choice:
    """Room and turns, queue by queue."""

    def __init__(
        self,
        lanes: KnownLanes,
        dispatcher: Dispatcher,
        *,
        batch: int,
        boost: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._lanes = lanes
        self._dispatcher = dispatcher
        self._batch = batch
        self._boost = boost
        self._monotonic = monotonic
        self._turns = defaultdict[str, Turns](partial(Turns, boost))

    def rooms(self) -> Mapping[str, int]:
        """Return how many of each queue with lanes that are ready to ask for."""
        queues = self._lanes.ready_queues
        # One claim has something of each: the queue that comes first must not have all of it.
        most = -(-self._batch // max(len(queues), 1))
        return {queue: min(room, most) for queue, room in self._dispatcher.rooms(queues).items()}

    def choose(self, rooms: Mapping[str, int]) -> list[Turn]:
        """Return whose turn it is in each queue that has room."""
        queues = [queue for queue in self._lanes.ready_queues if rooms[queue] > 0]
        now, asked = self._monotonic(), list[list[Turn]]()
        for queue in queues:
            turns = self._turns[queue]
            lanes = self._lanes.ready_in(queue, partial(turns.precedes, now))
            most = max(BATCH // len(queues), 1)
            alone, kept = len(queues) == 1, self._lanes.some_kept
            asked += [turns.choose(lanes, rooms[queue], most, now, alone=alone, others_wait=kept)]
        return in_order(asked, self._boost, now)

    def took(self, known: KnownLane, count: int) -> None:
        """Count the turns that a lane has had."""
        self._turns[known.queue].took(known, count)

    def is_below(self, turn: Turn) -> bool:
        """Tell whether what is left of a lane is less urgent than what was asked for."""
        level = self._turns[turn.known.queue].level(turn.known, self._monotonic())
        return level is not None and level < turn.least


def in_runs(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Return turns in the same order, each family by itself and the lanes between them together."""
    for is_whole, some in groupby(turns, lambda turn: turn.known.is_whole):
        if is_whole:
            yield from ([turn] for turn in some)
        else:
            yield list(some)
