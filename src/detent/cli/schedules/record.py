"""A schedule as programs read it, and in the few words that people need."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from detent.cli.command import Failed
from detent.cli.groups import meant
from detent.cli.moments import iso
from detent.cli.session import Session
from detent.config import format_duration
from detent.errors import ScheduleNotFound
from detent.model.job import Priority, needs_of
from detent.model.schedule import Misfire, Schedule, ScheduleInfo, SlotInfo
from detent.model.triggers import trigger_from
from detent.options import read_options
from detent.scheduling import zone_in

if TYPE_CHECKING:
    from detent.app import App


async def found(session: "Session | App", name: str) -> ScheduleInfo:
    """Return a schedule, or say which name was probably meant."""
    try:
        return await session.schedules.get(name)
    except ScheduleNotFound as error:
        raise Failed(f"{error}; {await hint(session, name)}") from error


async def hint(session: "Session | App", name: str) -> str:
    """Return which name was probably meant."""
    names = [info.schedule.name for info in await session.schedules.list(limit=1_000)]
    return meant(name, names, "known are") if names else "there is none yet"


def state_of(info: ScheduleInfo) -> str:
    """Return how a schedule is doing, in a word."""
    if info.paused_at is not None:
        return "paused"
    if info.problem is not None:
        return "problem"
    return "over" if info.next_fire is None else "active"


def when(schedule: Schedule) -> str:
    """Return when a schedule fires, in plain English."""
    try:
        words = trigger_from(schedule.trigger).describe()
    except (TypeError, ValueError) as error:
        return f"unreadable: {error}"
    names = ", ".join(schedule.calendars)
    return f"{words}; not in {names}" if names else words


def misfire(schedule: Schedule) -> str:
    """Return the misfire rule as people write it."""
    if schedule.misfire is Misfire.CATCH_UP:
        return f"catch_up({schedule.catch_up_limit})"
    return str(schedule.misfire)


def arguments(schedule: Schedule) -> Any:
    """Return the arguments of its jobs, if they can be read without their app."""
    return _readable(schedule.firing.args, schedule.firing.codec)


def params(schedule: Schedule) -> Any:
    """Return what its jobs bring along besides, the same way; None for nothing."""
    found = schedule.firing.params
    return None if found is None else _readable(found, schedule.firing.codec)


def _readable(data: bytes, codec: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return f"{len(data):,} bytes of {codec}"


def brief(info: ScheduleInfo) -> dict[str, Any]:
    """Return what stands in a list."""
    schedule = info.schedule
    return {
        "name": schedule.name,
        "group": schedule.group,
        "state": state_of(info),
        "task": schedule.firing.task,
        "when": when(schedule),
        "next_fire": iso(info.next_fire),
        "prev_fire": iso(info.prev_fire),
        "runs": info.runs,
        "owner": str(schedule.owner),
        "problem": info.problem,
    }


def full(info: ScheduleInfo) -> dict[str, Any]:
    """Return all that is known about a schedule."""
    schedule, firing = info.schedule, info.schedule.firing
    options = None if firing.options is None else read_options(firing.options)
    retry = None if options is None or options.retry is None else options.retry
    return brief(info) | {
        "description": schedule.description,
        "trigger": json.loads(schedule.trigger),
        "timezone": zone_in(schedule.trigger),
        "calendars": list(schedule.calendars),
        "misfire": misfire(schedule),
        "misfire_threshold": format_duration(schedule.misfire_threshold),
        "overlap": str(schedule.overlap),
        "jitter": format_duration(schedule.jitter),
        "start": iso(schedule.start_at),
        "end": iso(schedule.end_at),
        "max_runs": schedule.max_runs,
        "args": arguments(schedule),
        "queue": firing.queue,
        "needs": list(needs_of(firing.lane)),
        "priority": Priority(firing.priority).name.lower(),
        "timeout": None if options is None else options.timeout,
        "retry": None if retry is None else msgspec.to_builtins(retry),
        "tags": list(firing.tags),
        "params": params(schedule),
        "paused_at": iso(info.paused_at),
        "declared_at": iso(info.declared_at),
        "created_at": iso(info.created_at),
        "updated_at": iso(info.updated_at),
        "edited": list(info.edited),
        "revision": info.revision,
    }


def slot_record(slot: SlotInfo) -> dict[str, Any]:
    """Return what became of a slot."""
    return {
        "slot": iso(slot.slot),
        "state": str(slot.state),
        "job": None if slot.job is None else str(slot.job),
        "fired_at": iso(slot.fired_at),
        "manual": slot.manual,
    }


def length(value: timedelta) -> str:
    """Return a length of time as people write it; nothing for none."""
    return format_duration(value) if value else ""
