"""Random cron expressions in random nights: what nobody thought of writing down.

Each expression is read by Detent and by the oracle (`cron_oracle.py`), and compared in each of 25
zones around a change of its clocks, in half of the cases a gap and in half a fold, and over the
years from a random day on. An expression that Detent refuses because it never happens must not
happen for the oracle either.
"""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from detent.model.triggers import Cron
from tools.cron_oracle import Pattern, Walk, read, transitions
from tools.cron_tally import AROUND, HOUR, Tally, compare, drop_in, utc

#: Half hours, whole days, days without a midnight, one minute past it, two hours, two a Ramadan.
ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/Los_Angeles",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Fakaofo",
)
SLOTS = 6
"""About so many slots are compared on both sides of a change, from one to 36 hours away."""
YEARS = 29
CYCLE = 12_000
"""A day that does not come within so many days from 2000 on does not come for the oracle."""

WEEKDAYS = ("SUN", "mon", "Tue", "WEDNESDAY", "thu", "Friday", "SAT")
MONTHS = (
    "JAN",
    "feb",
    "March",
    "APR",
    "may",
    "JUN",
    "july",
    "Aug",
    "SEP",
    "oct",
    "NOV",
    "December",
)


def expressions(seed: int, count: int) -> list[str]:
    """Return random expressions that can be read, but may never happen."""
    chance = random.Random(seed)
    return [_expression(chance) for _ in range(count)]


def _expression(chance: random.Random) -> str:
    minute = _field(chance, 0, 59, stars=0.15)
    # The hours at which clocks are set.
    hour = _field(chance, 0, 23, stars=0.25, wraps=True, near=(0, 1, 2, 3, 23))
    day = _day(chance)
    month = _field(chance, 1, 12, stars=0.8, wraps=True, names=MONTHS)
    weekday = _weekday(chance)
    if day == "?" and any(sign.isdigit() for sign in weekday):
        day = "*"  # Quartz's numbers are refused.
    fields = [minute, hour, day, month, weekday]
    if chance.random() < 0.1:
        second = _field(chance, 0, 59, stars=0.1)
        # What could be croniter's six fields is refused.
        fields = [second, *fields[:4], chance.choice(("*", "MON-FRI", "SUN"))]
    return " ".join(fields)


