"""Fires schedules: slots, jobs and next slots in one transaction.

Whoever runs these steps holds the write lock: what one of them has read stays true for the next.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from detent.model.job import NewJob
from detent.model.overlap import LiveJob, Resolution, resolve
from detent.model.schedule import FiredSlot, FirePlan, Overlap, PlannedSlot, SlotState
from detent.spi.firing import CLOSED, REPLACED, SlotBatch, Written, hint_for, looked_at
from detent.spi.notifier import Hint, Notifier, SignalHint, Wake
from detent.spi.schedules import HOLD
from detent.stores.sqlite.columns import (
    NO_ID,
    chunks,
    micros,
    micros_or_none,
    moment,
    packed,
    span,
    uuid,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.enqueue import Batch as Jobs
from detent.stores.sqlite.enqueue import cancel, request_cancel
from detent.stores.sqlite.finish import after_end
from detent.stores.sqlite.outbox import record_events
from detent.stores.sqlite.schedules import next_revision
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# How many schedules one transaction fires: no write keeps the others waiting for long.
PAGE: Final = 100


class Firers:
    """The part of the store that fires schedules."""

    database: Database
    notifier: Notifier

    async def fire(self, plans: Sequence[FirePlan]) -> list[FiredSlot]:
        """See `ScheduleStore.fire`."""
        by_name = {plan.name: plan for plan in sorted(plans, key=lambda plan: plan.name)}
        fired: list[FiredSlot] = []
        for page in chunks(list(by_name.values()), PAGE):
            fired += await self._fire(page)
        return fired

    async def _fire(self, plans: Sequence[FirePlan]) -> list[FiredSlot]:
        by_name = {plan.name: plan for plan in plans}
        wanted = written([(plan.name, plan.revision) for plan in plans])

        def work(session: Session) -> Written:
            mine = [by_name[name] for name in session.table(sql("lock_schedules"), wanted)]
            if not mine:
                return Written([], [])
            batches = [SlotBatch(plan.name, plan.overlap, plan.slots) for plan in mine]
            answer = _Writing(session, manual=False).write(batches)
            revision = next_revision(session)
            moved = written([_advance(plan, session.now) for plan in mine])
            session.change(sql("advance_schedules", "schedules"), moved, revision)
            return answer

        answer = await self.database.write(work)
        self.notifier.publish(answer.wakes)
        return answer.fired

    async def fire_slots(
        self, name: str, overlap: Overlap, slots: Sequence[PlannedSlot]
    ) -> list[FiredSlot]:
        """See `ScheduleStore.fire_slots`."""

        def work(session: Session) -> Written:
            if not session.table(sql("hold_schedule"), name):
                return Written([], [])
            writing = _Writing(session, manual=True)
            known = writing.known(name, slots)
            answer = writing.write([SlotBatch(name, overlap, slots)])
            return Written([*answer.fired, *known], answer.wakes)

        answer = await self.database.write(work)
        self.notifier.publish(answer.wakes)
        return answer.fired


class _Writing:
    """Writes slots and their jobs in one transaction."""

    def __init__(self, session: Session, *, manual: bool) -> None:
        self._session = session
        self._manual = manual
        self._wakes: list[Wake] = []

    def write(self, batches: Sequence[SlotBatch]) -> Written:
        """Write the slots that are new, with their jobs as far as overlap allows."""
        fired: list[FiredSlot] = []
        free: list[NewJob] = []
        behind: list[tuple[NewJob, UUID]] = []
        skipped: list[tuple[str, int]] = []
        new = self._write_slots(batches)
        for batch in new:
            found = self._resolve(batch)
            for planned in batch.slots:
                job = planned.job
                if planned.slot in found.skipped:
                    skipped.append((batch.name, micros(planned.slot)))
                    fired.append(
                        FiredSlot(batch.name, planned.slot, SlotState.SKIPPED_OVERLAP, None)
                    )
                    continue
                fired.append(FiredSlot(batch.name, planned.slot, planned.state, job and job.id))
                if job is not None and job.id in found.waits:
                    behind.append((job, found.waits[job.id]))
                elif job is not None:
                    free.append(job)
        if skipped:
            self._session.change(sql("skip_slots"), written(skipped))
        self._store(free, behind)
        for batch in new:
            self._session.change(sql("close_slots"), batch.name, CLOSED)
        return Written(fired, list(dict.fromkeys(self._wakes)))

    def _write_slots(self, batches: Sequence[SlotBatch]) -> list[SlotBatch]:
        """Return the batches with only those slots that were not there."""
        flat = [(batch, each) for batch in batches for each in batch.slots]
        rows = written(
            [
                (batch.name, micros(each.slot), str(each.state), int(each.job is not None))
                for batch, each in flat
            ]
        )
        manual = int(self._manual)
        keys = self._session.table(sql("write_slots", "new"), rows, manual)
        new = {(flat[key][0].name, flat[key][1].slot) for key in keys}
        jobs = b"".join([each.job.id.bytes if each.job else NO_ID for _, each in flat])
        self._session.change(sql("write_slots", "slots"), rows, jobs, self._session.now, manual)
        return [left for batch in batches if (left := batch.only(new)).slots]

    def known(self, name: str, slots: Sequence[PlannedSlot]) -> list[FiredSlot]:
        """Return what an earlier try of the same call has written."""
        jobs = [(each.slot, each.job.id) for each in slots if each.job is not None]
        said = written([(name, micros(slot)) for slot, _ in jobs])
        rows = self._session.table(sql("known_slots"), said, packed(job for _, job in jobs))
        return [
            FiredSlot(schedule, moment(slot), SlotState(state), uuid(job))
            for schedule, slot, state, job in rows
        ]

    # Overlap

    def _resolve(self, batch: SlotBatch) -> Resolution:
        """Decide about slots whose schedule may have live jobs, and clear the way for them."""
        own = [each.job.id for each in batch.slots if each.job is not None]
        if batch.overlap is Overlap.ALLOW or not own:
            return Resolution()
        limit = looked_at(batch.overlap)
        rows = self._session.table(sql("overlapping_jobs"), batch.name, packed(own), limit)
        live = [
            LiveJob(uuid(job), bool(runs), uuid(waits_for) if waits_for else None)
            for job, runs, waits_for in rows
        ]
        found = resolve(batch.overlap, batch.slots, live)
        self._clear(found)
        return found

    def _clear(self, found: Resolution) -> None:
        """Cancel what is replaced, and ask what runs to stop."""
        ended: dict[UUID, UUID | None] = {}
        for job, successor in found.displaced.items():
            reason = f"replaced by {successor}"
            for _, hooks, waits_for in cancel(self._session, job.bytes, None, reason, successor):
                ended[job] = uuid(waits_for) if waits_for else None
                self._wakes += record_events(self._session, [(job, hooks)])
        if ended:
            self._wakes += [Hint(lane) for (lane,) in after_end(self._session, ended)]
        if found.asked:
            asked = request_cancel(self._session, packed(found.asked), None, REPLACED)
            self._wakes += [SignalHint(uuid(node)) for _, node, _ in asked]

    def _store(self, free: Sequence[NewJob], behind: Sequence[tuple[NewJob, UUID]]) -> None:
        jobs = [*free, *(job for job, _ in behind)]
        if jobs:
            Jobs(jobs).store(self._session)
        self._wakes += [hint_for(job) for job in free]
        if behind:
            ids, holders = packed(job.id for job, _ in behind), packed(each for _, each in behind)
            waiting = (ids, holders, self._session.now)
            self._session.change(sql("enqueue_waiting_jobs", "parked"), *waiting)
            self._session.change(sql("enqueue_waiting_jobs", "gone"), ids)


def _advance(plan: FirePlan, now: int) -> tuple[Any, ...]:
    """Return what a schedule is like after its plan was carried out."""
    fired = [each.slot for each in plan.slots if each.job is not None]
    held = plan.problem is not None and not plan.slots
    next_fire = micros_or_none(plan.next_fire)
    due_at = now + span(HOLD) if held else next_fire
    last = micros_or_none(max(fired, default=None))
    return (plan.name, next_fire, last, len(fired), plan.problem, due_at)
