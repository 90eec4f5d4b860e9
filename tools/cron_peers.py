"""What croniter and cronsim say, for expressions that all three should read alike.

Both are asked for wall times in UTC: their rules for daylight saving are their own. What they read
otherwise than Detent on purpose is left out: a range of one value with a step (cronsim), stars with
a step beside a day (croniter).
"""

import random
from datetime import UTC, datetime, timedelta

from croniter import croniter
from cronsim import CronSim

from detent.model.triggers import Cron
from tools.cron_tally import Tally

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
SLOTS = 5


def prove_peers(seed: int, count: int) -> Tally:
    """Compare the next slots of random expressions with those of the two libraries."""
    tally = Tally()
    chance = random.Random(f"peers {seed}")
    for _ in range(count):
        fields = _fields(chance)
        expression = " ".join(fields)
        start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=chance.randint(0, 15_000_000))
        try:
            found = ours(expression, start)
        except ValueError as error:
            tally.refused += 1
            if "never happens" not in str(error):
                tally.astray += 1
                tally.differences.append(str(error))
            continue
        tally.comparisons += 2
        tally.slots += 2 * len(found)
        # Seconds are the last field there.
        last = " ".join([*fields[1:], fields[0]]) if len(fields) == 6 else expression
        for peer, wanted in (
            ("cronsim", cronsims(expression, start)),
            ("croniter", croniters(last, start)),
        ):
            if wanted != found:
                tally.astray += 1
                tally.differences.append(
                    f"{expression} after {start}: {peer} {wanted}, not {found}"
                )
    return tally


def ours(expression: str, start: datetime) -> list[datetime]:
    """Return the next slots of Detent."""
    trigger = Cron(expression)
    found: list[datetime] = []
    for _ in range(SLOTS):
        slot = trigger.next_after(found[-1] if found else start)
        assert slot is not None
        found.append(slot)
    return found


def cronsims(expression: str, start: datetime) -> list[datetime]:
    """Return the next slots of cronsim."""
    walk = CronSim(expression, start.replace(tzinfo=None))
    return [next(walk).replace(tzinfo=UTC) for _ in range(SLOTS)]


def croniters(expression: str, start: datetime) -> list[datetime]:
    """Return the next slots of croniter."""
    walk = croniter(expression, start, max_years_between_matches=60)
    return [walk.get_next(datetime) for _ in range(SLOTS)]


def _fields(chance: random.Random) -> list[str]:
    day, weekday = "*", "*"
    kind = chance.random()
    if kind < 0.3:
        day = "L" if kind < 0.05 else _field(chance, 1, 31)
    elif kind < 0.6:
        nth = f"{chance.choice(WEEKDAYS)}#{chance.randint(1, 4)}"
        weekday = nth if kind < 0.35 else _field(chance, 0, 6, WEEKDAYS)
    elif kind < 0.7:
        day, weekday = _field(chance, 1, 28, stars=False), _field(chance, 0, 6, stars=False)
    month = "*" if chance.random() < 0.7 else _field(chance, 1, 12, MONTHS)
    fields = [_field(chance, 0, 59), _field(chance, 0, 23), day, month, weekday]
    if chance.random() < 0.1 and weekday == "*":
        fields.insert(0, _field(chance, 0, 59))
    return fields


def _field(
    chance: random.Random, low: int, high: int, names: tuple[str, ...] = (), *, stars: bool = True
) -> str:
    def value(number: int) -> str:
        return names[number - low] if names and chance.random() < 0.5 else str(number)

    def term() -> str:
        first, last = sorted(chance.sample(range(low, high + 1), 2))
        kind, step = chance.random(), chance.randint(2, max(2, (high - low) // 2))
        if kind < 0.5:
            return value(first)
        if kind < 0.7:
            return f"{value(first)}-{value(last)}"
        if kind < 0.85 or not stars:
            return f"{first}-{last}/{step}"
        return f"*/{step}"

    if stars and chance.random() < 0.2:
        return "*"
    terms = [term() for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    # One star makes a star of the whole field.
    return next((each for each in terms if each.startswith("*")), ",".join(terms))
