"""If these fail, `describe()` says another thing than what fires.

The words are read back here into an expression of plain lists; the slow oracle, which knows nothing
of Detent's sets, must find the same times and days in it as in the expression that was described.
"""

import re
from datetime import date
from itertools import product

import pytest

from detent.model.triggers import Cron
from tools.cron_oracle import Pattern, read
from tools.cron_random import expressions

MONTHS = "January February March April May June July August September October November December"
DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"
HIGHEST = {"second": 59, "minute": 59, "hour": 23}
NAMED = re.compile(r"at (\d\d:\d\d.*?)(?= every day| on |$)")
STEPS = r"every (?:(\d+)(?:st|nd|rd|th) )?(second|minute|hour)(?: from (\d+))?(?: to (\d+))?"
LIST = r"(second|minute|hour)s? ((?:\d+|, | and | to )+)"
PHRASE = re.compile(f"(?:{STEPS}|{LIST})(?: of (?=every|second|minute|hour))?")
ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")


def expression_of(words: str) -> str:
    """Return the expression that a description stands for."""
    fields, rest = times_of(
        words.replace("at the start of every hour", "at minute 0 of every hour")
    )
    months = "*"
    if found := re.search(rf" (?:in|of) ((?:{'|'.join(MONTHS.split())})\b.*)$", rest):
        months = ",".join(names(each, MONTHS) for each in pieces(found[1]))
        rest = rest[: found.start()]
    day, weekday = days_of(rest.removesuffix(" every day").strip())
    return " ".join([*fields, day, months, weekday])


def times_of(words: str) -> tuple[list[str], str]:
    if found := NAMED.match(words):
        times = [[*map(int, each.split(":")), 0][:3] for each in pieces(found[1])]
        hours, minutes, seconds = (sorted(set(column)) for column in zip(*times, strict=True))
        assert times == [list(each) for each in product(hours, minutes, seconds)]
        return [",".join(map(str, each)) for each in (seconds, minutes, hours)], words[
            found.end() :
        ]
    fields = {"second": "0", "minute": "*", "hour": "*"}
    position = 3 if words.startswith("at ") else 0
    while found := PHRASE.match(words, position):
        step, unit, first, last, listed_unit, values = found.groups()
        if listed_unit:
            fields[listed_unit] = ",".join(each.replace(" to ", "-") for each in pieces(values))
        else:
            fields[unit] = f"{first or 0}-{last or HIGHEST[unit]}/{step or 1}"
        position = found.end()
    assert position > 3, words
    return list(fields.values()), words[position:]


def days_of(words: str) -> tuple[str, str]:
    if not words:
        return "*", "*"
    days, sign, weekdays = re.fullmatch(r"on (.*?)(?: (or on|if it is) (.*))?", words).groups()  # type: ignore[union-attr]
    if any(name in days for name in DAYS.split()):
        return "*", weekdays_of(days)
    days = days_field(days.removesuffix(" of the month"))
    if not sign:
        return days, "*"
    return days, weekdays_of(weekdays) if sign == "or on" else f"+{weekdays_of(weekdays)}"


def days_field(words: str) -> str:
    found = []
    for piece in pieces(words):
        numbers = ORDINAL.findall(piece)
        nearest = "W" if "nearest" in piece or piece == "the last weekday" else ""
        if piece.startswith("every"):
            step, first, *last = numbers
            found.append(f"{first}-{last[0] if last else 31}/{step}")
        elif "last" in piece:
            found.append(f"L{f'-{numbers[0]}' if numbers else ''}{nearest}")
        else:
            found.append("-".join(numbers) + nearest)
    return ",".join(found)


def weekdays_of(words: str) -> str:
    found = []
    for piece in pieces(words):
        text = piece.removeprefix("the ").removesuffix(" of the month")
        if " " in text and " to " not in text:
            nth, day = text.split()
            found.append(f"{day}L" if nth == "last" else f"{day}#{nth[0]}")
        else:
            found.append(names(text, DAYS))
    return ",".join(found)


def pieces(words: str) -> list[str]:
    return re.split(r", | and | or ", words.strip())


def names(words: str, known: str) -> str:
    ends = words.split(" to ")
    assert set(ends) <= set(known.split()), words
    return "-".join(ends)


def holds(pattern: Pattern) -> tuple[list[int], set[int], list[bool]]:
    """Return what a pattern fires at, and on which days: all of four years."""
    days = range(date(2025, 1, 1).toordinal(), date(2029, 1, 1).toordinal())
    return pattern.seconds, pattern.times, [pattern.holds_on(day) for day in days]


@pytest.mark.parametrize("seed", range(12))
def test_a_description_read_back_fires_at_the_same_times(seed: int) -> None:
    checked = 0
    for expression in expressions(seed, 12):
        try:
            words = Cron(expression, name="any").describe().removesuffix(", UTC")
        except ValueError as error:
            if "never happens" not in str(error):
                raise
            continue
        again = expression_of(words)
        assert holds(read(again)) == holds(read(expression, "any")), f"{expression}: {words}"
        checked += 1
    assert checked > 8
