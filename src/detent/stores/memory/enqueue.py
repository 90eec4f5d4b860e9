"""Taking new jobs, and deciding who holds a key."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from detent.model.job import Hook, Keys, NewJob, Placed
from detent.model.state import State
from detent.stores.memory.ending import end, request_cancel
from detent.stores.memory.tables import (
    IDEMPOTENCY,
    REPLACES,
    UNIQUE,
    Job,
    Key,
    Outcome,
    Parked,
    Ready,
    Tables,
)


def enqueue_jobs(tables: Tables, now: datetime, jobs: Sequence[NewJob]) -> None:
    """Store all jobs or none: every row is made before the first is kept."""
    rows = [_row(job, now) for job in jobs]
    for row in rows:
        if row.new.id not in tables.job:
            tables.job[row.new.id] = row
            tables.ready[row.new.id] = _place(row)


def enqueue_keyed(tables: Tables, now: datetime, job: NewJob, keys: Keys) -> Placed:
    """Store one job unless a key is taken; the idempotency key is asked first."""
    assert keys.unique is None or job.hooks & Hook.KEY, "the end of this job must free its key"
    if job.id in tables.job:  # a repeated call after a lost reply
        return Placed(job.id, created=True)
    if (first := _idempotent(tables, now, job.task, keys)) is not None:
        return Placed(first.job, created=False, digest=first.digest)
    waits_for = None
    if (holder := _holder(tables, job.task, keys)) is not None:
        if keys.on_conflict != "replace":
            told = keys.unique if keys.on_conflict == "raise" else None
            return Placed(holder, created=False, taken_key=told)
        waits_for = _supersede(tables, now, holder, job.id)
    _store_keyed(tables, now, job, keys, waits_for)
    return Placed(job.id, created=True)


def _row(job: NewJob, now: datetime, keys: Keys | None = None) -> Job:
    due_at = job.due_at if job.due_at is not None else now + timedelta(seconds=job.delay or 0)
    if keys is None:
        return Job(job, due_at, now)
    return Job(job, due_at, now, keys.idempotency, keys.unique)


def _place(row: Job) -> Ready:
    return Ready(row.new.id, row.new.lane, row.new.priority, row.due_at, row.new.hooks)


def _idempotent(tables: Tables, now: datetime, task: str, keys: Keys) -> Key | None:
    """Return what an idempotency key still stands for: a job, ended or not."""
    if keys.idempotency is None:
        return None
    held = tables.keys.get((IDEMPOTENCY, keys.idempotency, task))
    if held is None or (held.expires_at is not None and held.expires_at <= now):
        return None
    return held


def _holder(tables: Tables, task: str, keys: Keys) -> UUID | None:
    """Return the live job that holds the business key."""
    if keys.unique is None:
        return None
    held = tables.keys.get((UNIQUE, keys.unique, task))
    return held.job if held is not None else None


def _supersede(tables: Tables, now: datetime, old: UUID, new: UUID) -> UUID | None:
    """Cancel the holder of a business key; return the running job that has to end first."""
    reason = f"replaced by {new}"
    if old in tables.running:
        request_cancel(tables, old, reason)
        return old
    place = tables.place_of(old)
    # A holder that itself waits for the running one passes its wait on.
    waits_for = tables.parked[old].waits_for if old in tables.parked else None
    ended = Outcome(old, State.CANCELED, place.generation, place.attempt, now)
    end(tables, now, ended._replace(reason=reason, superseded_by=new))
    return waits_for


def _store_keyed(
    tables: Tables, now: datetime, job: NewJob, keys: Keys, waits_for: UUID | None
) -> None:
    row = _row(job, now, keys)
    tables.job[job.id] = row
    if waits_for is None:
        tables.ready[job.id] = _place(row)
    else:
        tables.parked[job.id] = Parked(_place(row), REPLACES, waits_for)
    if keys.idempotency is not None:
        expires_at = now + keys.idempotency_ttl
        held = Key(job.id, expires_at, keys.digest)
        tables.keys[IDEMPOTENCY, keys.idempotency, job.task] = held
    if keys.unique is not None:
        tables.keys[UNIQUE, keys.unique, job.task] = Key(job.id, None)
