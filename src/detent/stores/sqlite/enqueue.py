"""Takes new jobs.

Whoever runs these steps holds the write lock: what one of them has read stays true for the next.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from detent.model.job import Keys, NewJob, Placed
from detent.spi.notifier import Notifier, SignalHint, Wake
from detent.stores.sqlite.columns import (
    LAST_MOMENT,
    Payloads,
    micros_or_none,
    packed,
    pieces,
    seconds,
    span,
    uuid,
    whole,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.outbox import record_events
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql


class Enqueuing:
    """The part of the store that `EnqueueStore` describes, but for callers' connections."""

    database: Database
    notifier: Notifier

    async def enqueue_jobs(self, jobs: Sequence[NewJob], tell: Sequence[Wake] = ()) -> bool:
        """See `EnqueueStore.enqueue_jobs`."""
        if jobs:
            await self.database.write(Batch(jobs).store)
        return False

    async def enqueue_keyed(self, job: NewJob, keys: Keys) -> Placed:
        """See `EnqueueStore.enqueue_keyed`."""
        stopped: list[Wake] = []
        placed = await self.database.write(lambda session: place_keyed(session, job, keys, stopped))
        if stopped:
            self.notifier.publish(stopped)
        return placed


class Batch:
    """New jobs without keys, made ready to be stored before the lock is asked for."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self._pieces = [
            _One(piece[0]) if len(piece) == 1 else _Many(piece) for piece in pieces(jobs, _size)
        ]

    def store(self, session: Session) -> None:
        """Store them."""
        for piece in self._pieces:
            piece.store(session)


class _One:
    """A single job: its values go as they are."""

    def __init__(self, job: NewJob) -> None:
        self._job = job

    def store(self, session: Session) -> None:
        job = self._job
        if session.change(sql("enqueue_job", "job"), *_row(job, session.now)):
            session.change(sql("enqueue_job", "ready"), job.id.bytes)
            _store_tags(session, job)


class _Many:
    """Several jobs in one statement for each table."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        payloads = Payloads()
        self._ids = packed(job.id for job in jobs)
        self._rows = written([_fields(job, payloads) for job in jobs])
        self._payloads = payloads.blob()
        self._tagged = any(job.tags for job in jobs)

    def store(self, session: Session) -> None:
        new = (self._ids, self._rows, session.now)
        session.change(sql("enqueue_jobs", "ready"), *new, None, LAST_MOMENT)
        session.change(sql("enqueue_jobs", "job"), *new, self._payloads, LAST_MOMENT)
        if self._tagged:
            session.change(sql("enqueue_jobs", "tags"), self._ids)


def place_keyed(
    session: Session, job: NewJob, keys: Keys, stopped: list[Wake] | None = None
) -> Placed:
    """Store a job with keys unless one of them is taken; say what it came to.

    What tells a node that a job of its own is to stop is added to `stopped`.

    Everything is decided before the first write, so a key that is taken leaves nothing to undo.
    """
    if session.table(sql("enqueue_keyed_job", "known"), job.id.bytes):
        return Placed(job.id, created=True)
    if (first := _held(session, "idempotency", keys.idempotency, job.task)) is not None:
        return Placed(uuid(first[0]), created=False, digest=_digest(first[1]))
    held = _held(session, "unique", keys.unique, job.task)
    holder = None if held is None else uuid(held[0])
    if holder is not None and keys.on_conflict != "replace":
        told = keys.unique if keys.on_conflict == "raise" else None
        return Placed(holder, created=False, taken_key=told)
    waits_for = None if holder is None else _displace(session, holder, job.id, stopped)
    _store_keyed(session, job, keys, waits_for)
    _take_keys(session, job, keys, holder)
    return Placed(job.id, created=True)


def cancel(
    session: Session,
    ids: bytes,
    generation: int | None,
    reason: str | None,
    successor: UUID | None = None,
) -> list[Any]:
    """Cancel jobs that do not run; return id, hooks and what it waited for (or "") of each."""
    canceled = session.table(sql("cancel_jobs", "canceled"), ids, generation)
    if canceled:
        by = None if successor is None else successor.bytes
        session.change(sql("cancel_jobs", "outcome"), ids, generation, session.now, reason, by)
        session.change(sql("cancel_jobs", "ready"), ids, generation)
        session.change(sql("cancel_jobs", "parked"), ids, generation)
        session.change(sql("cancel_jobs", "unsignaled"), ids)
    return canceled


