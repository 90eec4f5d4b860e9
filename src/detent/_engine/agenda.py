"""Which queues of a node are worth asking: now, at a moment, or when they have room again.

A node may serve thousands of queues. What happens in one of them costs nothing in the others.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import islice


class Agenda:
    """What a claimer has to do, by queue."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._now: dict[str, None] = dict.fromkeys(queues)
        self._full: dict[str, None] = {}
        self._at: dict[str, float] = {}
        self._later: list[tuple[float, str]] = []

    def first(self, most: int | None = None) -> list[str]:
        """Return the queues to be asked now, or the first few, as they were put down."""
        return list(islice(self._now, most))

    def __bool__(self) -> bool:
        return bool(self._now)

    def ask(self, queues: Iterable[str]) -> None:
        """Ask some queues now: something may have come."""
        self._now.update(dict.fromkeys(queues))

    def ask_in_turn(self, queues: Sequence[str], last: str) -> None:
        """Ask some queues now of which a full claim came no further than to `last`.

        Those that it did not come to have their turn first, then the one that it left halfway.
        """
        reached = queues.index(last)
        self.ask([*queues[reached + 1 :], last, *queues[:reached]])

    def ask_at(self, queue: str, moment: float) -> None:
        """Ask a queue at a moment, and not at another that was known before."""
        self._at[queue] = moment
        heappush(self._later, (moment, queue))

    def done(self, queues: Iterable[str]) -> None:
        """Take note that some queues are being asked: what was known of them is over."""
        for queue in queues:
            self._now.pop(queue, None)
            self._full.pop(queue, None)
            self._at.pop(queue, None)

    def wait_for_room(self, queue: str) -> None:
        """Ask a queue as soon as it has room."""
        self._now.pop(queue, None)
        self._full[queue] = None

    def waits_for_room(self, queue: str) -> bool:
        """Tell whether a queue is to be asked as soon as it has room."""
        return queue in self._full

    def room_came(self, queue: str | None) -> bool:
        """A queue has room, or with None any of them may; return whether one waited for it."""
        if queue is None:
            waited = bool(self._full)
            self._now.update(self._full)
            self._full.clear()
            return waited
        if queue not in self._full:
            return False
        del self._full[queue]
        self._now[queue] = None
        return True

    def come_due(self, now: float) -> None:
        """Put down for now what is due by now."""
        while self._later and self._later[0][0] <= now:
            at, queue = heappop(self._later)
            if self._at.get(queue) == at:
                del self._at[queue]
                self._now[queue] = None

    def first_at(self) -> float | None:
        """Return the first moment for which something is put down."""
        while self._later:
            at, queue = self._later[0]
            if self._at.get(queue) == at:
                return at
            heappop(self._later)
        return None
