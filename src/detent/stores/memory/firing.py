"""Firing schedules: slots, jobs and next slots at one moment, or nothing of them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from detent.model.job import Hook, NewJob
from detent.model.overlap import LiveJob, Resolution, resolve
from detent.model.schedule import (
    FiredSlot,
    FirePlan,
    Overlap,
    PlannedSlot,
    SlotInfo,
    SlotState,
)
from detent.model.state import State
from detent.spi.firing import REPLACED
from detent.spi.schedules import HOLD
from detent.stores.memory.ending import end, request_cancel
from detent.stores.memory.enqueue import enqueue_jobs
from detent.stores.memory.tables import Outcome, Parked, Scheduled, Tables

OVERLAP: Final = "overlap"


def fire(tables: Tables, now: datetime, plans: Sequence[FirePlan]) -> list[FiredSlot]:
    """Carry out the plans of schedules that are still as they were seen."""
    fired: list[FiredSlot] = []
    for plan in sorted(plans, key=lambda plan: plan.name):
        row = tables.schedules.get(plan.name)
        if row is None or row.info.revision != plan.revision or row.info.paused_at is not None:
            continue
        fired += _write(tables, now, plan.name, plan.overlap, plan.slots, manual=False)
        _advance(tables, now, row, plan)
    return fired


def fire_slots(
    tables: Tables, now: datetime, name: str, overlap: Overlap, slots: Sequence[PlannedSlot]
) -> list[FiredSlot]:
    """Write slots by hand."""
    if name not in tables.schedules:
        return []
    repeated = [
        FiredSlot(name, planned.slot, row.state, row.job)
        for planned in slots
        if (row := tables.schedule_slots.get((name, planned.slot))) is not None
        and planned.job is not None
        and row.job == planned.job.id
    ]
    return [*_write(tables, now, name, overlap, slots, manual=True), *repeated]


def lives(tables: Tables, job_id: UUID) -> bool:
    """Tell whether a job has not ended."""
    return any(job_id in place for place in (tables.ready, tables.running, tables.parked))


def _write(
    tables: Tables,
    now: datetime,
    name: str,
    overlap: Overlap,
    slots: Sequence[PlannedSlot],
    *,
    manual: bool,
) -> list[FiredSlot]:
    """Write the slots that are new, with their jobs as far as overlap allows."""
    new = [each for each in slots if _is_free(tables, name, each, manual=manual)]
    _close(tables, name)
    found = resolve(overlap, new, _live_jobs(tables, name))
    _clear(tables, now, found)
    fired = []
    for planned in new:
        job = planned.job if planned.slot not in found.skipped else None
        skipped = planned.job is not None and job is None
        state = SlotState.SKIPPED_OVERLAP if skipped else planned.state
        row = SlotInfo(name, planned.slot, now, state, job and job.id, manual)
        tables.schedule_slots[name, planned.slot] = row
        if job is not None:
            tables.live_slots[job.id] = row
            _store(tables, now, job, found.waits.get(job.id))
        fired.append(FiredSlot(name, planned.slot, state, job and job.id))
    return fired


def _is_free(tables: Tables, name: str, planned: PlannedSlot, *, manual: bool) -> bool:
    """Tell whether a slot was not written, or was left out and is wanted by hand all the same."""
    row = tables.schedule_slots.get((name, planned.slot))
    return row is None or (manual and row.job is None and planned.job is not None)


def _close(tables: Tables, name: str) -> None:
    """Forget jobs that have ended, so that nobody looks at them again."""
    ended = [
        job
        for job, row in tables.live_slots.items()
        if row.schedule == name and not lives(tables, job)
    ]
    for job in ended:
        del tables.live_slots[job]


def _live_jobs(tables: Tables, name: str) -> list[LiveJob]:
    """Return the live jobs of a schedule whose end wakes others, the one fired last first."""
    found = []
    for job, row in tables.live_slots.items():
        if row.schedule == name and tables.place_of(job).hooks & Hook.SLOT:
            parked = tables.parked.get(job)
            waits_for = None if parked is None else parked.waits_for
            found.append(LiveJob(job, job in tables.running, waits_for))
    return found[::-1]


def _clear(tables: Tables, now: datetime, found: Resolution) -> None:
    """Cancel what is replaced, and ask what runs to stop."""
    for job, successor in found.displaced.items():
        place = tables.place_of(job)
        ended = Outcome(job, State.CANCELED, place.generation, place.attempt, now)
        reason = f"replaced by {successor}"
        end(tables, now, ended._replace(reason=reason, superseded_by=successor))
    for job in found.asked:
        request_cancel(tables, job, REPLACED)


def _store(tables: Tables, now: datetime, job: NewJob, waits_for: UUID | None) -> None:
    known = job.id in tables.job
    enqueue_jobs(tables, now, [job])
    if waits_for is not None and not known:
        tables.parked[job.id] = Parked(tables.ready.pop(job.id), OVERLAP, waits_for)
    elif not known:
        tables.put_back(tables.ready[job.id])


def _advance(tables: Tables, now: datetime, row: Scheduled, plan: FirePlan) -> None:
    """Move a schedule on to its next slot."""
    fired = [each.slot for each in plan.slots if each.job is not None]
    tables.revision += 1
    info = replace(
        row.info,
        revision=tables.revision,
        next_fire=plan.next_fire,
        prev_fire=max(fired, default=row.info.prev_fire),
        runs=row.info.runs + len(fired),
        problem=plan.problem,
    )
    held = plan.problem is not None and not plan.slots
    tables.schedules[plan.name] = Scheduled(info, now + HOLD if held else plan.next_fire)
