"""Calendars that leave out whole days: holidays, the same days every year, days of the week."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final, Self

from detent.model.fields import Fields, Where, check_base, check_date, check_weekdays, parse
from detent.model.wording import WEEKDAYS, day_names, listed
from detent.model.zones import steady_until, wall_of, zone_of

MOST_DAYS: Final = 10_000
NAMED: Final = 4
"""A description names so many days, and counts when there are more."""
LEAP_YEAR: Final = 2000
DAY: Final = timedelta(days=1)
_MONTH_AND_DAY: Final = re.compile(r"(\d{1,2})-(\d{1,2})")


class _Days(ABC):
    """What they share: a day is left out from midnight to midnight of the zone."""

    __slots__ = ()

    timezone: str

    @abstractmethod
    def _leaves_out(self, day: date) -> bool: ...

    def excludes(self, moment: datetime) -> bool:
        """Return whether the day of a moment is left out."""
        return self._leaves_out(wall_of(moment, zone_of(self.timezone)).date())

    def excluded_until(self, moment: datetime) -> datetime | None:
        """Return when the day ends, or the clocks change before that; None if it is allowed."""
        zone = zone_of(self.timezone)
        wall = wall_of(moment, zone)
        if not self._leaves_out(wall.date()):
            return None
        return steady_until(moment, datetime.combine(wall.date(), time()) + DAY - wall, zone)


@dataclass(frozen=True, slots=True)
class Holidays(_Days):
    """Leaves out certain days of certain years."""

    dates: Iterable[date]
    timezone: str = "UTC"
    base: str | None = None

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        check_base("Holidays", self.base)
        where = Where("Holidays", "dates")
        if isinstance(self.dates, str | date) or not isinstance(self.dates, Iterable):
            raise where.wrong_type(self.dates, "a list of dates")
        dates = frozenset(check_date(where, each) for each in self.dates)
        if not 1 <= len(dates) <= MOST_DAYS:
            raise ValueError(
                f"Holidays(dates=...): must be 1 to {MOST_DAYS} dates, not {len(dates)}"
            )
        object.__setattr__(self, "dates", dates)

    def _leaves_out(self, day: date) -> bool:
        return day in frozenset(self.dates)

    def describe(self) -> str:
        """Return it in plain English."""
        dates = sorted(self.dates)
        if len(dates) > NAMED:
            return f"not on {len(dates)} days from {dates[0]} to {dates[-1]}, {self.timezone}"
        return f"not on {listed([str(each) for each in dates])}, {self.timezone}"

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "holidays",
            "version": 1,
            "dates": [each.isoformat() for each in sorted(self.dates)],
            "timezone": self.timezone,
            "base": self.base,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the calendar that `to_data` described."""
        fields = Fields("Holidays", data)
        where = Where("Holidays", "dates")
        dates = [parse(where, text, date) for text in fields.texts("dates")]
        calendar = cls(dates, fields.text("timezone"), fields.optional("base"))
        fields.end()
        return calendar


@dataclass(frozen=True, slots=True)
class Annual(_Days):
    """Leaves out the same days of every year, written "12-24" or (12, 24)."""

    days: Iterable[str | tuple[int, int]]
    timezone: str = "UTC"
    base: str | None = None

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        check_base("Annual", self.base)
        where = Where("Annual", "days")
        if isinstance(self.days, str) or not isinstance(self.days, Iterable):
            raise where.wrong_type(self.days, "a list of days like '12-24'")
        days = frozenset(_month_and_day(where, each) for each in self.days)
        if not days:
            raise where.wrong(self.days, "at least one day")
        object.__setattr__(self, "days", days)

    def _leaves_out(self, day: date) -> bool:
        return (day.month, day.day) in frozenset(self.days)

    def describe(self) -> str:
        """Return it in plain English."""
        if len(self._sorted) > NAMED:
            return f"not on {len(self._sorted)} days of every year, {self.timezone}"
        words = [f"{date(LEAP_YEAR, month, day):%B} {day}" for month, day in self._sorted]
        return f"not on {listed(words)}, {self.timezone}"

    @property
    def _sorted(self) -> list[tuple[int, int]]:
        return sorted(each for each in self.days if not isinstance(each, str))

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "annual",
            "version": 1,
            "days": [f"{month:02}-{day:02}" for month, day in self._sorted],
            "timezone": self.timezone,
            "base": self.base,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the calendar that `to_data` described."""
        fields = Fields("Annual", data)
        calendar = cls(fields.texts("days"), fields.text("timezone"), fields.optional("base"))
        fields.end()
        return calendar


def _month_and_day(where: Where, value: object) -> tuple[int, int]:
    month, day = 0, 0
    if isinstance(value, str) and (found := _MONTH_AND_DAY.fullmatch(value)):
        month, day = int(found[1]), int(found[2])
    elif isinstance(value, tuple | list):
        match value:
            case int(month), int(day):
                pass
    try:
        # Any day that some year has.
        date(LEAP_YEAR, month, day)
    except ValueError:
        raise where.wrong(value, "month and day like '12-24'") from None
    return month, day


@dataclass(frozen=True, slots=True)
class Weekly(_Days):
    """Leaves out days of the week: the weekend, if nothing else is said."""

    weekdays: Sequence[str] = ("SAT", "SUN")
    timezone: str = "UTC"
    base: str | None = None

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        check_base("Weekly", self.base)
        where = Where("Weekly", "weekdays")
        days = check_weekdays(where, self.weekdays)
        if len(days) == len(WEEKDAYS):
            raise where.wrong(days, "six weekdays at most, or nothing would ever fire")
        object.__setattr__(self, "weekdays", days)

    def _leaves_out(self, day: date) -> bool:
        return WEEKDAYS[day.weekday()] in self.weekdays

    def describe(self) -> str:
        """Return it in plain English."""
        return f"not on {day_names(tuple(self.weekdays))}, {self.timezone}"

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "weekly",
            "version": 1,
            "weekdays": list(self.weekdays),
            "timezone": self.timezone,
            "base": self.base,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the calendar that `to_data` described."""
        fields = Fields("Weekly", data)
        calendar = cls(fields.texts("weekdays"), fields.text("timezone"), fields.optional("base"))
        fields.end()
        return calendar
