"""What schedules fire by: `from detent.triggers import Cron, Interval, catch_up, ...`."""

from detent.model.triggers import (
    CalendarInterval,
    Cron,
    DailyWindow,
    Dates,
    Interval,
    Once,
    Trigger,
)
from detent.scheduling import CatchUp, catch_up

__all__ = [
    "CalendarInterval",
    "CatchUp",
    "Cron",
    "DailyWindow",
    "Dates",
    "Interval",
    "Once",
    "Trigger",
    "catch_up",
]
