"""When a schedule fires: six kinds of triggers, each a value that knows its next slot.

| kind | for example |
|---|---|
| `Cron` | `Cron("0 9 * * MON-FRI", "Europe/Berlin")` |
| `Interval` | `Interval(timedelta(minutes=5))` |
| `CalendarInterval` | `CalendarInterval(1, "months", at=time(9), start=date(2026, 1, 31))` |
| `DailyWindow` | `DailyWindow(timedelta(minutes=15), start=time(9), end=time(17))` |
| `Dates` | `Dates((date(2026, 12, 24), date(2026, 12, 31)), at=time(18))` |
| `Once` | `Once(datetime(2026, 12, 24, 18), "Europe/Berlin")` |

`detent.model.zones` says what daylight saving does to them.
"""

from detent.model.triggers.calendar_interval import CalendarInterval, Unit
from detent.model.triggers.cron import Cron
from detent.model.triggers.daily_window import DailyWindow
from detent.model.triggers.dates import Dates, Once
from detent.model.triggers.interval import Interval
from detent.model.triggers.stored import trigger_bytes, trigger_from
from detent.model.triggers.trigger import Trigger

__all__ = [
    "CalendarInterval",
    "Cron",
    "DailyWindow",
    "Dates",
    "Interval",
    "Once",
    "Trigger",
    "Unit",
    "trigger_bytes",
    "trigger_from",
]