def _field(
    chance: random.Random,
    low: int,
    high: int,
    *,
    stars: float,
    wraps: bool = False,
    near: Sequence[int] = (),
    names: Sequence[str] = (),
) -> str:
    if chance.random() < stars:
        return "*"

    def value(number: int) -> str:
        return names[number - low] if names and chance.random() < 0.5 else str(number)

    def some() -> int:
        return chance.choice(near) if near and chance.random() < 0.6 else chance.randint(low, high)

    def term() -> str:
        first, last = some(), some()
        low_one, high_one = sorted((first, last))
        if not wraps:
            first, last = low_one, high_one
        step = chance.choice((1, 2, 3, 5, 7, (high - low + 1) // 2, high - low + 1))
        kinds = {
            value(first): 50,
            f"{value(first)}-{value(last)}": 15,
            f"{value(first)}-{value(last)}/{step}": 10,
            f"*/{step}": 10,
            f"{value(first)}/{step}": 7,
            "H": 4,
            f"H({low_one}-{high_one})/{chance.randint(1, high_one - low_one + 1)}": 4,
        }
        return chance.choices(list(kinds), list(kinds.values()))[0]

    return ",".join(term() for _ in range(chance.choice((1, 1, 1, 1, 2, 3))))


def _day(chance: random.Random) -> str:
    def special() -> str:
        number = chance.randint(1, 31)
        return chance.choice(
            ("L", "LW", f"{number}W", f"L-{number % 30 + 1}", f"L-{number % 30 + 1}W")
        )

    kind = chance.random()
    if kind < 0.45:
        return "*" if kind < 0.4 else "?"
    if kind < 0.6:
        return ",".join(special() for _ in range(chance.choice((1, 1, 2))))
    numbers = _field(chance, 1, 31, stars=0)
    return f"{numbers},{special()}" if kind < 0.65 else numbers


def _weekday(chance: random.Random) -> str:
    def special() -> str:
        day = chance.choice((*WEEKDAYS, "0", "5", "7"))
        return f"{day}L" if chance.random() < 0.4 else f"{day}#{chance.randint(1, 5)}"

    kind = chance.random()
    if kind < 0.45:
        return "*" if kind < 0.4 else "?"
    if kind < 0.55:
        found = special()
    elif kind < 0.75:
        found = f"{chance.choice(WEEKDAYS)}-{chance.choice(WEEKDAYS)}"
    else:
        found = _field(chance, 0, 7, stars=0, wraps=True, names=(*WEEKDAYS, "SUN"))
    found += f",{special()}" if chance.random() < 0.1 else ""
    return f"+{found}" if chance.random() < 0.2 else found


# ------------------------------------------------------------ comparing


def prove_random(zone: str, seed: int, count: int) -> Tally:
    """Compare random expressions around some changes of one zone."""
    chance = random.Random(f"{zone} {seed}")
    walks = _nights(zone, chance)
    tally = Tally(zones=1, changes=len(walks))
    for expression in expressions(seed, count):
        name = f"schedule-{chance.randint(0, 99)}"
        pattern = read(expression, name)
        try:
            trigger = Cron(expression, zone, name)
        except ValueError as error:
            if "H" in expression:  # The others are judged once, by `prove_years`.
                _refused(tally, pattern, str(error))
            continue
        instant, walk = chance.choice(walks)
        hourly = len(pattern.times) * len(pattern.seconds) / 24
        hours = min(max(int(SLOTS / hourly), 1), 36)
        core = instant - hours * HOUR, instant, instant + hours * HOUR
        expected = walk.slots(pattern, core[0], core[2])
        place = f"{zone} at {utc(instant)}: {expression} ({name})"
        compare(tally, place, trigger, expected, (core[0], core[2]))
        drop_in(tally, place, trigger, expected, core, chance, others=1)
    return tally


def _nights(zone: str, chance: random.Random) -> list[tuple[int, Walk]]:
    """Return two gaps and two folds of a zone, as far as it has them."""
    changes = transitions(zone, 2000, 2037)
    gaps = [instant for instant, before, after in changes if after > before]
    folds = [instant for instant, before, after in changes if after < before]
    nights = [chance.choice(each) for each in (gaps, folds) if each for _ in range(2)]
    return [(night, Walk(zone, night - AROUND, night + AROUND)) for night in nights]


def prove_years(seed: int, count: int) -> Tally:
    """Compare the days that come in the years after a random one, without clocks that change."""
    tally = Tally()
    chance = random.Random(seed)
    for expression in expressions(seed, count):
        pattern = read(expression)
        try:
            trigger = Cron(expression)
        except ValueError as error:
            _refused(tally, pattern, str(error))
            continue
        start = datetime(1999, 12, 31, tzinfo=UTC) + timedelta(days=chance.randint(0, 365 * YEARS))
        for _ in range(3):
            wanted = _next(pattern, start)
            found = trigger.next_after(start)
            tally.comparisons += 1
            tally.slots += 1
            if found != wanted:
                tally.astray += 1
                tally.differences.append(f"{expression}: after {start} comes {found}, not {wanted}")
                break
            start = wanted.replace(hour=23, minute=59, second=59)
    return tally


def _next(pattern: Pattern, after: datetime) -> datetime:
    """Return the first slot after a moment: day by day, minute by minute."""
    day = after.toordinal()
    while True:
        if pattern.holds_on(day):
            midnight = datetime.fromordinal(day).replace(tzinfo=UTC)
            for minute in sorted(pattern.times):
                for second in pattern.seconds:
                    slot = midnight + timedelta(minutes=minute, seconds=second)
                    if slot > after:
                        return slot
        day += 1


def _refused(tally: Tally, pattern: Pattern, why: str) -> None:
    """Count a refusal, which is right only if the expression never happens."""
    tally.comparisons += 1
    tally.refused += 1
    first = datetime(2000, 1, 1, tzinfo=UTC).toordinal()
    if "never happens" not in why or any(map(pattern.holds_on, range(first, first + CYCLE))):
        tally.astray += 1
        tally.differences.append(f"refused, although it happens: {why}")
