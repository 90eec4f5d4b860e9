"""Keeping schedules and calendars, and knowing which are due; `firing.py` fires them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from detent.model.schedule import (
    FiredSlot,
    FirePlan,
    Overlap,
    PlannedSlot,
    ScheduleInfo,
    SlotInfo,
)
from detent.spi.leadership import Term
from detent.spi.notifier import ScheduleHint
from detent.spi.schedules import DueSchedules
from detent.stores.memory.carrier import Carrier
from detent.stores.memory.firing import fire, fire_slots, lives
from detent.stores.memory.leadership import may_write
from detent.stores.memory.tables import Scheduled, Tables


class Scheduling(Carrier):
    """The part of the store that `ScheduleStore` describes."""

    async def save_schedule(self, info: ScheduleInfo, expected: int | None) -> ScheduleInfo | None:
        return await self._do(save_schedule, info, expected)

    async def get_schedules(self, names: Sequence[str]) -> list[ScheduleInfo]:
        return await self._do(get_schedules, names)

    async def list_schedules(
        self, *, group: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[ScheduleInfo]:
        return await self._do(list_schedules, group, after, limit)

    async def delete_schedule(
        self, name: str, expected: int | None = None, term: Term | None = None
    ) -> bool:
        return await self._do(delete_schedule, name, expected, term)

    async def pause_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        return await self._do(pause_schedules, name, group)

    async def resume_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        return await self._do(resume_schedules, name, group)

    async def due_schedules(self, tasks: Sequence[str], limit: int) -> DueSchedules:
        return await self._do(due_schedules, tasks, limit)

    async def next_fire(self, tasks: Sequence[str]) -> float | None:
        return await self._do(next_fire, tasks)

    async def stranded_schedules(
        self, tasks: Sequence[str], late: timedelta, limit: int
    ) -> list[ScheduleInfo]:
        return await self._do(stranded_schedules, tasks, late, limit)

    async def fire(self, plans: Sequence[FirePlan]) -> list[FiredSlot]:
        return await self._do(fire, plans)

    async def fire_slots(
        self, name: str, overlap: Overlap, slots: Sequence[PlannedSlot]
    ) -> list[FiredSlot]:
        return await self._do(fire_slots, name, overlap, slots)

    async def slots_of(
        self, name: str, *, before: datetime | None = None, limit: int = 50
    ) -> list[SlotInfo]:
        return await self._do(slots_of, name, before, limit)

    async def live_jobs_of(self, name: str) -> list[SlotInfo]:
        return await self._do(live_jobs_of, name)

    async def prune_slots(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        return await self._do(prune_slots, keep, limit, term)

    async def save_calendar(self, name: str, data: bytes) -> None:
        await self._do(save_calendar, name, data)

    async def get_calendars(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        return await self._do(get_calendars, names)

    async def delete_calendar(self, name: str) -> list[str]:
        return await self._do(delete_calendar, name)


def save_schedule(
    tables: Tables, now: datetime, info: ScheduleInfo, expected: int | None
) -> ScheduleInfo | None:
    """Write a schedule, if it is still as the caller has seen it."""
    name, group = info.schedule.name, info.schedule.group
    known = tables.schedules.get(name)
    if (None if known is None else known.info.revision) != expected:
        return None
    created_at, paused_at = now, info.paused_at
    if known is not None:
        created_at = known.info.created_at or now
    if known is None or known.info.schedule.group != group:
        paused_at = paused_at or tables.paused_groups.get(group)
    saved = replace(info, created_at=created_at, updated_at=now, paused_at=paused_at)
    return _put(tables, saved).info


def _put(tables: Tables, info: ScheduleInfo, due_at: datetime | None = None) -> Scheduled:
    tables.revision += 1
    info = replace(info, revision=tables.revision)
    row = tables.schedules[info.schedule.name] = Scheduled(info, due_at or info.next_fire)
    tables.tell(ScheduleHint())
    return row


def get_schedules(tables: Tables, now: datetime, names: Sequence[str]) -> list[ScheduleInfo]:
    """Return those that are known, by name."""
    return [tables.schedules[name].info for name in sorted(set(names)) if name in tables.schedules]


def list_schedules(
    tables: Tables, now: datetime, group: str | None, after: str | None, limit: int
) -> list[ScheduleInfo]:
    """Return a page by name."""
    found = [
        row.info
        for name, row in sorted(tables.schedules.items())
        if name > (after or "") and group in (None, row.info.schedule.group)
    ]
    return found[:limit]


def delete_schedule(
    tables: Tables, now: datetime, name: str, expected: int | None, term: Term | None
) -> bool:
    """Remove a schedule; its slots stay."""
    row = tables.schedules.get(name)
    if row is None or expected not in (None, row.info.revision) or not may_write(tables, term):
        return False
    del tables.schedules[name]
    return True


def pause_schedules(tables: Tables, now: datetime, name: str | None, group: str | None) -> int:
    """Let schedules fire no more."""
    if group is not None:
        tables.paused_groups.setdefault(group, now)
    rows = [row for row in _meant(tables, name, group) if row.info.paused_at is None]
    for row in rows:
        _put(tables, replace(row.info, paused_at=now, updated_at=now), row.due_at)
    return len(rows)


def resume_schedules(tables: Tables, now: datetime, name: str | None, group: str | None) -> int:
    """Let schedules fire again."""
    if group is not None:
        tables.paused_groups.pop(group, None)
    rows = [row for row in _meant(tables, name, group) if row.info.paused_at is not None]
    for row in rows:
        _put(tables, replace(row.info, paused_at=None, updated_at=now), row.due_at)
    return len(rows)


def _meant(tables: Tables, name: str | None, group: str | None) -> list[Scheduled]:
    return [
        row
        for row in tables.schedules.values()
        if (
            row.info.schedule.name == name if name is not None else row.info.schedule.group == group
        )
    ]


def due_schedules(tables: Tables, now: datetime, tasks: Sequence[str], limit: int) -> DueSchedules:
    """Return what is due, in the order in which it is fired."""
    due = [(at, row.info) for at, row in _waiting(tables) if at <= now and _task(row) in tasks]
    due.sort(key=lambda each: (each[0], -each[1].schedule.firing.priority))
    return DueSchedules(now, [info for _, info in due[:limit]])


def next_fire(tables: Tables, now: datetime, tasks: Sequence[str]) -> float | None:
    """Return how long it is until the first is due."""
    moments = [at for at, row in _waiting(tables) if _task(row) in tasks]
    return max((min(moments) - now).total_seconds(), 0.0) if moments else None


def stranded_schedules(
    tables: Tables, now: datetime, tasks: Sequence[str], late: timedelta, limit: int
) -> list[ScheduleInfo]:
    """Return what nobody has fired for long."""
    found = [
        (at, row.info)
        for at, row in _waiting(tables)
        if at <= now - late and _task(row) not in tasks and row.info.problem is None
    ]
    return [info for _, info in sorted(found, key=lambda each: each[0])[:limit]]


def _waiting(tables: Tables) -> list[tuple[datetime, Scheduled]]:
    return [
        (row.due_at, row)
        for row in tables.schedules.values()
        if row.due_at is not None and row.info.paused_at is None
    ]


def _task(row: Scheduled) -> str:
    return row.info.schedule.firing.task


def slots_of(
    tables: Tables, now: datetime, name: str, before: datetime | None, limit: int
) -> list[SlotInfo]:
    """Return the slots of a schedule, the latest first."""
    found = [
        row
        for (schedule, slot), row in tables.schedule_slots.items()
        if schedule == name and (before is None or slot < before)
    ]
    return sorted(found, key=lambda row: row.slot, reverse=True)[:limit]


def live_jobs_of(tables: Tables, now: datetime, name: str) -> list[SlotInfo]:
    """Return the slots whose jobs have not ended."""
    return [
        row for job, row in tables.live_slots.items() if row.schedule == name and lives(tables, job)
    ]


def prune_slots(
    tables: Tables, now: datetime, keep: timedelta, limit: int, term: Term | None
) -> int:
    """Delete slots whose time is over, unless their job lives."""
    if not may_write(tables, term):
        return 0
    old = [
        key
        for key, row in sorted(tables.schedule_slots.items(), key=lambda each: each[1].fired_at)
        if row.fired_at <= now - keep and not (row.job and lives(tables, row.job))
    ][:limit]
    for key in old:
        row = tables.schedule_slots.pop(key)
        if row.job is not None:
            tables.live_slots.pop(row.job, None)
    return len(old)


def save_calendar(tables: Tables, now: datetime, name: str, data: bytes) -> None:
    """Keep a calendar."""
    tables.calendars[name] = data


def get_calendars(tables: Tables, now: datetime, names: Sequence[str] | None) -> dict[str, bytes]:
    """Return calendars by name."""
    return {
        name: data
        for name, data in sorted(tables.calendars.items())
        if names is None or name in names
    }


def delete_calendar(tables: Tables, now: datetime, name: str) -> list[str]:
    """Remove a calendar that no schedule uses."""
    used_by = [
        schedule
        for schedule, row in sorted(tables.schedules.items())
        if name in row.info.schedule.calendars
    ]
    if not used_by:
        tables.calendars.pop(name, None)
    return used_by
