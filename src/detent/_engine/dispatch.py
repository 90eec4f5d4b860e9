"""Starts claimed jobs, never more at once than a queue has slots for.

A few claims more than there are slots may wait here, so that a slot that becomes free is used at
once; how many follows from how fast jobs have been ending. What waits for long all the same is
given back by `detent._engine.unstarted`.
"""

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from detent._engine.attempt import Attempt, Stop, Workbench
from detent._engine.batches import Batch, Batches, execute_batch
from detent._engine.execute import Ends, execute, settlement_of
from detent._engine.flights import Flights
from detent._engine.permits import KeptPermits
from detent._engine.slots import Slots
from detent._engine.stuck import Stuck
from detent.context import bind
from detent.model.job import Claim, queue_of
from detent.model.outcome import Ending, Outcome, decide
from detent.model.retry import NO_RETRY
from detent.principal import inherit
from detent.spi.limits import LimitStore

# Claims that may wait: what has been ending within this time, about four round trips.
PREFETCH_SECONDS: Final = 0.02
# The same where workers are fewer than slots: they are for jobs that take longer, and each would
# wait for a round trip. Well below what is too long for a claim to wait.
WORKER_PREFETCH_SECONDS: Final = 0.25
AT_ONCE: Final = 64
LANES: Final = 10_000
# After this long a job comes back that still runs here from before the node was fenced.
COME_BACK: Final = 1.0


