"""Who may change what of a schedule: code declares, operators edit, and neither undoes the other.

An operator's edit of a schedule that code declares is marked with the name of the field. When a
node starts, it brings what its code says, except for the fields that are marked.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from detent.model.gates import behind
from detent.model.schedule import Owner, Schedule, ScheduleInfo
from detent.model.zones import INSTANT

OWN_PARTS: Final = {
    "trigger": ("trigger",),
    "group": ("group",),
    "calendars": ("calendars",),
    "misfire": ("misfire", "catch_up_limit"),
    "misfire_threshold": ("misfire_threshold",),
    "overlap": ("overlap",),
    "jitter": ("jitter",),
    "start": ("start_at",),
    "end": ("end_at",),
    "max_runs": ("max_runs",),
    "description": ("description",),
}
"""The fields that people know, and what each is made of in a `Schedule`."""

FIRING_PARTS: Final = {
    "args": ("args", "codec"),
    # A lane is a queue with what it needs, and options are stored as one: these go together.
    "queue": ("queue", "lane"),
    "needs": ("queue", "lane"),
    "timeout": ("options",),
    "retry": ("options",),
    "priority": ("priority",),
    "params": ("params",),
    "tags": ("tags",),
}
"""The same for what stands in its `Firing`."""

FIELDS: Final = (*OWN_PARTS, *FIRING_PARTS)

NextSlot = Callable[[Schedule, datetime], datetime | None]
"""From a schedule and a moment to the first slot after it."""


def merged(declared: Schedule, stored: Schedule, edited: Iterable[str]) -> Schedule:
    """Return what code declares, with the fields that an operator has edited as they are."""
    names = tuple(edited)
    own = {part: getattr(stored, part) for name in names for part in OWN_PARTS.get(name, ())}
    firing = {
        part: getattr(stored.firing, part) for name in names for part in FIRING_PARTS.get(name, ())
    }
    wanted = replace(declared.firing, **firing)
    if "args" in names:
        # The gates of a lane may depend on the arguments, the rest of it does not.
        wanted = replace(wanted, lane=behind(wanted.lane, stored.firing.lane))
    return replace(declared, firing=wanted, **own)


def declared_anew(
    declared: Schedule, info: ScheduleInfo, now: datetime, next_slot: NextSlot
) -> ScheduleInfo:
    """Return a schedule of code as it stands after a node has declared it.

    Only what changes its slots moves the next one: a deploy repeats none and leaves none out.
    """
    return changed(info, merged(declared, info.schedule, info.edited), now, next_slot)


def changed(
    info: ScheduleInfo, wanted: Schedule, now: datetime, next_slot: NextSlot
) -> ScheduleInfo:
    """Return a schedule with other values; its next slot is a new one if they touch its slots.

    One that is due, or was missed, stays, if it is a slot of the same trigger and still allowed.
    """
    was_stuck = info.next_fire is None and info.problem is not None
    if _slots_of(wanted) == _slots_of(info.schedule) and not was_stuck:
        return replace(info, schedule=wanted)
    # A slot that was fired ahead of a clock that went back must not come again.
    after = now if info.prev_fire is None else max(now, info.prev_fire)
    if info.next_fire is not None and wanted.trigger == info.schedule.trigger:
        after = min(after, info.next_fire - INSTANT)
    there = replace(info, schedule=wanted, problem=None)
    return replace(there, next_fire=None if is_spent(there) else next_slot(wanted, after))


def _slots_of(schedule: Schedule) -> tuple[object, ...]:
    """Return all that decides about the slots of a schedule."""
    return (*times_of(schedule), schedule.calendars, schedule.max_runs)


def times_of(schedule: Schedule) -> tuple[object, ...]:
    """Return which times a schedule is made for, whatever leaves some of them out."""
    return (schedule.trigger, schedule.start_at, schedule.end_at)


def is_spent(info: ScheduleInfo) -> bool:
    """Whether a schedule has fired as often as it may."""
    return info.schedule.max_runs is not None and info.runs >= info.schedule.max_runs


def is_abandoned(info: ScheduleInfo, now: datetime, grace: timedelta) -> bool:
    """Whether code once declared a schedule, and for longer than the grace none does any more."""
    declared_at = info.declared_at or info.updated_at or info.created_at
    if info.schedule.owner is not Owner.CODE or declared_at is None:
        return False
    return declared_at < now - grace