def request_cancel(
    session: Session, ids: bytes, generation: int | None, reason: str | None
) -> list[Any]:
    """Leave a message for running jobs; return id, node and whether it is the first, of each."""
    asked = session.table(sql("request_cancel", "asked"), ids, generation)
    if asked:
        session.change(sql("request_cancel", "signal"), ids, generation, session.now, reason)
    return asked


def _held(session: Session, kind: str, key: str | None, task: str) -> Sequence[Any] | None:
    """Return the job that holds a key of a task, and what is kept beside it."""
    if key is None:
        return None
    held = session.table(sql("find_key"), kind, key, session.now, task)
    return held[0] if held else None


def _digest(shown: str | None) -> bytes | None:
    return bytes.fromhex(shown) if shown else None


def _displace(
    session: Session, holder: UUID, successor: UUID, stopped: list[Wake] | None
) -> UUID | None:
    """Cancel the holder of a key, or ask it to stop; return what its successor waits for."""
    reason = f"replaced by {successor}"
    canceled = cancel(session, holder.bytes, None, reason, successor)
    if canceled:
        record_events(session, [(holder, canceled[0][1])])
        # A replacement that was itself still waiting hands its wait on.
        waits_for = canceled[0][2]
        return uuid(waits_for) if waits_for else None
    asked = request_cancel(session, holder.bytes, None, reason)
    if stopped is not None:
        stopped += [SignalHint(uuid(row[1])) for row in asked]
    return holder if asked else None


def _take_keys(session: Session, job: NewJob, keys: Keys, holder: UUID | None) -> None:
    if keys.idempotency is not None:
        ttl = span(keys.idempotency_ttl)
        key = (keys.idempotency, job.id.bytes, ttl, session.now, job.task, keys.digest)
        session.change(sql("reserve_idempotency_key"), *key)
    if holder is not None:
        session.change(sql("pass_unique_key"), keys.unique, holder.bytes, job.id.bytes, job.task)
    elif keys.unique is not None:
        session.change(sql("reserve_unique_key"), keys.unique, job.id.bytes, job.task)


def _store_keyed(session: Session, job: NewJob, keys: Keys, waits_for: UUID | None) -> None:
    row = (*_row(job, session.now), keys.idempotency, keys.unique)
    session.change(sql("enqueue_keyed_job", "job"), *row)
    if waits_for is None:
        session.change(sql("enqueue_job", "ready"), job.id.bytes)
    else:
        session.change(
            sql("enqueue_keyed_job", "parked"), job.id.bytes, session.now, waits_for.bytes
        )
    _store_tags(session, job)


def _store_tags(session: Session, job: NewJob) -> None:
    if job.tags:
        session.change(sql("enqueue_job", "tags"), job.id.bytes, written(job.tags))


def _row(job: NewJob, now: int) -> tuple[Any, ...]:
    """Return a job as the arguments of the statements for one."""
    return (
        job.id.bytes,
        whole(job.task),
        whole(job.queue),
        whole(job.lane),
        job.priority,
        seconds(job.delay or 0.0),
        micros_or_none(job.due_at),
        job.args,
        job.codec,
        job.options,
        job.params,
        None if job.tags is None else written(job.tags),
        job.hooks,
        job.principal,
        job.trace,
        now,
        LAST_MOMENT,
    )


def _fields(job: NewJob, payloads: Payloads) -> tuple[Any, ...]:
    """Return a job as one array of the statement for many."""
    return (
        job.task,
        job.queue,
        job.lane,
        job.priority,
        seconds(job.delay or 0.0),
        micros_or_none(job.due_at),
        job.codec,
        job.tags,
        job.hooks,
        job.principal,
        job.trace,
        *payloads.add(job.args),
        *payloads.add(job.options),
        *payloads.add(job.params),
    )


def _size(job: NewJob) -> int:
    return len(job.args) + len(job.params or b"") + len(job.options or b"")
