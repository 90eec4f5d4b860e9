"""A slow second opinion on cron: it looks at every minute that the clocks of a zone show.

It knows nothing of Detent and nothing of how Detent computes; it shares no line with it. The rule
is applied as it is written:

- An expression with neither every minute nor every hour names local times. Each that the clocks
  show at all counts at the first minute that shows it. Each that they leave out counts when the
  clocks have jumped over it.
- Any other expression counts at every minute that shows a time it matches.
- A day counts when a term of either day field says so. When one of the two fields begins with a
  star or is a question mark, or the day of the week begins with a plus, both must say so.
"""

import calendar
import functools
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0"}
MONTHS = [name.lower() for name in calendar.month_name]
WEEKDAYS = [calendar.day_name[(number + 6) % 7].lower() for number in range(7)]
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
    name: str = ""
    known: dict[int, bool] = field(default_factory=dict)

    def holds_on(self, number: int) -> bool:
        """Return whether it holds on the day of that number, whatever the time."""
        if number not in self.known:
            self.known[number] = self._holds_on(date.fromordinal(number))
        return self.known[number]

    def _holds_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        both = self.days[0] in "*?" or self.weekdays[0] in "*?+"
        in_month = any(_is_day(term, day, self.name) for term in self.days.split(","))
        if both and not in_month:
            return False
        weekdays = self.weekdays.lstrip("+").split(",")
        in_week = any(_is_weekday(term, day, self.name) for term in weekdays)
        return in_week if both else in_month or in_week


def read(expression: str, name: str = "") -> Pattern:
    """Return what an expression says; a name decides what `h` stands for."""
    fields = ALIASES.get(expression, expression).lower().split()
    second = fields.pop(0) if len(fields) == 6 else "0"
    minute, hour, days, months, weekdays = fields
    hours = _numbers(hour, "hour", name)
    minutes = _numbers(minute, "minute", name)
    return Pattern(
        seconds=sorted(_numbers(second, "second", name)),
        times={60 * h + m for h in hours for m in minutes},
        days=days,
        months=_numbers(months, "month", name),
        weekdays=weekdays,
        is_named=len(hours) < 24 and len(minutes) < 60,
        name=name,
    )


#: From, to, up to where `h` goes.
LIMITS = {
    "second": (0, 59, 59),
    "minute": (0, 59, 59),
    "hour": (0, 23, 23),
    "day-of-month": (1, 31, 28),
    "month": (1, 12, 12),
    "day-of-week": (0, 7, 6),
}


def _numbers(text: str, kind: str, name: str) -> set[int]:
    found: set[int] = set()
    for term in text.split(","):
        found |= set(_term(term, kind, name))
    return found


@functools.cache
def _term(term: str, kind: str, name: str) -> list[int]:
    low, high, hashed = LIMITS[kind]
    span, _, step = term.partition("/")
    if span.startswith("h"):
        inside = span[2:-1] or f"{low}-{hashed}"
        choice = _between(inside, kind)
        digest = hashlib.blake2b(f"{kind} {name}".encode(), digest_size=8).hexdigest()
        chance = int(digest, 16)
        if not step:
            return [choice[chance % len(choice)]]
        return [each for at, each in enumerate(choice) if at % int(step) == chance % int(step)]
    if span in "*?":
        span = f"{low}-{high}"
    elif step and "-" not in span:
        span += f"-{high}"
    return [each for at, each in enumerate(_between(span, kind)) if at % int(step or 1) == 0]


def _between(span: str, kind: str) -> list[int]:
    """Walk from one value to the other, one by one, from the end of the clock to its beginning."""
    begin, _, end = span.partition("-")
    first, last = _number(begin, kind), _number(end or begin, kind)
    if kind == "day-of-week" and last == 0 and first > 0:
        last = 7
    found = [first]
    while found[-1] != last:
        # Sunday ends the week as 7, and Monday comes after it.
        start = 1 if kind == "day-of-week" else LIMITS[kind][0]
        found.append(found[-1] + 1 if found[-1] < LIMITS[kind][1] else start)
    return found


def _number(text: str, kind: str) -> int:
    for number, known in enumerate({"month": MONTHS, "day-of-week": WEEKDAYS}.get(kind, [])):
        if known and text in (known, known[:3]):
            return number
    return int(text)


def _is_day(term: str, day: date, name: str) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    body = term.removesuffix("w")
    if not body.startswith("l") and body == term:
        return day.day in _term(term, "day-of-month", name)
    wanted = last - int(body[2:] or 0) if body.startswith("l") else int(body)
    if not 1 <= wanted <= last:
        return False
    if body == term:
        return day.day == wanted
    working = [d for d in range(1, last + 1) if date(day.year, day.month, d).weekday() < 5]
    return day.day == min(working, key=lambda each: abs(each - wanted))


def _is_weekday(term: str, day: date, name: str) -> bool:
    number = day.isoweekday() % 7
    if "#" in term:
        which, _, nth = term.partition("#")
        return number == _number(which, "day-of-week") % 7 and (day.day - 1) // 7 + 1 == int(nth)
    if term.endswith("l"):
        in_a_week = day + timedelta(days=7)
        return number == _number(term[:-1], "day-of-week") % 7 and in_a_week.month != day.month
    return number in {each % 7 for each in _term(term, "day-of-week", name)}


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
