"""What reads cron expressions; the only place that speaks to cronsim.

cronsim walks wall times here, never zones. Its own rule for daylight saving takes `0 1-5/2` for
fixed times, leaves fixed times with seconds unprotected, and never returns from `30 */3` in the
nights when the clocks of St. John's went back; `detent.model.zones` has the rule that Detent
promises. What cronsim does not read is written out before: `@daily` and its like, `H`, `?`, `FRIL`,
and a week that ends on `SUN`.
"""

import re
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from cronsim import CronSim, CronSimError

from detent.model.zones import SECOND

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LONGEST: Final = 250
WITHOUT_SECONDS: Final = 5
WITH_SECONDS: Final = 6
PROBE: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall time


class Field(NamedTuple):
    """One of the fields: what it may hold, and between which values `H` chooses."""

    name: str
    low: int
    high: int
    valid: str
    hashed_high: int


FIELDS: Final = (
    Field("second", 0, 59, "0-59", 59),
    Field("minute", 0, 59, "0-59", 59),
    Field("hour", 0, 23, "0-23", 23),
    # Every month has a 28th.
    Field("day-of-month", 1, 31, "1-31, L (the last day) or LW (the last weekday)", 28),
    Field("month", 1, 12, "1-12 or JAN-DEC", 12),
    Field("day-of-week", 0, 7, "0-7 or SUN-SAT, 5L (the last Friday) or MON#2 (the second)", 6),
)
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_HASHED: Final = re.compile(r"H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,2}))?")
_LAST_DAY: Final = re.compile(rf"({'|'.join(_DAYS)})L")
_TO_SUNDAY: Final = re.compile(r"(\w+)-(?:SUN|0)\b")
# cronsim says 21th.
_ORDINAL: Final = re.compile(r"\b([2-5][123])th\b")
_ENDINGS: Final = {"1": "st", "2": "nd", "3": "rd"}


@dataclass(frozen=True, slots=True, eq=False)
class CronExpression:
    """An expression that was read: it knows the next wall time that it matches."""

    text: str
    """As it was written out: six fields, or five, without names of ours."""
    simulation: CronSim
    named: bool
    """Minute and hour are values, so its times are asked for by name."""
    hashed: bool
    """It holds `H`, so a name takes part in it."""

    def next_wall(self, wall: datetime) -> datetime | None:
        """Return the first match strictly after a wall time; None when 50 years have none."""
        simulation = copy(self.simulation)
        simulation.dt = wall.replace(microsecond=0)
        try:
            return next(simulation)
        except StopIteration:
            return None

    def matches(self, wall: datetime) -> bool:
        """Return whether it matches the minute of a wall time, or its second if it has seconds."""
        start = wall.replace(microsecond=0)
        if not self.has_seconds:
            start = start.replace(second=0)
        return self.next_wall(start - SECOND) == start

    @property
    def has_seconds(self) -> bool:
        """Whether it has six fields."""
        return len(self.text.split()) == WITH_SECONDS

    @property
    def whole(self) -> timedelta:
        """What it matches altogether or not at all: days, hours, minutes or seconds."""
        *seconds, minute, hour = self.text.split()[:-3]
        if seconds not in ([], ["*"]):
            return SECOND
        if minute != "*":
            return timedelta(minutes=1)
        return timedelta(days=1) if hour == "*" else timedelta(hours=1)

    def describe(self) -> str:
        """Return it in plain English, without the zone."""
        words = self.simulation.explain().replace(" through ", " to ")
        words = _ORDINAL.sub(lambda found: found[1] + _ENDINGS[found[1][-1]], words)
        return words[0].lower() + words[1:]


@lru_cache(maxsize=4096)
def parse_cron(expression: str, name: str = "") -> CronExpression:
    """Read an expression; `H` is chosen by the name. ValueError says what would be valid."""
    if not isinstance(expression, str):
        raise TypeError(f"Cron(expression={expression!r}): must be a text")
    parts, hashed = _written_out(expression, name)
    simulation = _read(expression, parts)
    minute, hour = parts[-5:-3]
    parsed = CronExpression(
        text=" ".join(parts),
        simulation=simulation,
        named=not set("*/") & set(minute + hour),
        hashed=hashed,
    )
    if parsed.next_wall(PROBE) is None:
        raise _wrong(expression, "never happens: no date is both that day and that weekday")
    return parsed


