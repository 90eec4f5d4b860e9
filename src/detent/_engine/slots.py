"""The slots of a queue on this node, and how many claims it takes for them.

A claim is for starting. A queue takes as many claims as it has slots, and a few more while its jobs
end so fast that these will begin within milliseconds. How fast that is follows from how many have
ended and from how long they took: slow jobs that end in one moment set no pace. When claims have
waited for too long all the same, there are fewer workers than slots or the pace has fallen: the
queue then takes only as many as really run, and tries one more now and then. After it has given
claims back it takes none for a moment, or it would be the first to take them again.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from detent._engine.attempt import Attempt
from detent.spi.executor import Executor
from detent.tasks import Registry

# For how long ends are counted at least before they say how fast jobs end.
WINDOW: Final = 0.02
# How often a queue that takes fewer claims than it has slots tries more, if no job ends meanwhile.
PROBE: Final = 5.0
# For how long a queue takes no claims after it has given some back: others have to hear of them.
# It is twice as long each time, up to `PROBE`, until a job has run.
REST: Final = 0.25


def count_workers(registry: Registry, executors: Mapping[str, Executor]) -> int | None:
    """Return how many jobs a node can run at once, whatever its slots; None if that is not limited.

    It is not if a task runs on the event loop or in an executor without a `capacity`, nor if jobs
    of a batch share a worker.
    """
    if registry.batched:
        return None
    workers = 0
    for name in dict.fromkeys(task.options_declared.executor for task in registry):
        capacity: int | None = getattr(executors.get(name), "capacity", None)
        if capacity is None:
            return None
        workers += capacity
    return workers or None


class Slots:
    """The slots of one queue."""

    __slots__ = (
        "_probe_at",
        "_rest",
        "_rests_until",
        "_step",
        "busy",
        "ceiling",
        "ended",
        "limit",
        "measured_at",
        "pace",
        "promised",
        "resting",
        "spent",
        "waiting",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.busy = 0
        self.promised = 0
        """Room that is kept for claims that are on their way."""
        self.waiting: deque[Attempt] = deque()
        self.ceiling: int | None = None
        """How many claims the queue takes at most, if that is less than its slots allow."""
        self._step = 1
        self._probe_at = 0.0
        self.resting = False
        """Whether it takes no claims at all, so that other nodes can have what it gave back."""
        self._rest = 0.0
        self._rests_until = 0.0
        self.ended = 0
        """How many slots have become free since `measured_at`."""
        self.spent = 0.0
        """For how many seconds all those jobs together had run."""
        self.measured_at = 0.0
        self.pace = 0.0
        """How many slots have been becoming free in a second, before that."""

    def ahead(self, seconds: float, now: float, workers: int | None = None) -> int:
        """Return how many slots become free within so many seconds, by the pace of late."""
        passed = now - self.measured_at
        if passed >= WINDOW:
            self.pace = self.ended / passed
            if self.spent > 0:
                # So many slots cannot keep up more than this with jobs that take so long.
                slots = self.limit if workers is None else min(self.limit, workers)
                self.pace = min(self.pace, slots * self.ended / self.spent)
            self.ended, self.spent, self.measured_at = 0, 0.0, now
        return int(self.pace * seconds)

    def room(self, prefetch: int, workers: int | None = None) -> int:
        """Return how many more claims this queue can take.

        `workers` is the number of jobs that all executors together can run, if that is limited.
        """
        slots = self.limit if workers is None else min(self.limit, workers)
        most = slots + min(prefetch, self.limit)
        if self.ceiling is not None:
            most = 0 if self.resting else min(most, self.ceiling)
        return most - self.busy - len(self.waiting) - self.promised

    def cap(self, running: int, now: float) -> None:
        """Take no more claims than those that really run: others have waited for too long."""
        self.ceiling, self._step, self._probe_at = max(running, 1), 1, now + PROBE

    def rest(self, now: float) -> None:
        """Take no claims for a moment: some were given back."""
        self._rest = min(max(self._rest * 2, REST), PROBE)
        self.resting, self._rests_until = True, now + self._rest

    def end_rest(self, now: float) -> bool:
        """Take claims again if the rest is over; return whether it is."""
        if not self.resting or now < self._rests_until:
            return False
        self.resting = False
        return True

    def rise(self) -> None:
        """Take one more than before: a job has run and ended, and none waits."""
        self._rest = 0.0
        if not self.resting:
            self._rise_by(1)

    def probe(self, now: float) -> bool:
        """Take more than before, each time twice as many more; return False if it is too early."""
        if now < self._probe_at:
            return False
        self._probe_at = now + PROBE
        self._rise_by(self._step)
        self._step *= 2
        return True

    def _rise_by(self, number: int) -> None:
        if self.ceiling is not None:
            self.ceiling += number
            if self.ceiling >= 2 * self.limit:
                self.ceiling = None
