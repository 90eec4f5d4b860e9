"""What a value that is not read here means in other systems, and how it is written here."""

import re
from typing import Final, NamedTuple


class _Hint(NamedTuple):
    fields: str
    """The fields for which it holds, or "" for all."""
    pattern: re.Pattern[str]
    advice: str


def _hint(fields: str, pattern: str, advice: str) -> _Hint:
    return _Hint(fields, re.compile(pattern), advice)


_ONE_DAY: Final = r"\1 is one day and takes no step"
_DAYS_ONLY: Final = "? is for day fields; if the last field is a year, leave it out"
_HINTS: Final = (
    _hint("day-of-month", r"(L)/([0-9]+)", _ONE_DAY + r"; L-\2 counts from the last day"),
    _hint("day-of-month day-of-week", r"(.*[LW])/.*", _ONE_DAY),
    _hint("day-of-month", r"(\w+)-L\b.*", r"a range to the end is \1-31"),
    _hint("day-of-month", r"-[0-9]+", "days before the last are L-1, L-2, ..."),
    _hint("day-of-month", r"L-.*", "before the last day are L-1 to L-30, their weekdays L-1W"),
    _hint("day-of-month", r"[0-9]*W", "the nearest weekdays are 1W to 31W, such as 15W"),
    _hint("day-of-week", r"L", "write SAT, or FRIL for the last Friday of the month"),
    _hint("day-of-week", r"L\w+|.*#(L|-.*)", "the last Friday of the month is FRIL"),
    _hint("day-of-week", r".+-.+#.*", "name each day, as in MON#1,TUE#1"),
    _hint("day-of-week", r".*#.*", "the number after # must be 1 to 5"),
    _hint("day-of-week", r".*%.*", 'every other week is CalendarInterval(2, "weeks")'),
    _hint("day-of-week", r".*[&+].*", "write +FRI if both day fields must match"),
    _hint("", r"[&+].*", "only a day-of-week may begin with a sign: +FRI"),
    _hint("", r"([0-9]+)~([0-9]+)", r"a value that a schedule keeps is H(\1-\2)"),
    _hint("", r".*~.*|R(\(.*\))?(/.*)?", "a value that a schedule keeps is H, or H(0-30)"),
    _hint("hour", r"24", "midnight is 0"),
    _hint("second minute hour month", r".*\?.*", _DAYS_ONLY),
)


def advice(field: str, term: str) -> str:
    """Return how to say a term that is not read, in upper case; nothing when it is unknown."""
    for hint in _HINTS:
        found = hint.pattern.fullmatch(term)
        if found and (not hint.fields or field in hint.fields.split()):
            return found.expand(hint.advice)
    return ""
