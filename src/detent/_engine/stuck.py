"""Ends jobs whose coroutine goes on although it was told to stop, and counts calls that are stuck.

A coroutine can swallow its cancel as a thread can ignore that nobody waits for it. After a grace in
which it may clean up, its job ends without it. The coroutine keeps its slot until it ends, and what
it returns then is refused. A node of which more than half is occupied by such calls asks to be
replaced: a fresh process is the only cure.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from detent._engine.attempt import Attempt, Stop, Workbench
from detent._engine.batches import Batch, last_word
from detent._engine.execute import Ends, flush_side_writes, report, stopped
from detent._engine.guards import tell_guards
from detent.events import StuckCoroutine
from detent.model.outcome import Outcome

# A call that has been stuck for this many seconds counts towards too many.
ENDURED: Final = 60.0
ON_LOOP: Final = "async"


class Stuck:
    """What goes on in a node after its job has ended."""

    def __init__(
        self, bench: Workbench, ends: Ends, on_end: Callable[[Attempt], None], grace: float
    ) -> None:
        self._bench = bench
        self._ends = ends
        self._on_end = on_end
        self._since: dict[UUID, tuple[Attempt, float]] = {}
        self._grace = grace
        """How many seconds a coroutine has to clean up."""
        self.on_released: Callable[[Iterable[str]], None] = lambda lanes: None
        """Told in which lanes jobs stood that have given back their permits."""
        bench.on_canceled = self._watch

    # Coroutines

    def _watch(self, attempt: Attempt) -> None:
        """Give up an attempt that does not end within its grace after it was canceled."""
        task = attempt.job_task
        if task is None or task.options_declared.executor != ON_LOOP or not attempt.calling:
            return
        if isinstance(attempt.task, Batch):
            if not attempt.task.is_canceled:
                return
            attempt = attempt.task.lead
        if attempt.timer is not None:
            attempt.timer.cancel()
        attempt.timer = self._bench.runtime.later(self._grace, lambda: self._give_up(attempt))

    def _give_up(self, lead: Attempt) -> None:
        batch: Batch | None = lead.batch
        ended: Sequence[tuple[Attempt, Outcome]]
        if batch is None:
            ended = [(lead, stopped(lead))]
        else:
            entries = batch.entries
            ended = [
                (each.attempt, each.outcome or last_word(each) or stopped(each.attempt))
                for each in entries
            ]
        for attempt, outcome in ended:
            attempt.over = True
            if attempt.admitted_by:
                tell_guards(attempt, outcome)
        lead.lingering = True
        claim = lead.claim
        self._bench.bus.emit(StuckCoroutine(claim.id, claim.task, lead.node_id))
        self._bench.runtime.spawn(self._end(lead, ended), "detent-stuck")

    async def _end(self, lead: Attempt, ended: Sequence[tuple[Attempt, Outcome]]) -> None:
        try:
            said = [
                each
                for each, _ in ended
                if each.side_writes and not each.completed and each.stop is not Stop.FENCED
            ]
            if said:
                await flush_side_writes(said[0])
            for attempt, outcome in ended:
                report(attempt, outcome, self._ends)
        finally:
            self._on_end(lead)

    # All calls that are stuck, on threads too

    def add(self, attempt: Attempt) -> None:
        """Take note of an attempt whose call goes on."""
        self._since[attempt.claim.id] = (attempt, self._bench.runtime.monotonic())

    def remove(self, attempt: Attempt) -> None:
        """The call has ended after all: what it kept of limits is free."""
        self._since.pop(attempt.claim.id, None)
        self.on_released((attempt.claim.lane,))

    def attempts(self) -> list[Attempt]:
        """Return those whose calls go on; of a batch the first."""
        return [attempt for attempt, _ in self._since.values()]

    def too_many(self, slots: int) -> tuple[str, int, int] | None:
        """Return an executor of which more than half is stuck, how many calls, and of how many."""
        if not self._since:
            return None
        before = self._bench.runtime.monotonic() - ENDURED
        counts = Counter(
            attempt.job_task.options_declared.executor
            for attempt, since in self._since.values()
            if since <= before and attempt.job_task is not None
        )
        for name, count in counts.items():
            capacity = getattr(self._bench.executors.get(name), "capacity", slots)
            if count * 2 > min(capacity, slots):
                return name, count, min(capacity, slots)
        return None
