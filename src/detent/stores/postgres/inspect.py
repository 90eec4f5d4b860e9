"""Answers questions, without locks."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from detent.model.job import HIGHEST_ID, Attempt, JobFilter, JobInfo, LogEntry, needs_of
from detent.model.state import State
from detent.spi.store import QueueInfo
from detent.stores.postgres.database import Connection, Database

# For one transaction. A tag or a key may be on one job or on all of them: only with its value can
# the planner know whether to go through their index, or along the ids until enough are found.
PLANNED_ANEW: Final = (
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true),"
    " set_config('enable_bitmapscan', 'on', true)"
)
_OTHER_NAMES: Final = ("id", "state", "duration", "lane", "tags")


class Inspecting:
    """The part of the store that `InspectStore` describes."""

    database: Database

    async def get_jobs(self, ids: Sequence[UUID]) -> list[JobInfo]:
        """See `InspectStore.get_jobs`."""
        rows = await self.database.fetch("get_jobs", list(ids))
        found = {row["id"] for row in rows}
        if missing := [job_id for job_id in ids if job_id not in found]:
            rows += await self.database.fetch("get_archived", missing)
        known = {row["id"]: _job_info(row) for row in rows if row["state"] is not None}
        return [known[job_id] for job_id in ids if job_id in known]

    async def list_jobs(
        self, where: JobFilter, limit: int, before: UUID | None = None
    ) -> list[JobInfo]:
        """See `InspectStore.list_jobs`."""
        return await self.get_jobs(await self.matching(where, limit, before))

    async def matching(
        self, where: JobFilter, limit: int, before: UUID | None = None
    ) -> list[UUID]:
        """Return the ids of matching jobs, the newest first."""
        name = "matching_archived" if where.archived else "matching_jobs"
        asked = (
            [str(state) for state in where.states],
            where.task,
            where.queue,
            where.tag,
            where.key,
            where.lowest_id,
            where.highest_id,
            before or HIGHEST_ID,
            limit,
        )

        async def work(connection: Connection) -> list[Any]:
            await connection.execute(PLANNED_ANEW)
            return list(await connection.fetch(self.database.sql(name), *asked))

        if where.tag is None and where.key is None:
            rows = await self.database.fetch(name, *asked)
        else:
            rows = await self.database.transact(work)
        return [row["id"] for row in rows]

    async def ended(self, ids: Sequence[UUID]) -> list[JobInfo]:
        """See `InspectStore.ended`."""
        rows = await self.database.fetch("ended_jobs", list(ids))
        return await self.get_jobs([row["id"] for row in rows]) if rows else []

    async def attempts(self, job_id: UUID) -> list[Attempt]:
        """See `InspectStore.attempts`."""
        return [Attempt(**row) for row in await self.database.fetch("attempts", job_id)]

    async def log_of(self, job_id: UUID, limit: int) -> list[LogEntry]:
        """See `InspectStore.log_of`."""
        return [LogEntry._make(row) for row in await self.database.fetch("log_of", job_id, limit)]

    async def queues(self) -> list[QueueInfo]:
        """See `InspectStore.queues`."""
        return [QueueInfo._make(row) for row in await self.database.fetch("queues")]


def _job_info(row: Any) -> JobInfo:
    names = JobInfo.__dataclass_fields__
    same = {name: row[name] for name in names if name not in (*_OTHER_NAMES, "needs")}
    duration = row["duration"]
    return JobInfo(
        id=row["id"],
        state=State(row["state"]),
        duration=None if duration is None else timedelta(seconds=duration),
        needs=needs_of(row["lane"]),
        tags=tuple(row["tags"] or ()),
        **same,
    )
