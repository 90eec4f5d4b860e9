"""What makes a calendar a value in a database and back; nothing but the known kinds is read."""

from collections.abc import Mapping
from typing import Final

from detent.model.calendars.calendar import Calendar
from detent.model.calendars.days import Annual, Holidays, Weekly
from detent.model.calendars.times import CronCalendar, DailyRange
from detent.model.fields import kind_of, to_json

KINDS: Final[Mapping[str, type[Calendar]]] = {
    "holidays": Holidays,
    "annual": Annual,
    "weekly": Weekly,
    "daily_range": DailyRange,
    "cron": CronCalendar,
}


def calendar_bytes(calendar: Calendar) -> bytes:
    """Return a calendar as JSON; equal calendars give equal bytes."""
    return to_json(calendar.to_data())


def calendar_from(data: Mapping[str, object] | bytes | str) -> Calendar:
    """Return the calendar that was stored; ValueError names what is not known here."""
    kind, fields = kind_of("calendar", data, KINDS)
    return kind.from_data(fields)
