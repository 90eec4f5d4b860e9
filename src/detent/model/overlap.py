"""What a slot comes to while jobs of other slots still live: skip it, queue it, or replace them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from detent.model.schedule import Overlap, PlannedSlot


class LiveJob(NamedTuple):
    """A job of another slot that has not ended."""

    id: UUID
    runs: bool
    waits_for: UUID | None = None


@dataclass(slots=True)
class Resolution:
    """What is to be done about the slots of one schedule."""

    skipped: list[datetime] = field(default_factory=list)
    """Slots that get no job after all."""
    waits: dict[UUID, UUID] = field(default_factory=dict)
    """New job to the job that must have ended first."""
    displaced: dict[UUID, UUID] = field(default_factory=dict)
    """Job to be canceled to the new one that takes its place."""
    asked: dict[UUID, UUID] = field(default_factory=dict)
    """Running job to be asked to stop to the new one that waits for it."""


def resolve(overlap: Overlap, slots: Iterable[PlannedSlot], live: Sequence[LiveJob]) -> Resolution:
    """Decide about the slots that are to get a job; `live` has the job fired last first.

    A job that is fired together with others of its schedule counts for those behind it.
    """
    found = Resolution()
    fired = [(each.slot, each.job.id) for each in slots if each.job is not None]
    if overlap is Overlap.ALLOW or not fired:
        return found
    if overlap is Overlap.QUEUE:
        holder = live[0].id if live else None
        for _, job in fired:
            if holder is not None:
                found.waits[job] = holder
            holder = job
        return found
    if overlap is Overlap.SKIP:
        found.skipped = [slot for slot, _ in (fired if live else fired[1:])]
        return found
    *earlier, (_, last) = fired
    found.skipped = [slot for slot, _ in earlier]
    found.displaced = {each.id: last for each in live if not each.runs}
    found.asked = {each.id: last for each in live if each.runs}
    if found.asked:
        found.waits[last] = next(iter(found.asked))
    return found
