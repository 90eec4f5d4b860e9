"""The lanes that a node serves: of each queue the plain one, and those others that hold jobs.

A job that needs capabilities stands in a lane that names them, `mail+gpu+ml`. A node that offers n
of them could serve 2^n lanes of each queue, and nearly all of those never exist. So it visits only
lanes of which a hint or a look has told, and forgets those that a look does not find again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from detent.model.gates import is_gated, without_gates
from detent.model.job import SUSPECT, needs_of, queue_of

# A claim locks as many rows of each lane of a queue as there is room for, and leaves all but the
# best: of more lanes than this it asks for less at once.
LANES: Final = 4


class ServedLanes:
    """What one node knows of the lanes without gates that it serves."""

    def __init__(self, queues: Iterable[str], capabilities: Collection[str]) -> None:
        self._offered = frozenset(capabilities)
        self._by_queue: dict[str, list[str]] = {queue: [queue] for queue in queues}
        self._queues: dict[str, str] = {queue: queue for queue in self._by_queue}
        """The queue of every known lane."""
        self._heard: dict[str, None] = {}
        """Lanes of which a hint told since the last look began."""

    @property
    def by_queue(self) -> Mapping[str, Sequence[str]]:
        """The known lanes of each queue."""
        return self._by_queue

    @property
    def all(self) -> Sequence[str]:
        """All known lanes."""
        return list(self._queues)

    @property
    def may_grow(self) -> bool:
        """Whether there can be other lanes than the plain ones: the node offers something."""
        return bool(self._offered)

    def bounded(self, queue: str, room: int) -> int:
        """Return how many jobs to ask of a queue in one claim."""
        lanes = len(self._by_queue[queue])
        return room if lanes <= LANES else max(room * LANES // lanes, 1)

    def serves(self, lane: str) -> bool:
        """Tell whether the node may run the jobs of a lane, whatever its gates."""
        return queue_of(lane) in self._by_queue and self._offered.issuperset(needs_of(lane))

    def hear(self, lane: str) -> str | None:
        """Take a hint of a lane; return its queue if a claim without gates may find jobs in it."""
        queue = self._queues.get(lane)
        if queue is None:
            if not self._offered or is_gated(lane) or not self.serves(lane):
                return None
            queue = self._learn(lane)
        elif queue == lane:
            return queue
        self._heard[without_gates(lane)] = None
        return None if lane.endswith(SUSPECT) else queue

    def begin_look(self) -> None:
        """Take note of what is heard from now on: the look may not see it."""
        self._heard.clear()

    def found(self, lanes: Iterable[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Take in all lanes that hold jobs and need something; return what is new, and what went.

        Where suspects stand, the lane that they come from is known too.
        """
        seen = dict.fromkeys(without_gates(lane) for lane in lanes if self.serves(lane))
        new = [lane for lane in seen if lane not in self._queues]
        gone = [
            lane
            for lane, queue in self._queues.items()
            if lane != queue and lane not in seen and lane not in self._heard
        ]
        for lane in new:
            self._learn(lane)
        for lane in gone:
            self._by_queue[self._queues.pop(lane)].remove(lane)
        return new, gone

    def _learn(self, lane: str) -> str:
        lane, queue = without_gates(lane), queue_of(lane)
        if lane not in self._queues:
            self._queues[lane] = queue
            self._by_queue[queue].append(lane)
        return queue