class Dispatcher:
    """Holds every claim of the node from the moment it is known until its end is written."""

    def __init__(
        self, bench: Workbench, ends: Ends, slots: Mapping[str, int], grace: float = 5.0
    ) -> None:
        self._bench = bench
        self._ends = ends
        self._own_slots = dict(slots)
        self.queues = {queue: Slots(limit) for queue, limit in slots.items()}
        self._lanes: dict[str, tuple[str, Slots]] = {}
        self._crowd: dict[str, Slots] = {}
        """The queues in which claims wait for a slot, and maybe others."""
        self.busy = 0
        """How many slots are taken."""
        self.slots = sum(slots.values())
        """How many jobs may run at once."""
        self._start_planned = False
        self.ended = 0
        """How many jobs have run here."""
        self._batches = Batches(bench.runtime, self._gathered)
        self._context = contextvars.Context()
        """Jobs begin in it, and not in that of the job that has just made room for them."""
        self.flights = Flights(self.queues, self._tell_of_room)
        self._executing: dict[UUID, Attempt] = {}
        """What really runs, with a valid claim or not; a thread that was given up is in it."""
        self.held: dict[UUID, Attempt] = {}
        self.workers: int | None = None
        """How many jobs all executors together can run, if every task needs one of them."""
        self.stuck = Stuck(bench, ends, self._on_end, grace)
        self._draining = False
        self.released = 0
        """How many claims a drain has given back that had not begun."""
        self.kept_back: dict[str, int] = {}
        """Room in queues that is not for everybody: a suspect waits for it."""
        self.on_room: Callable[[str | None], None] = lambda _queue: None
        """Called with the queue that has room, or with None when any may have."""

    # Capacity

    def rooms(self, queues: Sequence[str] | None = None) -> dict[str, int]:
        """Return how many more claims each queue can take, or each of some."""
        rooms = self.all_rooms(queues)
        for queue, kept in self.kept_back.items():
            if queue in rooms:
                rooms[queue] = max(rooms[queue] - kept, 0)
        return rooms

    def all_rooms(self, queues: Sequence[str] | None = None) -> dict[str, int]:
        """Return the same with what is kept back."""
        asked = self._slots_of(queues)
        workers = self.workers
        ahead = PREFETCH_SECONDS if workers is None else WORKER_PREFETCH_SECONDS
        now = self._bench.runtime.monotonic()
        appetite = self._appetite() if self._batches.open else {}
        rooms = {}
        for queue, slots in asked.items():
            room = slots.room(slots.ahead(ahead, now, workers), workers)
            # Batches take one slot, however full: there is room for what they lack.
            rooms[queue] = max(room + appetite.get(queue, 0), 0)
        self.flights.note(rooms)
        return rooms

    def _tell_of_room(self, queue: str) -> None:
        self.on_room(queue)

    def _slots_of(self, queues: Sequence[str] | None) -> Mapping[str, Slots]:
        return self.queues if queues is None else {queue: self.queues[queue] for queue in queues}

    def _appetite(self) -> Mapping[str, int]:
        """Return how many claims of each queue may be taken for batches that lack some.

        None where others wait for a slot: a batch would have to wait behind them.
        """
        appetite = self._batches.appetite()
        return {queue: 0 if self.queues[queue].waiting else n for queue, n in appetite.items()}

    def free(self, queues: Sequence[str]) -> dict[str, int]:
        """Return how many claims of some queues could start at once, or fill a batch that can."""
        appetite = self._appetite() if self._batches.open else {}
        free = {
            queue: max(slots.limit - slots.busy - len(slots.waiting) - slots.promised, 0)
            for queue, slots in self._slots_of(queues).items()
        }
        return {queue: slots and slots + appetite.get(queue, 0) for queue, slots in free.items()}

    @property
    def running(self) -> int:
        """How many jobs run: those that wait for a worker do not."""
        return self.busy - len(self._bench.queued)

    def waits(self, queue: str) -> bool:
        """Tell whether a claim of this queue waits for a slot or for a worker."""
        queued = self._bench.queued.values()
        return bool(self.queues[queue].waiting) or any(each.queue == queue for each in queued)

    def unstarted(self) -> Mapping[str, int]:
        """Return how many claims of each queue have not begun; safe to call from another thread."""
        held = list(self.held.values())
        return Counter(each.queue for each in held if not each.calling and not each.over)

    @property
    def load(self) -> float:
        """The share of the slots that is busy."""
        return self.busy / max(self.slots, 1)

    def resize(self, slots: Mapping[str, int]) -> None:
        """Let these queues have that many slots, and the others their own again."""
        for queue, limit in self._own_slots.items():
            self.queues[queue].limit = slots.get(queue, limit)
        self.slots = sum(each.limit for each in self.queues.values())
        self._start_waiting()
        self.on_room(None)

    # The life of an attempt

    def dispatch(self, claims: Sequence[Claim], node_id: UUID) -> None:
        """Take new claims: start them while there are slots, and let the others wait."""
        # Whoever claims has what hooks have set at the start of the node, which comes after ours.
        self._context = contextvars.copy_context()
        self._context.run(_forget_who_acts)
        now = self._bench.runtime.monotonic()
        held, bench = self.held, self._bench
        batched = bench.registry.batched
        gathered: dict[str, int] = {}
        for claim in claims:
            queue, slots = self._lanes.get(claim.lane) or self._lane(claim.lane)
            attempt = Attempt(claim, queue, node_id, now, bench)
            if claim.id in held or claim.id in self._executing:
                # The old attempt still runs here. Two of one job must never run at once.
                self._give_back(attempt, COME_BACK)
                continue
            held[claim.id] = attempt
            if batched:
                gathered.setdefault(queue, 0)
                if claim.task in batched:
                    self._batches.take(attempt, batched[claim.task])
                    gathered[queue] += 1
                    continue
            slots.waiting.append(attempt)
            self._crowd[queue] = slots
        if batched:
            self._learn(gathered)
        if self._draining:
            self._release_unstarted()
        else:
            self._start_waiting()

    def _learn(self, gathered: Mapping[str, int]) -> None:
        """Let the batches know what a claim brought to them, and where others found no slot."""
        for queue, count in gathered.items():
            slots = self.queues[queue]
            full = len(slots.waiting) > slots.limit - slots.busy
            crowded = full and any(each.batch is None for each in slots.waiting)
            self._batches.learn(queue, count, crowded)

    def _start_waiting(self) -> None:
        """Start what has slots, a few at a time.

        In between the loop sends and receives: the next claim and the last ends are on their way
        while these jobs run, and nobody waits behind five hundred of them.
        """
        self._start_planned = False
        started = 0
        for queue, slots in [*self._crowd.items()]:
            while slots.waiting and slots.busy < slots.limit:
                if started == AT_ONCE:
                    self._start_planned = True
                    asyncio.get_running_loop().call_soon(self._start_waiting)
                    return
                self._start(slots.waiting.popleft(), slots)
                started += 1
            if not slots.waiting:
                del self._crowd[queue]

    def _lane(self, lane: str) -> tuple[str, Slots]:
        queue = queue_of(lane)
        if len(self._lanes) >= LANES:
            # Keys make any number of lanes; all of them are not worth remembering.
            self._lanes.clear()
        entry = self._lanes[lane] = (queue, self.queues[queue])
        return entry

    def _start(self, attempt: Attempt, slots: Slots) -> None:
        slots.busy += 1
        self.busy += 1
        if attempt.batch is not None:
            self._start_batch(attempt.batch)
            return
        self._executing[attempt.claim.id] = attempt
        work = execute(attempt, self._ends, self._on_end)
        attempt.task = self._context.run(self._bench.runtime.spawn, work, attempt.claim.task)

    def _gathered(self, lead: Attempt) -> None:
        """A batch is ready: it waits for a slot like any job."""
        self._crowd[lead.queue] = self.queues[lead.queue]
        self.queues[lead.queue].waiting.append(lead)
        if not self._start_planned:
            self._start_planned = True
            asyncio.get_running_loop().call_soon(self._start_waiting)

    def _start_batch(self, batch: Batch) -> None:
        for attempt in batch.attempts:
            self._executing[attempt.claim.id] = attempt
        work = execute_batch(batch, self._ends, self._on_end)
        batch.work = self._context.run(self._bench.runtime.spawn, work, batch.task.name)

    def _on_end(self, attempt: Attempt) -> None:
        """An attempt has ended: use its slot for the next, unless a thread still occupies it."""
        # Its asyncio task knows it too, through its context: a circle that only the garbage
        # collector would find.
        attempt.task = None
        if self._bench.queued:
            self._bench.queued.pop(attempt.claim.id, None)
        if attempt.batch is not None:
            attempt.batch.let_go()
        if attempt.lingering:
            self.stuck.add(attempt)
            attempt.on_freed = lambda: self._free_stuck(attempt)
            return
        self._free(attempt)

    def _free_stuck(self, attempt: Attempt) -> None:
        self._free(attempt)
        self.stuck.remove(attempt)

    def keeping_permits(self, store: LimitStore) -> KeptPermits:
        """Return a store of limits that leaves the permits of stuck calls with them."""
        return KeptPermits(self._bench.runtime, store, self.stuck.attempts, self.held)

    def _free(self, attempt: Attempt) -> None:
        slots = self.queues[attempt.queue]
        slots.busy -= 1
        self.busy -= 1
        if attempt.batch is None:
            del self._executing[attempt.claim.id]
        else:
            self._end_batch(attempt.batch)
        if attempt.calling or attempt.stop is not Stop.DRAIN:
            self.ended += 1
            slots.ended += 1
            slots.spent += attempt.lasted
            if slots.ceiling is not None and not self.waits(attempt.queue):
                slots.rise()
        if slots.waiting and not self._start_planned:
            self._start(slots.waiting.popleft(), slots)
        self.on_room(attempt.queue)

    def _end_batch(self, batch: Batch) -> None:
        for attempt in batch.attempts:
            del self._executing[attempt.claim.id]
        # How fast slots become free is one thing; how many jobs have run is another.
        ran = sum(each.calling or each.stop is not Stop.DRAIN for each in batch.attempts)
        self.ended += max(ran - 1, 0)

    def too_many_stuck(self) -> tuple[str, int, int] | None:
        """Return an executor of which too much is stuck, how many calls, and of how many."""
        return self.stuck.too_many(self.slots)

    def executing(self) -> list[Attempt]:
        """Return what really runs; safe to call from another thread."""
        return list(self._executing.values())

    def forget(self, job_id: UUID, attempt: Attempt) -> None:
        """The end of a claim is written, or will never be: it is not held any more."""
        if self.held.get(job_id) is attempt:
            del self.held[job_id]

    # Stopping

    def cancel(self, job_id: UUID, fence: int, reason: str | None) -> bool:
        """Stop a running job that somebody asked to cancel; return whether it was here."""
        attempt = self.held.get(job_id)
        if attempt is None or attempt.claim.fence != fence:
            return False
        if attempt.stop is None:
            # The signal is in the store: the end must take it away.
            attempt.side_writes = True
            attempt.stop_for(Stop.CANCEL, reason)
        return True

    def give_back(self, attempts: Sequence[Attempt]) -> None:
        """Let others have these, which wait here: uncharged, each in its old place."""
        leaving = dict.fromkeys(attempt.claim.id for attempt in attempts)
        for queue in dict.fromkeys(attempt.queue for attempt in attempts):
            slots = self.queues[queue]
            waiting, slots.waiting = slots.waiting, deque[Attempt]()
            for attempt in waiting:
                if attempt.claim.id in leaving:
                    self._give_back_all(attempt)
                else:
                    slots.waiting.append(attempt)
        for attempt in attempts:
            if attempt.claim.id in self._bench.queued:
                for each in _members(attempt):
                    each.stop_for(Stop.DRAIN)

    def drain(self) -> None:
        """Start nothing more: give back all that has not begun, and whatever is still claimed."""
        self._draining = True
        self._release_unstarted()

    def _release_unstarted(self) -> None:
        for attempt in self._batches.take_back():
            self._give_back(attempt)
            self.released += 1
        for slots in self.queues.values():
            while slots.waiting:
                self.released += self._give_back_all(slots.waiting.popleft())
        for attempt in self.executing():
            if not attempt.calling and not attempt.over:
                attempt.stop_for(Stop.DRAIN)
                self.released += 1

    def _give_back_all(self, attempt: Attempt) -> int:
        members = _members(attempt)
        for each in members:
            self._give_back(each)
        return len(members)

    def stop_all(self, cause: Stop) -> int:
        """Stop everything that runs; return how many that are, but for those told before."""
        running = [attempt for attempt in self.held.values() if not attempt.over]
        count = sum(attempt.stop is not cause for attempt in running)
        for attempt in running:
            attempt.stop_for(cause)
        return count

    def abandon(self) -> None:
        """The node has lost its claims: nothing it holds may be started or written."""
        for slots in self.queues.values():
            slots.waiting.clear()
        for attempt in list(self.held.values()):
            attempt.stop_for(Stop.FENCED)
        self.held.clear()
        self._batches.take_back()

    def _give_back(self, attempt: Attempt, delay: float | None = None) -> None:
        """Let a claim go that was not used; without a delay the job keeps its place."""
        outcome = Outcome(Ending.RELEASED)
        decision = decide(outcome, attempt.claim.attempt, NO_RETRY, 0)
        attempt.over = True
        settlement = settlement_of(attempt, outcome, decision, 0.0)
        self._ends.settle(attempt, settlement._replace(delay=delay))


def _forget_who_acts() -> None:
    """Let what is done from here on be done in no job and in nobody's name."""
    bind(None)
    inherit(None)


def _members(attempt: Attempt) -> Sequence[Attempt]:
    """Return the attempts that one stands for: itself, or all of its batch."""
    if attempt.batch is None:
        return (attempt,)
    members: Sequence[Attempt] = attempt.batch.attempts
    return members
