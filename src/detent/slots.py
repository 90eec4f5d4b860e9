"""The slots of a schedule: the next ones, and those of a time in the past, calendars included."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from detent.errors import ConfigError
from detent.model.calendars import Calendar, calendar_from, stacked
from detent.model.firing import first_slot
from detent.model.ownership import NextSlot
from detent.model.schedule import Overlap, Schedule, ScheduleInfo
from detent.model.triggers import trigger_from
from detent.model.zones import INSTANT
from detent.scheduling import read_parts
from detent.spi.schedules import ScheduleStore

MOST_SLOTS: Final = 10_000
EARLIEST: Final = 1970
UNREADABLE: Final = (ValueError, TypeError, LookupError, ArithmeticError)

KnownCalendars = Mapping[str, Calendar | ValueError]
"""Calendars by name, and what is wrong with those that cannot be read."""


async def slots_with(store: ScheduleStore, schedule: Schedule) -> NextSlot:
    """Return what finds the slots of a schedule, with the calendars that are stored now.

    Raises `ConfigError` if one of its calendars is not there.
    """
    known = await calendars_in(store) if schedule.calendars else {}
    try:
        calendars_of(schedule.calendars, known)
    except ValueError as error:
        raise ConfigError(f"schedule {schedule.name!r}: calendars: {error}") from error

    def next_slot(schedule: Schedule, after: datetime) -> datetime | None:
        try:
            return slot_after(schedule, known, after)
        except ValueError as error:
            raise ConfigError(f"schedule {schedule.name!r}: {error}") from error

    return next_slot


async def calendars_in(store: ScheduleStore) -> KnownCalendars:
    """Return all stored calendars; one may stand on any other."""
    known: dict[str, Calendar | ValueError] = {}
    for name, data in (await store.get_calendars()).items():
        try:
            known[name] = _calendar(data)
        except UNREADABLE as error:
            # A newer version may have saved it. It is only a problem of those who use it.
            known[name] = ValueError(f"calendar {name!r} cannot be read: {error}")
    return known


@lru_cache(maxsize=1_000)
def _calendar(data: bytes) -> Calendar:
    return calendar_from(data)


def readable(known: KnownCalendars) -> dict[str, Calendar]:
    """Return those calendars that can be read."""
    return {name: each for name, each in known.items() if not isinstance(each, ValueError)}


def calendars_of(names: Sequence[str], known: KnownCalendars) -> tuple[Calendar, ...]:
    """Return calendars with all that they stand on; ValueError names one that is not there."""
    if not names:
        return ()
    for name in names:
        if isinstance(problem := known.get(name), ValueError):
            raise problem
    return stacked(names, readable(known))


def slot_after(schedule: Schedule, known: KnownCalendars, after: datetime) -> datetime | None:
    """Return the first slot after a moment, between start and end and outside of calendars."""
    return first_slot(
        trigger_from(schedule.trigger).for_schedule(schedule.name),
        calendars_of(schedule.calendars, known),
        now=after,
        start_at=schedule.start_at,
        end_at=schedule.end_at,
    )


def coming(info: ScheduleInfo, slots: NextSlot, count: int) -> Sequence[datetime]:
    """Return the next slots of a schedule, from the one that comes first."""
    found: list[datetime] = []
    schedule, slot = info.schedule, info.next_fire
    if schedule.max_runs is not None:
        count = min(count, schedule.max_runs - info.runs)
    while slot is not None and len(found) < count:
        found.append(slot)
        slot = slots(schedule, slot)
    return found


def check_count(field: str, value: object, most: int) -> None:
    """Raise `ConfigError` unless a value is a number from 1 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ConfigError(f"{field} = {value!r}: must be 1 to {most:,}")


def between(
    schedule: Schedule, slots: NextSlot, first: datetime, last: datetime, limit: int
) -> Sequence[datetime]:
    """Return the slots from `first` to before `last`, if there are no more than `limit`."""
    check_count("limit", limit, MOST_SLOTS)
    found: list[datetime] = []
    slot = slots(schedule, first - INSTANT)
    while slot is not None and slot < last:
        if len(found) == limit:
            raise ConfigError(
                f"schedule {schedule.name!r}: more than {limit:,} slots from {first.isoformat()} "
                f"to {last.isoformat()}; take a shorter time or a higher limit"
            )
        found.append(slot)
        slot = slots(schedule, slot)
    return found


def past_range(
    name: str, start: datetime, end: datetime, now: datetime
) -> tuple[datetime, datetime]:
    """Return a stretch of the past, in UTC, or say what is wrong with it."""
    for field, moment in (("start", start), ("end", end)):
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise ConfigError(
                f"schedule {name!r}: {field} = {moment!r}: must be a datetime with a time zone"
            )
        if moment.year < EARLIEST:
            raise ConfigError(
                f"schedule {name!r}: {field} = {moment.isoformat()}: must be in {EARLIEST} or later"
            )
    if end > now:
        raise ConfigError(
            f"schedule {name!r}: end = {end.isoformat()}: must not be in the future; "
            "slots to come are fired when they come"
        )
    # Within one zone, Python compares what clocks show, which go back once a year.
    if end.astimezone(UTC) <= start.astimezone(UTC):
        raise ConfigError(
            f"schedule {name!r}: end = {end.isoformat()}: must be after start ({start.isoformat()})"
        )
    return start.astimezone(UTC), end.astimezone(UTC)


def overlap_of(schedule: Schedule, overlap: Overlap | str | None) -> Overlap:
    """Return the overlap rule for slots of the past: one after another, unless said otherwise."""
    if overlap is not None:
        chosen: Overlap = read_parts(schedule.name, {"overlap": overlap})["overlap"]
        return chosen
    return Overlap.ALLOW if schedule.overlap is Overlap.ALLOW else Overlap.QUEUE
