"""An expression as sets of values: the only place that decides when a cron matches."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime, timedelta
from typing import Final, NamedTuple

from detent.model.zones import SECOND

MINUTES: Final = tuple(range(60))
HOURS: Final = tuple(range(24))
DAYS: Final = frozenset(range(1, 32))
MONTHS: Final = tuple(range(1, 13))
WEEKDAYS: Final = frozenset(range(7))
LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
FEBRUARY: Final = 2
SUNDAY, SATURDAY = 0, 6
LAST: Final = -1
"""In place of which one of its weekday in the month."""


class DayRule(NamedTuple):
    """A day that differs from month to month: `L`, `L-3`, `15W`, `LW` or `L-3W`."""

    day: int
    """The day of the month, or how many days before the last one."""
    is_from_end: bool
    is_weekday: bool
    """It moves to the nearest weekday (Monday to Friday) of the same month."""

    def resolve(self, first: int, length: int) -> int | None:
        """Return the day in a month of that length whose first day is that weekday."""
        day = length - self.day if self.is_from_end else self.day
        if not 1 <= day <= length:
            return None
        weekday = (first + day - 1) % 7
        if not self.is_weekday or weekday not in (SATURDAY, SUNDAY):
            return day
        if weekday == SATURDAY:
            return day - 1 if day > 1 else day + 2
        return day + 1 if day < length else day - 2


class DayOfMonth(NamedTuple):
    """What the day-of-month field holds."""

    days: frozenset[int]
    rules: frozenset[DayRule] = frozenset()

    @property
    def is_every(self) -> bool:
        """Whether every day matches."""
        return self.days >= DAYS

    def holds(self, first: int, length: int) -> set[int]:
        """Return the days that match in a month of that shape."""
        found = {rule.resolve(first, length) for rule in self.rules}
        return {day for day in self.days | found if day is not None and day <= length}


class DayOfWeek(NamedTuple):
    """What the day-of-week field holds; Sunday is 0."""

    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]] = frozenset()
    """Weekdays with which one of the month it is: 1 to 5, or `LAST`."""

    @property
    def is_every(self) -> bool:
        """Whether every day matches."""
        return self.weekdays >= WEEKDAYS

    def holds(self, first: int, length: int) -> set[int]:
        """Return the days that match in a month of that shape."""
        found = set()
        for day in range(1, length + 1):
            weekday = (first + day - 1) % 7
            places = {(weekday, (day + 6) // 7), (weekday, LAST if day + 7 > length else 0)}
            if weekday in self.weekdays or places & self.nth:
                found.add(day)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class CronExpression:
    """An expression that was read: it knows the next wall time that it matches."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    day_of_month: DayOfMonth
    months: tuple[int, ...]
    day_of_week: DayOfWeek
    needs_both: bool
    """A day must match both day fields; else either is enough."""
    has_seconds: bool
    """It was written with six fields."""
    hashed: bool
    """It holds `H`, so a name takes part in it."""
    _known: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """The days that match, by the shape of the month; there are 28 shapes."""

    @property
    def named(self) -> bool:
        """Whether its times are asked for by name: neither every minute nor every hour."""
        return self.minutes != MINUTES and self.hours != HOURS

    @property
    def is_every_day(self) -> bool:
        """Whether it matches on every day of its months."""
        in_month, in_week = self.day_of_month.is_every, self.day_of_week.is_every
        return in_month and in_week if self.needs_both else in_month or in_week

    @property
    def happens(self) -> bool:
        """Whether there is a date that it matches; every shape of a month comes in 40 years."""
        lengths = {LENGTHS[month - 1] for month in self.months}
        lengths |= {29} if FEBRUARY in self.months else set()
        return any(self._days(first, length) for first in range(7) for length in lengths)

    @property
    def whole(self) -> timedelta:
        """What it matches altogether or not at all: days, hours, minutes or seconds."""
        if self.has_seconds and self.seconds != MINUTES:
            return SECOND
        if self.minutes != MINUTES:
            return timedelta(minutes=1)
        return timedelta(days=1) if self.hours == HOURS else timedelta(hours=1)

    @property
    def is_always(self) -> bool:
        """Whether it matches every minute, or with seconds every second."""
        is_every_day = self.is_every_day and self.months == MONTHS
        return is_every_day and self.whole == timedelta(days=1)

    def next_wall(self, wall: datetime) -> datetime | None:
        """Return the first match strictly after a wall time; None when there is none any more."""
        start = wall.replace(microsecond=0) + SECOND
        year, month, day = start.year, start.month, start.day
        days = self._days_of(year, month)
        index = bisect_left(days, day)
        if index < len(days) and days[index] == day:
            found = self._time_from(start.hour, start.minute, start.second)
            if found is not None:
                return datetime(year, month, day, *found)  # noqa: DTZ001 - a wall time
            index += 1
        while index == len(days):
            year, month = (year, month + 1) if month < len(MONTHS) else (year + 1, 1)
            if year > MAXYEAR:
                return None
            days, index = self._days_of(year, month), 0
        first = self.hours[0], self.minutes[0], self.seconds[0]
        return datetime(year, month, days[index], *first)  # noqa: DTZ001 - a wall time

    def matches(self, wall: datetime) -> bool:
        """Return whether it matches the minute of a wall time, or its second if it has seconds."""
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and (not self.has_seconds or wall.second in self.seconds)
            and wall.day in self._days_of(wall.year, wall.month)
        )

    def _time_from(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """Return the first time of a day from a time on."""
        hours, minutes, seconds = self.hours, self.minutes, self.seconds
        if hour in hours:
            if minute in minutes:
                index = bisect_left(seconds, second)
                if index < len(seconds):
                    return hour, minute, seconds[index]
            index = bisect_left(minutes, minute + 1)
            if index < len(minutes):
                return hour, minutes[index], seconds[0]
        index = bisect_left(hours, hour + 1)
        return (hours[index], minutes[0], seconds[0]) if index < len(hours) else None

    def _days_of(self, year: int, month: int) -> Sequence[int]:
        if month not in self.months:
            return ()
        is_leap = month == FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        length = 29 if is_leap else LENGTHS[month - 1]
        return self._days(date(year, month, 1).isoweekday() % 7, length)

    def _days(self, first: int, length: int) -> tuple[int, ...]:
        """Return the days that match in a month of that shape."""
        known = self._known.get((first, length))
        if known is None:
            in_month = self.day_of_month.holds(first, length)
            in_week = self.day_of_week.holds(first, length)
            found: Iterable[int] = in_month & in_week if self.needs_both else in_month | in_week
            known = self._known[first, length] = tuple(sorted(found))
        return known
