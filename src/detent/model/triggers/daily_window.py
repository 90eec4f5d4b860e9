"""Every so long between two times of day, on some days of the week."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final, Self
from zoneinfo import ZoneInfo

from detent.model.fields import (
    Fields,
    Where,
    check_step,
    check_time,
    check_weekdays,
    number_of_seconds,
)
from detent.model.wording import WEEKDAYS, clock, day_names, every
from detent.model.zones import instant_of, wall_of, zone_of

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """Every `every` from `start` until `end`, both included, on `weekdays`.

    Each day begins anew at `start`. A window whose end is before its start goes on over midnight
    and belongs to the day on which it begins. Start and end are times asked for by name, so a gap
    moves them to its end (a window that lies in a gap altogether leaves the one slot there), and a
    fold takes their first pass; in between real time counts.
    """

    every: timedelta
    start: time
    end: time
    weekdays: Sequence[str] = WEEKDAYS
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        check_step(Where("DailyWindow", "every"), self.every, DAY)
        object.__setattr__(self, "start", check_time(Where("DailyWindow", "start"), self.start))
        object.__setattr__(self, "end", check_time(Where("DailyWindow", "end"), self.end))
        if self.start == self.end:
            raise Where("DailyWindow", "end").wrong(self.end, "another time than start=")
        days = check_weekdays(Where("DailyWindow", "weekdays"), self.weekdays)
        object.__setattr__(self, "weekdays", days)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment."""
        zone = zone_of(self.timezone)
        try:
            # The window of yesterday may last until now, and a gap of a day moves it once more.
            day = datetime.combine(wall_of(moment, zone).date() - 2 * DAY, time())
            while True:
                if WEEKDAYS[day.weekday()] in self.weekdays:
                    slot = self._next_of_day(day, zone, moment)
                    if slot is not None:
                        return slot
                day += DAY
        except OverflowError:
            return None  # After the year 9999.

    def _next_of_day(self, day: datetime, zone: ZoneInfo, moment: datetime) -> datetime | None:
        last_day = day if self.start < self.end else day + DAY
        end = instant_of(datetime.combine(last_day, self.end), zone)
        if end <= moment:
            return None
        begin = instant_of(datetime.combine(day, self.start), zone)
        if begin > moment:
            return begin
        slot = begin + ((moment - begin) // self.every + 1) * self.every
        return slot if slot <= end else None

    def describe(self) -> str:
        """Return it in plain English."""
        days = day_names(tuple(self.weekdays))
        when = days if days == "every day" else f"on {days}"
        return (
            f"{every(self.every)} from {clock(self.start)} to {clock(self.end)} {when}, "
            f"{self.timezone}"
        )

    def for_schedule(self, name: str) -> Self:
        """Return it unchanged."""
        return self

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "daily_window",
            "version": 1,
            "every": number_of_seconds(self.every),
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "weekdays": list(self.weekdays),
            "timezone": self.timezone,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described."""
        fields = Fields("DailyWindow", data)
        trigger = cls(
            fields.seconds("every"),
            fields.time("start"),
            fields.time("end"),
            fields.texts("weekdays"),
            fields.text("timezone"),
        )
        fields.end()
        return trigger