def _written_out(expression: str, name: str) -> tuple[list[str], bool]:
    """Return the fields in the words of cronsim, and whether a name had a part in them."""
    text = expression.strip()
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise _wrong(expression, f"must be one of {', '.join(sorted(ALIASES))}")
        text = ALIASES[text.lower()]
    parts = text.upper().split()
    if len(parts) not in (WITHOUT_SECONDS, WITH_SECONDS) or len(text) > LONGEST:
        raise _wrong(
            expression,
            "must have 5 fields (minute hour day-of-month month day-of-week) "
            f"or 6 (second first), not {len(parts)}",
        )
    written = [
        _field(expression, field, part, name)
        for field, part in zip(FIELDS[-len(parts) :], parts, strict=True)
    ]
    hashed = any(_HASHED.fullmatch(term) for part in parts for term in part.split(","))
    return written, hashed


def _field(expression: str, field: Field, part: str, name: str) -> str:
    if field.name.startswith("day") and part == "?":
        return "*"
    terms = part.split(",")
    if field.name == "day-of-week":
        terms = [_weekday(term) for term in terms]
    for term in terms:
        step = term.partition("/")[2]
        if step.isdecimal() and not 1 <= int(step) <= field.high - field.low + 1:
            most = field.high - field.low + 1
            raise _wrong(expression, f"step {term!r} of {field.name} must be 1 to {most}")
    return ",".join(_choose(expression, field, term, name) for term in terms)


def _weekday(term: str) -> str:
    if last := _LAST_DAY.fullmatch(term):
        return f"{_DAYS.index(last[1])}L"
    # Sunday ends the week here: cronsim knows it as 7 too.
    return _TO_SUNDAY.sub(r"\1-7", term) if not term.startswith(("0-", "SUN-")) else term


def _choose(expression: str, field: Field, term: str, name: str) -> str:
    """Return what stands for `H`, `H/15` or `H(0-29)`: spread over names, fixed for each."""
    found = _HASHED.fullmatch(term)
    if found is None:
        return term
    low = field.low if found[1] is None else int(found[1])
    high = field.hashed_high if found[2] is None else int(found[2])
    if not field.low <= low <= high <= field.high:
        raise _wrong(expression, f"{term!r} of {field.name} must lie in {field.low}-{field.high}")
    digest = blake2b(f"{field.name} {name}".encode("utf-8", "replace"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    if found[3] is None:
        return str(low + number % (high - low + 1))
    step = int(found[3])
    if step > high - low + 1:
        raise _wrong(expression, f"step {term!r} of {field.name} must be 1 to {high - low + 1}")
    first = low + number % step
    # cronsim reads a range of one value with a step as open to the end.
    return f"{first}-{high}/{step}" if first < high else str(first)


def _read(expression: str, parts: list[str]) -> CronSim:
    try:
        return CronSim(" ".join(parts), PROBE)
    except CronSimError as error:
        bad = next((field for field in FIELDS if str(error).endswith(field.name)), None)
    if bad is None:
        raise _wrong(expression, "not readable")
    if bad.name == "day-of-month":
        anywhere = [*parts[:-2], "*", parts[-1]]
        if _is_readable(anywhere):
            raise _wrong(expression, "never happens: no month of it has such a day")
    value = parts[FIELDS.index(bad) - len(FIELDS)]
    raise _wrong(expression, f"{bad.name} {value!r} must be made of {bad.valid}, with * , - and /")


def _is_readable(parts: list[str]) -> bool:
    try:
        CronSim(" ".join(parts), PROBE)
    except CronSimError:
        return False
    return True


def _wrong(expression: str, why: str) -> ValueError:
    shown = expression if len(expression) <= LONGEST else expression[:LONGEST] + "…"
    return ValueError(f"Cron(expression={shown!r}): {why}")
