"""What makes a trigger a value in a database and back; nothing but the known kinds is read."""

from collections.abc import Mapping
from typing import Final

from detent.model.fields import kind_of, to_json
from detent.model.triggers.calendar_interval import CalendarInterval
from detent.model.triggers.cron import Cron
from detent.model.triggers.daily_window import DailyWindow
from detent.model.triggers.dates import Dates, Once
from detent.model.triggers.interval import Interval
from detent.model.triggers.trigger import Trigger

KINDS: Final[Mapping[str, type[Trigger]]] = {
    "cron": Cron,
    "interval": Interval,
    "calendar_interval": CalendarInterval,
    "daily_window": DailyWindow,
    "dates": Dates,
    "once": Once,
}


def trigger_bytes(trigger: Trigger) -> bytes:
    """Return a trigger as JSON; equal triggers give equal bytes."""
    return to_json(trigger.to_data())


def trigger_from(data: Mapping[str, object] | bytes | str) -> Trigger:
    """Return the trigger that was stored; ValueError names what is not known here."""
    kind, fields = kind_of("trigger", data, KINDS)
    return kind.from_data(fields)
