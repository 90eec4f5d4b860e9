"""Fires schedules: slots, jobs and next slots in one transaction, for a page of them at a time.

Locks are taken in one order: schedules by name, then jobs by id, as their ends lock them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from detent.errors import StoreError
from detent.model.job import NewJob
from detent.model.overlap import LiveJob, Resolution, resolve
from detent.model.schedule import FiredSlot, FirePlan, Overlap, PlannedSlot, SlotState
from detent.spi.firing import CLOSED, REPLACED, SlotBatch, Written, hint_for, looked_at
from detent.spi.notifier import Hint, Notifier, SignalHint, Wake
from detent.spi.schedules import HOLD
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.enqueue import enqueue_step, job_columns
from detent.stores.postgres.finish import after_end
from detent.stores.postgres.outbox import is_watched, record_events

MAX_ROUNDS: Final = 10


class Firers:
    """The part of the store that fires schedules."""

    database: Database
    notifier: Notifier

    async def fire(self, plans: Sequence[FirePlan]) -> list[FiredSlot]:
        """See `ScheduleStore.fire`."""
        if not plans:
            return []
        by_name = {plan.name: plan for plan in sorted(plans, key=lambda plan: plan.name)}
        wanted = (list(by_name), [plan.revision for plan in by_name.values()])

        async def work(connection: Connection) -> Written:
            rows = await connection.fetch(self.database.sql("lock_schedules"), *wanted)
            mine = [by_name[row["name"]] for row in rows]
            if not mine:
                return Written([], [])
            batches = [SlotBatch(plan.name, plan.overlap, plan.slots) for plan in mine]
            written = await _Transaction(self.database, connection, manual=False).write(batches)
            await connection.fetch(self.database.sql("advance_schedules"), *_advances(mine))
            return written

        return await self._transact(work)

    async def fire_slots(
        self, name: str, overlap: Overlap, slots: Sequence[PlannedSlot]
    ) -> list[FiredSlot]:
        """See `ScheduleStore.fire_slots`."""

        async def work(connection: Connection) -> Written:
            if not await connection.fetch(self.database.sql("hold_schedule"), name):
                return Written([], [])
            transaction = _Transaction(self.database, connection, manual=True)
            written = await transaction.write([SlotBatch(name, overlap, slots)])
            done = {each.slot for each in written.fired}
            left = [slot for slot in slots if slot.slot not in done and slot.job is not None]
            return Written([*written.fired, *await transaction.known(name, left)], written.wakes)

        return await self._transact(work)

    async def _transact(self, work: Callable[[Connection], Awaitable[Written]]) -> list[FiredSlot]:
        for _ in range(MAX_ROUNDS):
            try:
                written = await self.database.transact(work)
            except _Again:
                continue
            self.notifier.publish(written.wakes)
            return written.fired
        raise StoreError("schedules could not be fired: their jobs move too fast; try again")


class _Again(Exception):
    """Jobs have moved between two looks at them: the transaction is started anew."""


class _Transaction:
    """One transaction that writes slots and their jobs."""

    def __init__(self, database: Database, connection: Connection, *, manual: bool) -> None:
        self._database = database
        self._connection = connection
        self._manual = manual
        self._wakes: list[Wake] = []

    async def _fetch(self, name: str, *args: Any) -> list[Any]:
        return list(await self._connection.fetch(self._database.sql(name), *args))

    async def write(self, batches: Sequence[SlotBatch]) -> Written:
        """Write the slots that are new, with their jobs as far as overlap allows."""
        new = await self._write_slots(batches)
        if not new:
            return Written([], [])
        found = await self._resolve(new)
        skipped = {(name, slot) for name, each in found.items() for slot in each.skipped}
        if skipped:
            names, slots = zip(*sorted(skipped), strict=True)
            await self._fetch("skip_slots", names, slots)
        waits = {job: holder for each in found.values() for job, holder in each.waits.items()}
        fired = [
            FiredSlot(batch.name, planned.slot, SlotState.SKIPPED_OVERLAP, None)
            if (batch.name, planned.slot) in skipped
            else FiredSlot(batch.name, planned.slot, planned.state, planned.job and planned.job.id)
            for batch in new
            for planned in batch.slots
        ]
        kept = {each.job for each in fired}
        jobs = [
            planned.job
            for batch in new
            for planned in batch.slots
            if planned.job is not None and planned.job.id in kept
        ]
        await self._store(jobs, waits)
        await self._fetch("close_slots", [batch.name for batch in new], CLOSED)
        return Written(fired, list(dict.fromkeys(self._wakes)))

    async def _write_slots(self, batches: Sequence[SlotBatch]) -> list[SlotBatch]:
        """Return the batches with only those slots that were not there."""
        rows = [
            (batch.name, each.slot, each.job and each.job.id, str(each.state))
            for batch in batches
            for each in batch.slots
        ]
        if not rows:
            return []
        columns = zip(*rows, strict=True)
        written = await self._fetch("write_slots", *columns, self._manual)
        new = {(row["schedule"], row["slot"]) for row in written}
        return [left for batch in batches if (left := batch.only(new)).slots]

    async def known(self, name: str, slots: Sequence[PlannedSlot]) -> list[FiredSlot]:
        """Return what an earlier try of the same call has written."""
        rows = [(name, each.slot, each.job.id) for each in slots if each.job is not None]
        if not rows:
            return []
        return [
            FiredSlot(row["schedule"], row["slot"], SlotState(row["state"]), row["job"])
            for row in await self._fetch("known_slots", *zip(*rows, strict=True))
        ]

    # Overlap

    async def _resolve(self, batches: Sequence[SlotBatch]) -> dict[str, Resolution]:
        """Decide about slots whose schedule may have live jobs, and clear the way for them."""
        asking = [
            batch
            for batch in batches
            if batch.overlap is not Overlap.ALLOW and any(each.job for each in batch.slots)
        ]
        if not asking:
            return {}
        live = await self._live_jobs(asking)
        found = {
            batch.name: resolve(batch.overlap, batch.slots, live.get(batch.name, ()))
            for batch in asking
        }
        await self._clear(found)
        return found

    async def _live_jobs(self, asking: Sequence[SlotBatch]) -> dict[str, list[LiveJob]]:
        """Return the live jobs of schedules; those that will be waited for are kept from ending."""
        looking = {batch.name: batch.overlap for batch in asking}
        own = [each.job.id for batch in asking for each in batch.slots if each.job is not None]
        live, touched = await self._look(looking, own)
        if not touched:
            return live
        locked = {row["id"] for row in await self._fetch("lock_live", sorted(touched))}
        # What was read before it was locked may have moved or ended meanwhile.
        live, touched = await self._look(looking, own)
        if touched <= locked:
            return live
        # Not locked now, behind the others: jobs are locked in the order of their ids.
        raise _Again

    async def _look(
        self, looking: Mapping[str, Overlap], own: Sequence[UUID]
    ) -> tuple[dict[str, list[LiveJob]], set[UUID]]:
        """Return live jobs by schedule, and those that must not end while this goes on."""
        live: dict[str, list[LiveJob]] = {}
        touched: set[UUID] = set()
        rows = []
        for limit in {looked_at(overlap) for overlap in looking.values()}:
            names = [name for name, overlap in looking.items() if looked_at(overlap) == limit]
            rows += await self._fetch("overlapping_jobs", names, own, limit)
        for row in rows:
            name, job = row["schedule"], LiveJob(row["job"], row["runs"], row["waits_for"])
            live.setdefault(name, []).append(job)
            if looking[name] is not Overlap.SKIP:
                touched |= {each for each in (job.id, job.waits_for) if each is not None}
        return live, touched

    async def _clear(self, found: Mapping[str, Resolution]) -> None:
        """Cancel what is replaced, and ask what runs to stop."""
        displaced = {job: by for each in found.values() for job, by in each.displaced.items()}
        asked = sorted(job for each in found.values() for job in each.asked)
        if displaced:
            ids = sorted(displaced)
            rows = await self._fetch("displace_jobs", ids, [displaced[job] for job in ids])
            watched = [row["id"] for row in rows if is_watched(row)]
            await record_events(self._database, self._connection, watched)
            ended = {row["id"]: row["waits_for"] for row in rows}
            woken = await after_end(self._database, self._connection, ended) if ended else []
            self._wakes += [Hint(row["lane"]) for row in woken]
        if asked:
            rows = await self._fetch("request_cancel", asked, None, REPLACED)
            self._wakes += [SignalHint(row["node"]) for row in rows]

    async def _store(self, jobs: Sequence[NewJob], waits: Mapping[UUID, UUID]) -> None:
        free = [job for job in jobs if job.id not in waits]
        behind = [job for job in jobs if job.id in waits]
        if free:
            step = enqueue_step(free)
            await self._fetch(step.name, *step.args)
            self._wakes += [hint_for(job) for job in free]
        if behind:
            holders = [waits[job.id] for job in behind]
            await self._fetch("enqueue_waiting_jobs", *job_columns(behind), holders)


def _advances(plans: Sequence[FirePlan]) -> list[Sequence[Any]]:
    """Return the columns of the statement that moves schedules on."""
    rows = []
    for plan in plans:
        fired = [each.slot for each in plan.slots if each.job is not None]
        hold = HOLD.total_seconds() if plan.problem is not None and not plan.slots else None
        rows.append(
            (plan.name, plan.next_fire, max(fired, default=None), len(fired), plan.problem, hold)
        )
    return list(zip(*rows, strict=True))
