"""When a schedule does not fire although its trigger says so: holidays, weekends, nights.

| kind | leaves out |
|---|---|
| `Holidays` | certain days of certain years |
| `Annual` | the same days of every year |
| `Weekly` | days of the week |
| `DailyRange` | a part of every day, or all but that |
| `CronCalendar` | what a cron expression matches |

A calendar is stored under a name, and may stand on another one: `base` is the name of a calendar
whose times are left out too. `stacked` finds all that a schedule needs, `next_allowed` asks them.
"""

from detent.model.calendars.allowed import next_allowed, stacked
from detent.model.calendars.calendar import Calendar
from detent.model.calendars.days import Annual, Holidays, Weekly
from detent.model.calendars.stored import calendar_bytes, calendar_from
from detent.model.calendars.times import CronCalendar, DailyRange

__all__ = [
    "Annual",
    "Calendar",
    "CronCalendar",
    "DailyRange",
    "Holidays",
    "Weekly",
    "calendar_bytes",
    "calendar_from",
    "next_allowed",
    "stacked",
]
