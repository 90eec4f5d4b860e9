"""What makes an expression of its text: sets of values, or a refusal that names the way out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from detent.model.cron.expression import (
    LAST,
    WEEKDAYS,
    CronExpression,
    DayOfMonth,
    DayOfWeek,
    DayRule,
)
from detent.model.cron.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Field,
    shown,
)
from detent.model.cron.foreign import (
    WITH_SECONDS,
    check_meaning,
    check_shape,
    seconds_last,
    spelled_out,
)

LONGEST: Final = 250
MOST_BEFORE_LAST: Final = 30
MOST_IN_MONTH: Final = 5
_NEAREST: Final = re.compile(r"([0-9]{1,2})W")
_FROM_END: Final = re.compile(r"L(?:-([0-9]{1,2}))?(W?)")
_NTH: Final = re.compile(r"(\w+)#([0-9]{1,2})")
_LAST: Final = re.compile(r"(\w+)L")
_HASHED: Final = re.compile(r"(?:^|[,+])H(?:[(/,]|$)")


@lru_cache(maxsize=4096)
def parse_cron(expression: str, name: str = "") -> CronExpression:
    """Read an expression; `H` is chosen by the name. ValueError says what would be valid."""
    if not isinstance(expression, str):
        raise TypeError(f"Cron(expression={expression!r}): must be a string")
    try:
        return _read(expression.strip(), name)
    except ValueError as error:
        text = expression if len(expression) <= LONGEST else f"{expression[:LONGEST]}…"
        raise ValueError(f"Cron(expression={text!r}): {error}") from None


def _read(text: str, name: str) -> CronExpression:
    if len(text) > LONGEST:
        raise ValueError(
            f"has {len(text)} characters, at most {LONGEST} are read; write lists as ranges (0-30)"
            " or steps (*/2)"
        )
    parts = spelled_out(text).split()
    check_shape(parts)
    expression = _sets(parts, name)
    check_meaning(parts)
    if not expression.happens:
        raise _never(expression, parts)
    return expression


def _sets(parts: Sequence[str], name: str) -> CronExpression:
    has_seconds = len(parts) == WITH_SECONDS
    second, minute, hour, day, month, weekday = parts if has_seconds else ("0", *parts)
    found = [
        tuple(sorted(_values(field, part, name)))
        for field, part in ((SECOND, second), (MINUTE, minute), (HOUR, hour), (MONTH, month))
    ]
    try:
        day_of_week = _day_of_week(weekday.removeprefix("+"), name)
    except ValueError as error:
        if has_seconds and _is_read(SECOND, weekday):
            raise ValueError(f"{error}; {seconds_last(parts)}") from None
        raise
    return CronExpression(
        seconds=found[0],
        minutes=found[1],
        hours=found[2],
        day_of_month=_day_of_month(day, name),
        months=found[3],
        day_of_week=day_of_week,
        # As cron has it: a field that begins with a star restricts nothing by itself.
        needs_both=day.startswith(("*", "?")) or weekday.startswith(("*", "?", "+")),
        has_seconds=has_seconds,
        hashed=any(_HASHED.search(part.upper()) for part in parts),
    )


def _terms(field: Field, part: str) -> Iterator[str]:
    for term in part.split(","):
        if not term:
            raise field.wrong(term, "has nothing between two commas; leave one out")
        yield term


def _values(field: Field, part: str, name: str) -> set[int]:
    return {value for term in _terms(field, part) for value in field.values(term, name)}


def _is_read(field: Field, part: str) -> bool:
    try:
        return bool(_values(field, part, ""))
    except ValueError:
        return False


def _day_of_month(part: str, name: str) -> DayOfMonth:
    days: set[int] = set()
    rules = set()
    for term in _terms(DAY_OF_MONTH, "*" if part == "?" else part):
        if nearest := _NEAREST.fullmatch(term.upper()):
            rules.add(DayRule(DAY_OF_MONTH.number(nearest[1], term), False, True))
        elif from_end := _FROM_END.fullmatch(term.upper()):
            before = int(from_end[1] or 0)
            if from_end[1] is not None and not 1 <= before <= MOST_BEFORE_LAST:
                raise DAY_OF_MONTH.wrong(term)
            rules.add(DayRule(before, True, bool(from_end[2])))
        else:
            days |= DAY_OF_MONTH.values(term, name)
    return DayOfMonth(frozenset(days), frozenset(rules))


def _day_of_week(part: str, name: str) -> DayOfWeek:
    weekdays: set[int] = set()
    nth = set()
    for term in _terms(DAY_OF_WEEK, "*" if part == "?" else part):
        if counted := _NTH.fullmatch(term.upper()):
            if not 1 <= int(counted[2]) <= MOST_IN_MONTH:
                raise DAY_OF_WEEK.wrong(term)
            nth.add((DAY_OF_WEEK.number(counted[1], term) % 7, int(counted[2])))
        elif last := _LAST.fullmatch(term.upper()):
            nth.add((DAY_OF_WEEK.number(last[1], term) % 7, LAST))
        else:
            weekdays |= DAY_OF_WEEK.values(term, name)
    return DayOfWeek(frozenset(weekdays), frozenset(nth))


def _never(expression: CronExpression, parts: Sequence[str]) -> ValueError:
    """Return the refusal of an expression that no date matches."""
    *_, day, month, weekday = parts
    any_weekday = replace(expression, day_of_week=DayOfWeek(WEEKDAYS), needs_both=True, _known={})
    if not any_weekday.happens:
        why = f"never happens in month {shown(month)!r}"
        return DAY_OF_MONTH.wrong(
            day, f"{why}: L is the last day of every month, LW its last weekday"
        )
    way = "leave the + out" if weekday.startswith("+") else "name the days instead of *"
    why = f"never happens with day-of-week {shown(weekday)!r}: no date is both"
    return DAY_OF_MONTH.wrong(day, f"{why}; {way} if either shall be enough")
