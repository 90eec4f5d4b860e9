"""Answers questions, without locks."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from detent.model.job import HIGHEST_ID, Attempt, JobFilter, JobInfo, LogEntry, needs_of
from detent.model.state import State
from detent.spi.store import QueueInfo
from detent.stores.sqlite.columns import (
    moment,
    moment_or_none,
    packed,
    read,
    uuid_or_none,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# Which table holds the jobs of a state; the others are parked.
_TABLES: Final = {
    "pending": "pending",
    "running": "running",
    "succeeded": "succeeded",
    "failed": "unsuccessful",
    "canceled": "unsuccessful",
}
_MIXED: Final = ("parked", "unsuccessful")


class Inspecting:
    """The part of the store that `InspectStore` describes."""

    database: Database

    async def get_jobs(self, ids: Sequence[UUID]) -> list[JobInfo]:
        """See `InspectStore.get_jobs`."""
        return await self.database.read(lambda session: _jobs(session, ids))

    async def list_jobs(
        self, where: JobFilter, limit: int, before: UUID | None = None
    ) -> list[JobInfo]:
        """See `InspectStore.list_jobs`."""
        return await self.database.read(
            lambda session: _jobs(session, matching(session, where, limit, before))
        )

    async def ended(self, ids: Sequence[UUID]) -> list[JobInfo]:
        """See `InspectStore.ended`."""

        def work(session: Session) -> list[JobInfo]:
            found = session.rows(sql("ended_jobs"), packed(ids))
            return _jobs(session, [UUID(bytes=row[0]) for row in found])

        return await self.database.read(work)

    async def attempts(self, job_id: UUID) -> list[Attempt]:
        """See `InspectStore.attempts`."""
        rows = await self.database.read(lambda session: session.rows(sql("attempts"), job_id.bytes))
        return [
            Attempt(
                number=number,
                generation=generation,
                kind=kind,
                node=uuid_or_none(node),
                started_at=moment_or_none(started_at),
                ended_at=moment(ended_at),
                error=error,
                alone=bool(alone),
            )
            for number, generation, kind, node, started_at, ended_at, error, alone in rows
        ]

    async def log_of(self, job_id: UUID, limit: int) -> list[LogEntry]:
        """See `InspectStore.log_of`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("log_of"), job_id.bytes, limit)
        )
        return [LogEntry(moment(at), *rest) for at, *rest in rows]

    async def queues(self) -> list[QueueInfo]:
        """See `InspectStore.queues`."""
        rows = await self.database.read(lambda session: session.rows(sql("queues"), session.now))
        return [
            QueueInfo._make(row)._replace(
                paused=bool(row["paused"]),
                oldest_due_at=moment_or_none(row["oldest_due_at"]),
                served=bool(row["served"]),
            )
            for row in rows
        ]


def matching(
    session: Session, where: JobFilter, limit: int, before: UUID | None = None
) -> list[UUID]:
    """Return the ids of matching jobs, the newest first."""
    common = (
        where.task,
        where.queue,
        where.lowest_id.bytes,
        where.highest_id.bytes,
        (before or HIGHEST_ID).bytes,
        limit,
    )
    states = written([str(state) for state in where.states]) if where.states else None
    if where.archived:
        looks: list[tuple[str, tuple[Any, ...]]]
        looks = [(sql("matching_archived"), (*common, states, where.tag, where.key))]
    elif where.tag is not None:
        looks = [(sql("matching_jobs", "tagged"), (*common, where.tag, states, where.key))]
    elif where.key is not None:
        looks = [(sql("matching_jobs", "keyed"), (*common, where.key, states))]
    elif states is None:
        looks = [(sql("matching_jobs", "any"), common)]
    else:
        tables = dict.fromkeys(_TABLES.get(state, "parked") for state in where.states)
        looks = [
            (sql("matching_jobs", table), (*common, states) if table in _MIXED else common)
            for table in tables
        ]
    found = [row[0] for text, args in looks for row in session.rows(text, *args)]
    return [UUID(bytes=job_id) for job_id in sorted(found, reverse=True)[:limit]]


def _jobs(session: Session, ids: Sequence[UUID]) -> list[JobInfo]:
    rows = session.rows(sql("get_jobs", "known"), packed(ids))
    known = {row["id"]: _job_info(row) for row in rows}
    if missing := [job_id for job_id in ids if job_id.bytes not in known]:
        archived = session.rows(sql("get_archived"), packed(missing))
        known |= {row["id"]: _job_info(row) for row in archived}
    return [known[job_id.bytes] for job_id in ids if job_id.bytes in known]


def _job_info(row: Any) -> JobInfo:
    values = {name: row[name] for name in JobInfo.__dataclass_fields__ if name != "needs"}
    for name, convert in _CONVERTED.items():
        values[name] = convert(values[name])
    return JobInfo(needs=needs_of(row["lane"]), **values)


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _tags(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(read(text))


_CONVERTED: Final[dict[str, Callable[[Any], Any]]] = {
    "id": uuid_or_none,
    "node": uuid_or_none,
    "superseded_by": uuid_or_none,
    "state": State,
    "enqueued_at": moment,
    "due_at": moment,
    "started_at": moment_or_none,
    "finished_at": moment_or_none,
    "archived_at": moment_or_none,
    "duration": _duration,
    "tags": _tags,
    "cancel_requested": bool,
    "cancel_too_late": bool,
}
