"""Lengths of time as people write them: `"250ms"`, `"5s"`, `"15m"`, `"2h"`, `"1d"`."""

import math
import re
from datetime import timedelta
from typing import Final

Duration = timedelta | float | str
"""A length of time as callers may give it: seconds as a number, a text, or a timedelta."""

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART: Final = r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)"
_TEXT: Final = re.compile(rf"(?:{_PART}\s*)+")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_EXAMPLES: Final = 'must be a duration such as "250ms", "5s", "15m", "2h" or "1d"'


def parse_duration(value: object) -> timedelta:
    """Return the length that a text, a number of seconds or a `timedelta` says.

    Parts may follow each other ("1h30m"); a bare number is seconds. Anything else raises a
    `ValueError` that says what would be valid.
    """
    if isinstance(value, timedelta):
        return value
    try:
        return _parse_text(value.strip()) if isinstance(value, str) else _seconds(value)
    except OverflowError as error:
        raise ValueError(_EXAMPLES) from error


def _parse_text(text: str) -> timedelta:
    if _NUMBER.fullmatch(text):
        return timedelta(seconds=float(text))
    if not _TEXT.fullmatch(text):
        raise ValueError(_EXAMPLES)
    parts = re.findall(_PART, text)
    return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta(0))


def _seconds(value: object) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(_EXAMPLES)
    return timedelta(seconds=value)


def read_duration(field: str, value: object, most: timedelta) -> timedelta:
    """Return a duration from 0 to `most`, or raise an error that names the field and the value."""
    try:
        length = parse_duration(value)
    except ValueError as error:
        kind = TypeError if not isinstance(value, str | float | int) else ValueError
        raise kind(f"{field} {error}, not {value!r}") from None
    if not timedelta(0) <= length <= most:
        raise ValueError(f"{field} must be 0 to {format_duration(most)}, not {value}")
    return length


def format_duration(value: timedelta) -> str:
    """Return a duration as `parse_duration` reads it, in the largest unit that is whole."""
    for name, unit in reversed(_UNITS.items()):
        if value and not value % unit:
            return f"{value // unit}{name}"
    return f"{value.total_seconds():g}s"
