"""A slow second opinion on cron: it looks at every minute that the clocks of a zone show.

It knows nothing of Detent and nothing of how Detent computes; it shares no line with it. The rule
is applied as it is written:

- An expression whose minute and hour are both values (no `*`, no step) names local times. Each that
  the clocks show at all counts at the first minute that shows it. Each that they leave out counts
  when the clocks have jumped over it.
- Any other expression counts at every minute that shows a time it matches.
"""

import calendar
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0"}
MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
WEEKDAYS = dict(zip(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), range(7), strict=True))
MINUTES = 24 * 60


@dataclass
class Pattern:
    """An expression, read."""

    seconds: list[int]
    times: set[int]  # minutes of the day
    days: str
    months: set[int]
    weekdays: str
    is_named: bool
    known: dict[int, bool] = field(default_factory=dict)

    def holds_on(self, number: int) -> bool:
        """Return whether it holds on the day of that number, whatever the time."""
        if number not in self.known:
            self.known[number] = self._holds_on(date.fromordinal(number))
        return self.known[number]

    def _holds_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month = any(_is_day(term, day) for term in self.days.split(","))
        in_week = any(_is_weekday(term, day) for term in self.weekdays.split(","))
        if self.days.startswith("*") or self.weekdays.startswith("*"):
            return in_month and in_week
        return in_month or in_week


def read(expression: str) -> Pattern:
    """Return what an expression says."""
    fields = ALIASES.get(expression, expression).split()
    seconds = fields.pop(0) if len(fields) == 6 else "0"
    minute, hour, days, months, weekdays = fields
    hours = _numbers(hour, 0, 23)
    minutes = _numbers(minute, 0, 59)
    return Pattern(
        seconds=sorted(_numbers(seconds, 0, 59)),
        times={60 * h + m for h in hours for m in minutes},
        days=days,
        months=_numbers(months, 1, 12, MONTHS),
        weekdays=weekdays,
        is_named=not any(sign in minute + hour for sign in "*/"),
    )


def _numbers(text: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            first, last = low, high
        else:
            begin, dash, end = span.partition("-")
            first = _number(begin, names)
            last = _number(end, names) if dash else (high if step else first)
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def _number(text: str, names: dict[str, int] | None) -> int:
    return names[text] if names and text in names else int(text)


def _is_day(term: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == last
    if term == "LW":
        working = [d for d in range(1, last + 1) if date(day.year, day.month, d).weekday() < 5]
        return day.day == working[-1]
    return day.day in _numbers(term, 1, 31)


def _is_weekday(term: str, day: date) -> bool:
    number = day.isoweekday() % 7
    if "#" in term:
        which, _, nth = term.partition("#")
        return number == _number(which, WEEKDAYS) % 7 and (day.day - 1) // 7 + 1 == int(nth)
    if term.endswith("L"):
        in_a_week = day + timedelta(days=7)
        return number == _number(term[:-1], WEEKDAYS) % 7 and in_a_week.month != day.month
    return number in {each % 7 for each in _numbers(term, 0, 7, WEEKDAYS)}


class Walk:
    """Every minute from one instant to another, with what the clocks of a zone show."""

    def __init__(self, zone: str, begin: int, end: int) -> None:
        info = ZoneInfo(zone)
        self.begin = begin
        self.minutes: list[tuple[int, int, int]] = []
        self.first_shown: dict[int, int] = {}
        self.jumps: list[tuple[int, int, int]] = []
        before = None
        for instant in range(begin, end, 60):
            shown = datetime.fromtimestamp(instant, info)
            assert shown.second == 0, f"{zone} has an offset of seconds at {instant}"
            day, time = shown.toordinal(), 60 * shown.hour + shown.minute
            wall = day * MINUTES + time
            self.minutes.append((instant, day, time))
            self.first_shown.setdefault(wall, instant)
            if before is not None and wall > before + 1:
                self.jumps.append((before, wall, instant))
            before = wall

    def slots(self, pattern: Pattern, begin: int, end: int) -> list[datetime]:
        """Return when a pattern fires from one instant to another, both included."""
        found = self._named(pattern) if pattern.is_named else self._passing(pattern, begin, end)
        return [
            datetime.fromtimestamp(instant, UTC)
            for instant in sorted(found)
            if begin <= instant <= end
        ]

    def _passing(self, pattern: Pattern, begin: int, end: int) -> set[int]:
        low, high = (begin - self.begin) // 60, (end - self.begin) // 60 + 1
        near = self.minutes[low:high]
        days = {day for day in {day for _, day, _ in near} if pattern.holds_on(day)}
        return {
            instant + second
            for instant, day, time in near
            if time in pattern.times and day in days
            for second in pattern.seconds
        }

    def _named(self, pattern: Pattern) -> set[int]:
        found: set[int] = set()
        # A day that the clocks leave out altogether is a day of the calendar nevertheless.
        for day in range(self.minutes[0][1] + 1, self.minutes[-1][1]):
            if not pattern.holds_on(day):
                continue
            for time in pattern.times:
                wall = day * MINUTES + time
                if wall in self.first_shown:
                    instant = self.first_shown[wall]
                    found |= {instant + second for second in pattern.seconds}
                else:
                    found |= {end for low, high, end in self.jumps if low < wall < high}
        return found


def transitions(zone: str, first_year: int, last_year: int) -> list[tuple[int, int, int]]:
    """Return when a zone changes its offset, with the seconds before and after.

    Looks once a day, and then for the second; no zone changes twice within a day, which
    `tests/unit/test_zones.py` reads from the files themselves.
    """
    info = ZoneInfo(zone)

    def offset(instant: int) -> int:
        shift = datetime.fromtimestamp(instant, info).utcoffset()
        assert shift is not None
        return int(shift.total_seconds())

    found = []
    begin = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    before = offset(begin)
    for instant in range(begin, end, 86_400):
        after = offset(instant + 86_400)
        if after == before:
            continue
        low, high = instant, instant + 86_400
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        found.append((high, before, after))
        before = after
    return found
