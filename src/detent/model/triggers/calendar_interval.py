"""Every so many days, weeks, months or years at a time of day."""

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Final, Self

from detent.model.fields import Fields, Where, check_date, check_time, check_whole
from detent.model.wording import DAY_NAMES, clock
from detent.model.zones import instant_of, wall_of, zone_of

START: Final = date(2001, 1, 1)
"""A Monday, the first of a month and of a year: what "every week" or "every year" suggest."""

FEBRUARY: Final = 2
SHORTEST_MONTH: Final = 28
MOST: Final = {"days": 36_525, "weeks": 5_217, "months": 1_200, "years": 100}


class Unit(StrEnum):
    """What a calendar interval is counted in."""

    DAYS = "days"
    WEEKS = "weeks"
    MONTHS = "months"
    YEARS = "years"


@dataclass(frozen=True, slots=True)
class CalendarInterval:
    """Every `every` units at the local time `at`, counted from the day `start`, the first one.

    Every slot is counted from `start`, not from the slot before. From January 31, every month, it
    fires on the last day of February and on March 31: a day that a month does not have is its last
    one, and the next month does not suffer from it.
    """

    every: int
    unit: Unit | str
    at: time = time()
    start: date = START
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        where = Where("CalendarInterval", "unit")
        if self.unit not in MOST:
            raise where.wrong(self.unit, "'days', 'weeks', 'months' or 'years'")
        object.__setattr__(self, "unit", Unit(self.unit))
        check_whole(Where("CalendarInterval", "every"), self.every, MOST[self.unit])
        object.__setattr__(self, "at", check_time(Where("CalendarInterval", "at"), self.at))
        check_date(Where("CalendarInterval", "start"), self.start)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment."""
        zone = zone_of(self.timezone)
        try:
            # A slot inside a gap of 24 hours comes up to a day after its date: begin a step early.
            number = max(self._number(wall_of(moment, zone).date()) - 1, 0)
            while True:
                slot = instant_of(datetime.combine(self._day(number), self.at), zone)
                if slot > moment:
                    return slot
                number += 1
        except (OverflowError, ValueError):
            return None  # After the year 9999.

    def _number(self, day: date) -> int:
        """Return the number of the last slot up to a day, or of one shortly before it."""
        if self.unit in (Unit.DAYS, Unit.WEEKS):
            return (day - self.start).days // self._days - 1
        months = (day.year - self.start.year) * 12 + day.month - self.start.month
        return months // self._months - 1

    def _day(self, number: int) -> date:
        if self.unit in (Unit.DAYS, Unit.WEEKS):
            return self.start + timedelta(days=number * self._days)
        year, month = divmod(self.start.month - 1 + number * self._months, 12)
        year, month = self.start.year + year, month + 1
        return date(year, month, min(self.start.day, monthrange(year, month)[1]))

    @property
    def _days(self) -> int:
        return self.every * (7 if self.unit is Unit.WEEKS else 1)

    @property
    def _months(self) -> int:
        return self.every * (12 if self.unit is Unit.YEARS else 1)

    def describe(self) -> str:
        """Return it in plain English."""
        unit = self.unit.removesuffix("s")
        rhythm = f"every {unit}" if self.every == 1 else f"every {self.every} {self.unit}"
        if self.unit is Unit.WEEKS:
            rhythm += f" on {DAY_NAMES[self.start.weekday()]}"
        elif self.unit is Unit.MONTHS:
            rhythm += f" on day {self.start.day}{self._shortened}"
        elif self.unit is Unit.YEARS:
            rhythm += f" on {self.start:%B} {self.start.day}{self._shortened}"
        # Which of two weeks, or of three months, only the first day tells.
        since = f" from {self.start}" if self.every > 1 or self.start > START else ""
        return f"{rhythm} at {clock(self.at)}{since}, {self.timezone}"

    @property
    def _shortened(self) -> str:
        some_are_shorter = self.unit is Unit.MONTHS or self.start.month == FEBRUARY
        short = self.start.day > SHORTEST_MONTH and some_are_shorter
        return " (or the last of the month)" if short else ""

    def for_schedule(self, name: str) -> Self:
        """Return it unchanged."""
        return self

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "calendar_interval",
            "version": 1,
            "every": self.every,
            "unit": str(self.unit),
            "at": self.at.isoformat(),
            "start": self.start.isoformat(),
            "timezone": self.timezone,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described."""
        fields = Fields("CalendarInterval", data)
        trigger = cls(
            fields.number("every"),
            fields.text("unit"),
            fields.time("at"),
            fields.date("start"),
            fields.text("timezone"),
        )
        fields.end()
        return trigger
