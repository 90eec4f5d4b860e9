"""Keeps schedules and calendars, and tells which are due; `firing.py` fires them."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

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
from detent.spi.leadership import NO_TERM, Term
from detent.spi.notifier import Notifier, ScheduleHint
from detent.spi.schedules import DueSchedules
from detent.stores.postgres.database import Connection, Database

# How many schedules are named that still use a calendar.
NAMED: Final = 20


class Scheduling:
    """The part of the store that `ScheduleStore` describes, but for firing."""

    database: Database
    notifier: Notifier

    async def save_schedule(self, info: ScheduleInfo, expected: int | None) -> ScheduleInfo | None:
        """See `ScheduleStore.save_schedule`."""
        args = _columns(info) if expected is None else [*_columns(info), expected]
        name = "insert_schedule" if expected is None else "update_schedule"
        rows = await self._in_turn("join_schedule_group", info.schedule.group, name, args)
        if not rows:
            return None
        self.notifier.publish([ScheduleHint()])
        return schedule_info(rows[0])

    async def get_schedules(self, names: Sequence[str]) -> list[ScheduleInfo]:
        """See `ScheduleStore.get_schedules`."""
        return [schedule_info(row) for row in await self.database.fetch("get_schedules", names)]

    async def list_schedules(
        self, *, group: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[ScheduleInfo]:
        """See `ScheduleStore.list_schedules`."""
        if group is None:
            rows = await self.database.fetch("list_schedules", after or "", limit)
        else:
            rows = await self.database.fetch("list_schedule_group", group, after or "", limit)
        return [schedule_info(row) for row in rows]

    async def delete_schedule(
        self, name: str, expected: int | None = None, term: Term | None = None
    ) -> bool:
        """See `ScheduleStore.delete_schedule`."""
        by = term or NO_TERM
        return bool(await self.database.fetch("delete_schedule", name, expected, *by))

    async def pause_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        """See `ScheduleStore.pause_schedules`."""
        if name is not None:
            return len(await self.database.fetch("pause_schedule", name))
        return len(await self._switch("pause_schedule_group", group or ""))

    async def resume_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        """See `ScheduleStore.resume_schedules`."""
        if name is not None:
            resumed = await self.database.fetch("resume_schedule", name)
        else:
            resumed = await self._switch("resume_schedule_group", group or "")
        self.notifier.publish([ScheduleHint()] if resumed else [])
        return len(resumed)

    async def _switch(self, name: str, group: str) -> list[Any]:
        return await self._in_turn("switch_schedule_group", group, name, [group])

    async def _in_turn(self, turn: str, group: str, name: str, args: Sequence[Any]) -> list[Any]:
        """Run a statement so that nobody joins a group while it is paused or resumed.

        Two statements, since one that had to wait would still see what was there before.
        """
        key = _key_of(self.database.address.schema, group)

        async def work(connection: Connection) -> list[Any]:
            await connection.fetch(self.database.sql(turn), key)
            return list(await connection.fetch(self.database.sql(name), *args))

        return await self.database.transact(work)

    async def due_schedules(self, tasks: Sequence[str], limit: int) -> DueSchedules:
        """See `ScheduleStore.due_schedules`."""
        rows = await self.database.fetch("due_schedules", list(tasks), limit)
        due = [schedule_info(row) for row in rows if row["name"] is not None]
        return DueSchedules(rows[0]["now"], due)

    async def next_fire(self, tasks: Sequence[str]) -> float | None:
        """See `ScheduleStore.next_fire`."""
        rows = await self.database.fetch("next_schedule", list(tasks))
        return max(rows[0]["seconds"], 0.0) if rows else None

    async def stranded_schedules(
        self, tasks: Sequence[str], late: timedelta, limit: int
    ) -> list[ScheduleInfo]:
        """See `ScheduleStore.stranded_schedules`."""
        wanted = (list(tasks), late.total_seconds(), limit)
        rows = await self.database.fetch("stranded_schedules", *wanted)
        return [schedule_info(row) for row in rows]

    async def slots_of(
        self, name: str, *, before: datetime | None = None, limit: int = 50
    ) -> list[SlotInfo]:
        """See `ScheduleStore.slots_of`."""
        return [_slot(row) for row in await self.database.fetch("slots_of", name, before, limit)]

    async def live_jobs_of(self, name: str) -> list[SlotInfo]:
        """See `ScheduleStore.live_jobs_of`."""
        return [_slot(row) for row in await self.database.fetch("live_slots", name)]

    async def prune_slots(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        """See `ScheduleStore.prune_slots`."""
        asked = (keep.total_seconds(), limit, *(term or NO_TERM))
        return len(await self.database.fetch("prune_slots", *asked))

    async def save_calendar(self, name: str, data: bytes) -> None:
        """See `ScheduleStore.save_calendar`."""
        await self.database.fetch("save_calendar", name, data)

    async def get_calendars(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """See `ScheduleStore.get_calendars`."""
        rows = await self.database.fetch("get_calendars", None if names is None else list(names))
        return {row["name"]: row["data"] for row in rows}

    async def delete_calendar(self, name: str) -> list[str]:
        """See `ScheduleStore.delete_calendar`."""
        return [row["name"] for row in await self.database.fetch("delete_calendar", name, NAMED)]


def _key_of(schema: str, group: str) -> int:
    """Return the number under which those who join a group and those who switch it take turns."""
    text = f"detent schedule group {schema} {group}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _columns(info: ScheduleInfo) -> tuple[Any, ...]:
    """Return a schedule as the arguments of the statements that write it."""
    schedule, firing = info.schedule, info.schedule.firing
    return (
        schedule.name,
        schedule.group,
        str(schedule.owner),
        schedule.trigger,
        list(schedule.calendars),
        str(schedule.misfire),
        schedule.catch_up_limit,
        schedule.misfire_threshold.total_seconds(),
        str(schedule.overlap),
        schedule.jitter.total_seconds(),
        schedule.start_at,
        schedule.end_at,
        schedule.max_runs,
        schedule.description,
        firing.task,
        firing.queue,
        firing.lane,
        firing.priority,
        firing.args,
        firing.codec,
        firing.options,
        firing.params,
        list(firing.tags),
        firing.principal,
        info.next_fire,
        info.prev_fire,
        info.runs,
        info.paused_at,
        info.declared_at,
        list(info.edited),
        info.problem,
    )


def schedule_info(row: Any) -> ScheduleInfo:
    """Return a row of the table as a value."""
    firing = Firing(
        task=row["task"],
        queue=row["queue"],
        lane=row["lane"],
        priority=row["priority"],
        args=row["args"],
        codec=row["codec"],
        options=row["options"],
        params=row["params"],
        tags=tuple(row["tags"]),
        principal=row["principal"],
    )
    schedule = Schedule(
        name=row["name"],
        trigger=row["trigger"],
        firing=firing,
        group=row["schedule_group"],
        owner=Owner(row["owner"]),
        calendars=tuple(row["calendars"]),
        misfire=Misfire(row["misfire"]),
        catch_up_limit=row["catch_up_limit"],
        misfire_threshold=row["misfire_threshold"],
        overlap=Overlap(row["overlap"]),
        jitter=row["jitter"],
        start_at=row["start_at"],
        end_at=row["end_at"],
        max_runs=row["max_runs"],
        description=row["description"],
    )
    return ScheduleInfo(
        schedule=schedule,
        revision=row["revision"],
        next_fire=row["next_fire"],
        prev_fire=row["prev_fire"],
        runs=row["runs"],
        paused_at=row["paused_at"],
        declared_at=row["declared_at"],
        edited=tuple(row["edited"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        problem=row["problem"],
    )


def _slot(row: Any) -> SlotInfo:
    return SlotInfo(
        schedule=row["schedule"],
        slot=row["slot"],
        fired_at=row["fired_at"],
        state=SlotState(row["state"]),
        job=row["job"],
        manual=row["manual"],
    )
