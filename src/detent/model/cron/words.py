"""A cron in plain English, made of the sets that it fires by."""

from collections.abc import Callable, Sequence
from datetime import time
from itertools import islice, product
from typing import Final

from detent.model.cron.expression import (
    HOURS,
    LAST,
    MINUTES,
    MONTHS,
    CronExpression,
    DayOfMonth,
    DayOfWeek,
    DayRule,
)
from detent.model.wording import DAY_NAMES, clock

MONTH_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
NAMED_TIMES: Final = 4
"""So many times of day are named one by one."""
ROW: Final = 3
"""So many values in a row are said as a range, or as every second one."""


def describe(expression: CronExpression) -> str:
    """Return when an expression matches, without the zone."""
    times, are_named = _times(expression)
    days = _days(expression)
    if not days and are_named:
        days = "every day"
    if expression.months == MONTHS:
        return f"{times} {days}" if days else times
    months = _joined(_months(expression.months))
    only_day = not expression.is_every_day and expression.day_of_week.is_every
    if only_day and expression.needs_both:
        return f"{times} {days.removesuffix(' of the month')} of {months}"
    return " ".join(word for word in (times, days, "in", months) if word)


def ordinal(number: int) -> str:
    """Return "1st", "12th", "23rd"."""
    teens = number // 10 == 1
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


# ------------------------------------------------------------ times


def _times(expression: CronExpression) -> tuple[str, bool]:
    """Return the times of day, and whether they are named one by one."""
    hours, minutes, seconds = expression.hours, expression.minutes, expression.seconds
    few = list(islice(product(hours, minutes, seconds), NAMED_TIMES + 1))
    if len(few) <= NAMED_TIMES:
        return f"at {_joined([clock(time(*each)) for each in few])}", True
    at_full_minutes, is_every_hour = seconds == (0,), hours == HOURS
    if at_full_minutes and is_every_hour and minutes == (0,):
        return "at the start of every hour", False
    phrases = [_unit("second", seconds, MINUTES), _unit("minute", minutes, MINUTES)]
    phrases.append(_unit("hour", hours, HOURS))
    if is_every_hour and minutes == MINUTES:
        phrases.pop()
        if seconds == MINUTES:
            phrases.pop()
    words = " of ".join(phrases[1:] if at_full_minutes else phrases)
    return words if words.startswith("every ") else f"at {words}", False


def _unit(unit: str, values: Sequence[int], every: Sequence[int]) -> str:
    """Return "every minute", "every 15th minute", "minute 5", "hours 9 to 17"."""
    if values == every:
        return f"every {unit}"
    if row := _stepped(unit, values, every[-1], str):
        return row
    pieces = _pieces(values, str, cycle=len(every) if unit == "hour" else 0)
    return f"{unit} {pieces[0]}" if len(values) == 1 else f"{unit}s {_joined(pieces)}"


# ------------------------------------------------------------ days


def _days(expression: CronExpression) -> str:
    if expression.is_every_day:
        return ""
    in_month, in_week = expression.day_of_month, expression.day_of_week
    if expression.needs_both and in_month.is_every:
        return f"on {_joined(_weekdays(in_week))}"
    days = f"on {_joined(_month_days(in_month))} of the month"
    if not expression.needs_both:
        return f"{days} or on {_joined(_weekdays(in_week))}"
    return days if in_week.is_every else f"{days} if it is {_joined(_weekdays(in_week), 'or')}"


def _month_days(field: DayOfMonth) -> list[str]:
    def the(day: int) -> str:
        return f"the {ordinal(day)}"

    days = sorted(field.days)
    row = _stepped("day", days, 31, the)
    return [
        *([row] if row else _pieces(days, the)),
        *(_rule(rule) for rule in sorted(field.rules, key=lambda rule: (rule[1], -rule[0], rule))),
    ]


def _rule(rule: DayRule) -> str:
    if not rule.is_from_end:
        return f"the weekday nearest to the {ordinal(rule.day)}"
    if not rule.day:
        return "the last weekday" if rule.is_weekday else "the last day"
    day = f"the {ordinal(rule.day)} day before the last"
    return f"the weekday nearest to {day}" if rule.is_weekday else day


def _weekdays(field: DayOfWeek) -> list[str]:
    # From Monday on, as a week is read.
    days = sorted((day - 1) % 7 for day in field.weekdays)
    counted = sorted(field.nth, key=lambda each: (each[1] == LAST, each[1], (each[0] - 1) % 7))
    return [
        *_pieces(days, lambda day: DAY_NAMES[day], cycle=7),
        *(
            f"the {'last' if nth == LAST else ordinal(nth)} {DAY_NAMES[day - 1]} of the month"
            for day, nth in counted
        ),
    ]


def _months(months: Sequence[int]) -> list[str]:
    return _pieces([month - 1 for month in months], lambda month: MONTH_NAMES[month], cycle=12)


# ------------------------------------------------------------ values


def _stepped(unit: str, values: Sequence[int], high: int, say: Callable[[int], str]) -> str:
    """Return "every 2nd day from the 1st" for values at equal distances; else nothing."""
    if len(values) < ROW:
        return ""
    first, step, last = values[0], values[1] - values[0], values[-1]
    if step == 1 or list(values) != list(range(first, last + 1, step)):
        return ""
    begin = f" from {say(first)}" if first or last + step <= high else ""
    end = f" to {say(last)}" if last + step <= high else ""
    return f"every {ordinal(step)} {unit}{begin}{end}"


def _pieces(values: Sequence[int], say: Callable[[int], str], cycle: int = 0) -> list[str]:
    """Return values as ranges and single ones; a range may go over the end of a cycle."""
    if cycle and len(values) == cycle:
        return [f"{say(0)} to {say(cycle - 1)}"]
    rows: list[list[int]] = []
    for value in values:
        if rows and rows[-1][-1] == value - 1:
            rows[-1].append(value)
        else:
            rows.append([value])
    if cycle and len(rows) > 1 and rows[0][0] == 0 and rows[-1][-1] == cycle - 1:
        joined = rows[-1] + rows[0]
        if len(joined) >= ROW:
            rows = [*rows[1:-1], joined]
    pieces: list[str] = []
    for row in rows:
        is_range = len(row) >= ROW
        pieces += [f"{say(row[0])} to {say(row[-1])}"] if is_range else [say(each) for each in row]
    return pieces


def _joined(words: Sequence[str], word: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    return f" {word} ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])
