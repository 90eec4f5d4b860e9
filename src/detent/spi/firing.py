"""What SQL stores share that fire schedules: slots to be written, and what came of them."""

from collections.abc import Container, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Self

from detent.model.job import NewJob
from detent.model.schedule import FiredSlot, Overlap, PlannedSlot
from detent.spi.notifier import Hint, Wake

ALL: Final = 1_000_000
CLOSED: Final = 20
"""How many ends of older jobs are noted with each firing: more than one, so that none piles up."""
REPLACED: Final = "its schedule fired again"
"""Why a job is asked to stop that is replaced."""


def looked_at(overlap: Overlap) -> int:
    """Return how many live jobs are looked at, those fired last first.

    Who queues stands behind the last one, and one is enough to be skipped. But all are replaced.
    """
    return ALL if overlap is Overlap.REPLACE else 1


class SlotBatch(NamedTuple):
    """Slots of one schedule to be written."""

    name: str
    overlap: Overlap
    slots: Sequence[PlannedSlot]

    def only(self, new: Container[tuple[str, datetime]]) -> Self:
        """Return it with those of its slots that are new, by schedule and slot."""
        return self._replace(slots=[each for each in self.slots if (self.name, each.slot) in new])


class Written(NamedTuple):
    """What was written, and who has to be told of it."""

    fired: list[FiredSlot]
    wakes: list[Wake]


def hint_for(job: NewJob) -> Hint:
    """Return the hint for a new job: with its place, since it may be due since long."""
    if job.due_at is None:
        return Hint(job.lane, job.priority)
    return Hint(job.lane, job.priority, job.due_at, job.id)
