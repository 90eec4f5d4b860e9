"""Keeps schedules and calendars, and tells which are due; `firing.py` fires them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from detent.model.schedule import (
    Firing,
    Misfire,
    Overlap,
    Owner,
    Schedule,
    ScheduleInfo,
    SlotInfo,
    SlotState,
)
from detent.spi.leadership import Term
from detent.spi.notifier import Notifier, ScheduleHint
from detent.spi.schedules import DueSchedules
from detent.stores.sqlite.columns import (
    LAST_MOMENT,
    MICROSECONDS,
    micros_or_none,
    moment,
    moment_or_none,
    read,
    span,
    term_values,
    uuid_or_none,
    whole,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# How many schedules are named that still use a calendar.
NAMED: Final = 20


class Row(NamedTuple):
    """A schedule as it stands in the table, in the order of its columns."""

    name: str
    schedule_group: str
    owner: str
    trigger: bytes
    calendars: str
    misfire: str
    catch_up_limit: int
    misfire_threshold: int
    overlap: str
    jitter: int
    start_at: int | None
    end_at: int | None
    max_runs: int | None
    description: str
    task: str
    queue: str
    lane: str
    priority: int
    args: bytes
    codec: str
    options: bytes | None
    params: bytes | None
    tags: str
    principal: str | None
    revision: int
    next_fire: int | None
    due_at: int | None
    prev_fire: int | None
    runs: int
    paused_at: int | None
    declared_at: int | None
    edited: str
    created_at: int
    updated_at: int
    problem: str | None


class Scheduling:
    """The part of the store that `ScheduleStore` describes, but for firing."""

    database: Database
    notifier: Notifier

    async def save_schedule(self, info: ScheduleInfo, expected: int | None) -> ScheduleInfo | None:
        """See `ScheduleStore.save_schedule`."""
        saved = await self.database.write(lambda session: _save(session, info, expected))
        self.notifier.publish([] if saved is None else [ScheduleHint()])
        return saved

    async def get_schedules(self, names: Sequence[str]) -> list[ScheduleInfo]:
        """See `ScheduleStore.get_schedules`."""
        return await self._read("get_schedules", written(list(names)))

    async def list_schedules(
        self, *, group: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[ScheduleInfo]:
        """See `ScheduleStore.list_schedules`."""
        if group is None:
            return await self._read("list_schedules", after or "", limit)
        return await self._read("list_schedule_group", group, after or "", limit)

    async def delete_schedule(
        self, name: str, expected: int | None = None, term: Term | None = None
    ) -> bool:
        """See `ScheduleStore.delete_schedule`."""
        return bool(
            await self.database.write(
                lambda session: session.change(
                    sql("delete_schedule"), name, expected, *term_values(term)
                )
            )
        )

    async def pause_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        """See `ScheduleStore.pause_schedules`."""

        def work(session: Session) -> int:
            revision = next_revision(session)
            if name is not None:
                return session.change(sql("pause_schedule"), name, session.now, revision)
            session.change(sql("pause_schedule_group", "remembered"), group, session.now)
            meant = (group, session.now, revision)
            return session.change(sql("pause_schedule_group", "members"), *meant)

        return await self.database.write(work)

    async def resume_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        """See `ScheduleStore.resume_schedules`."""

        def work(session: Session) -> int:
            revision = next_revision(session)
            if name is not None:
                return session.change(sql("resume_schedule"), name, session.now, revision)
            session.change(sql("resume_schedule_group", "forgotten"), group)
            meant = (group, session.now, revision)
            return session.change(sql("resume_schedule_group", "members"), *meant)

        resumed = await self.database.write(work)
        self.notifier.publish([ScheduleHint()] if resumed else [])
        return resumed

    async def due_schedules(self, tasks: Sequence[str], limit: int) -> DueSchedules:
        """See `ScheduleStore.due_schedules`."""
        known = written(list(tasks))

        def look(session: Session) -> DueSchedules:
            rows = session.rows(sql("due_schedules"), known, session.now, limit)
            return DueSchedules(moment(session.now), [_info(row) for row in rows])

        return await self.database.read(look)

    async def next_fire(self, tasks: Sequence[str]) -> float | None:
        """See `ScheduleStore.next_fire`."""
        known = written(list(tasks))

        def look(session: Session) -> float | None:
            rows = session.rows(sql("next_schedule"), known)
            return max((rows[0][0] - session.now) / MICROSECONDS, 0.0) if rows else None

        return await self.database.read(look)

    async def stranded_schedules(
        self, tasks: Sequence[str], late: timedelta, limit: int
    ) -> list[ScheduleInfo]:
        """See `ScheduleStore.stranded_schedules`."""
        known = written(list(tasks))

        def look(session: Session) -> list[ScheduleInfo]:
            since = session.now - span(late)
            return [
                _info(row) for row in session.rows(sql("stranded_schedules"), known, since, limit)
            ]

        return await self.database.read(look)

    async def _read(self, name: str, *args: Any) -> list[ScheduleInfo]:
        rows = await self.database.read(lambda session: session.rows(sql(name), *args))
        return [_info(row) for row in rows]

    async def slots_of(
        self, name: str, *, before: datetime | None = None, limit: int = 50
    ) -> list[SlotInfo]:
        """See `ScheduleStore.slots_of`."""
        behind = LAST_MOMENT if before is None else micros_or_none(before)
        rows = await self.database.read(
            lambda session: session.rows(sql("slots_of"), name, behind, limit)
        )
        return [_slot(row) for row in rows]

    async def live_jobs_of(self, name: str) -> list[SlotInfo]:
        """See `ScheduleStore.live_jobs_of`."""
        rows = await self.database.read(lambda session: session.rows(sql("live_slots"), name))
        return [_slot(row) for row in rows]

    async def prune_slots(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        """See `ScheduleStore.prune_slots`."""
        return await self.database.write(
            lambda session: session.change(
                sql("prune_slots"), session.now - span(keep), limit, *term_values(term)
            )
        )

    async def save_calendar(self, name: str, data: bytes) -> None:
        """See `ScheduleStore.save_calendar`."""
        await self.database.write(
            lambda session: session.change(sql("save_calendar"), whole(name), data)
        )

    async def get_calendars(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """See `ScheduleStore.get_calendars`."""
        if names is None:
            return dict(
                await self.database.read(lambda session: session.rows(sql("get_calendars", "all")))
            )
        known = written(list(names))
        return dict(
            await self.database.read(
                lambda session: session.rows(sql("get_calendars", "some"), known)
            )
        )

    async def delete_calendar(self, name: str) -> list[str]:
        """See `ScheduleStore.delete_calendar`."""

        def work(session: Session) -> list[str]:
            used_by = session.table(sql("delete_calendar", "used"), name, NAMED)
            if not used_by:
                session.change(sql("delete_calendar", "gone"), name)
            return used_by

        return await self.database.write(work)


def next_revision(session: Session) -> int:
    """Return a revision that no schedule has had."""
    session.change(sql("advance_schedules", "revision"))
    revision: int = session.value(sql("advance_schedules", "number"))
    return revision


def _save(session: Session, info: ScheduleInfo, expected: int | None) -> ScheduleInfo | None:
    """Write a schedule, if it is still as the caller has seen it."""
    name, group = info.schedule.name, info.schedule.group
    known = session.table(sql("update_schedule", "known"), name)
    if (known[0][0] if known else None) != expected:
        return None
    if not known or known[0][1] != group:
        paused = session.table(sql("insert_schedule", "group"), group)
        if paused and info.paused_at is None:
            info = replace(info, paused_at=moment(paused[0]))
    info = replace(
        info,
        revision=next_revision(session),
        created_at=moment(known[0][2] if known else session.now),
        updated_at=moment(session.now),
    )
    statement = sql("update_schedule" if known else "insert_schedule", "schedule")
    session.change(statement, *_columns(info), info.revision, session.now)
    return info


def _columns(info: ScheduleInfo) -> tuple[Any, ...]:
    """Return a schedule as the arguments of the statements that write it."""
    schedule, firing = info.schedule, info.schedule.firing
    return (
        whole(schedule.name),
        whole(schedule.group),
        str(schedule.owner),
        schedule.trigger,
        written(list(schedule.calendars)),
        str(schedule.misfire),
        schedule.catch_up_limit,
        span(schedule.misfire_threshold),
        str(schedule.overlap),
        span(schedule.jitter),
        micros_or_none(schedule.start_at),
        micros_or_none(schedule.end_at),
        schedule.max_runs,
        schedule.description,
        whole(firing.task),
        whole(firing.queue),
        whole(firing.lane),
        firing.priority,
        firing.args,
        firing.codec,
        firing.options,
        firing.params,
        written(list(firing.tags)),
        firing.principal,
        micros_or_none(info.next_fire),
        micros_or_none(info.prev_fire),
        info.runs,
        micros_or_none(info.paused_at),
        micros_or_none(info.declared_at),
        written(list(info.edited)),
        info.problem,
    )


def _info(values: Sequence[Any]) -> ScheduleInfo:
    """Return a row of the table as a value."""
    row = Row._make(values[: len(Row._fields)])
    firing = Firing(
        task=row.task,
        queue=row.queue,
        lane=row.lane,
        priority=row.priority,
        args=row.args,
        codec=row.codec,
        options=row.options,
        params=row.params,
        tags=tuple(read(row.tags)),
        principal=row.principal,
    )
    schedule = Schedule(
        name=row.name,
        trigger=row.trigger,
        firing=firing,
        group=row.schedule_group,
        owner=Owner(row.owner),
        calendars=tuple(read(row.calendars)),
        misfire=Misfire(row.misfire),
        catch_up_limit=row.catch_up_limit,
        misfire_threshold=timedelta(microseconds=row.misfire_threshold),
        overlap=Overlap(row.overlap),
        jitter=timedelta(microseconds=row.jitter),
        start_at=moment_or_none(row.start_at),
        end_at=moment_or_none(row.end_at),
        max_runs=row.max_runs,
        description=row.description,
    )
    return ScheduleInfo(
        schedule=schedule,
        revision=row.revision,
        next_fire=moment_or_none(row.next_fire),
        prev_fire=moment_or_none(row.prev_fire),
        runs=row.runs,
        paused_at=moment_or_none(row.paused_at),
        declared_at=moment_or_none(row.declared_at),
        edited=tuple(read(row.edited)),
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        problem=row.problem,
    )


def _slot(row: Sequence[Any]) -> SlotInfo:
    schedule, slot, fired_at, state, job, manual = row
    return SlotInfo(
        schedule, moment(slot), moment(fired_at), SlotState(state), uuid_or_none(job), bool(manual)
    )
