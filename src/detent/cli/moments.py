"""Times as people write and read them: `1h`, `2026-08-01 10:00`, `3m ago`, `in 5m`."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeVar

from detent.config import parse_duration

One = TypeVar("One")
Other = TypeVar("Other")

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_NOTHING: Final = timedelta(0)
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)


def read_moment(text: str) -> datetime:
    """Return a moment: a time, or how long ago it was; a time without a zone is local."""
    valid = 'a length of time such as "1h", or a time such as "2026-08-01 10:00"'
    return read_either(text, read_time, lambda length: now() - parse_duration(length), valid)


def read_either(
    text: str, first: Callable[[str], One], second: Callable[[str], Other], valid: str
) -> One | Other:
    """Return what one of two readers makes of a text: the first, if it can."""
    try:
        return first(text)
    except ValueError:
        pass
    try:
        return second(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"must be {valid}") from error


def read_time(text: str) -> datetime:
    """Return a time; one without a zone is local."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("must be a time such as 2026-08-01T10:00+02:00") from error


def read_day(text: str) -> date:
    """Return a day."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError("must be a date such as 2026-12-25") from error


def read_clock(text: str) -> time:
    """Return a time of day."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError("must be a time of day such as 09:00")
    hour, minute, second = (int(part or 0) for part in found.groups())
    return time(hour, minute, second)


def read_hours(text: str) -> tuple[time, time]:
    """Return two times of day."""
    try:
        start, end = (read_clock(part) for part in text.split("-"))
    except ValueError as error:
        raise ValueError("must be two times such as 22:00-06:00") from error
    if start == end:
        raise ValueError("must be two different times such as 22:00-06:00")
    return start, end


def now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


def span(length: timedelta) -> str:
    """Return a length of time in its two largest units: `2h 5m`, `12s`, `350ms`."""
    seconds = abs(length).total_seconds()
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds >= 0.01 else f"{seconds * 1000:.1f}ms"
    if seconds < 10:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + "s"
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part[:-1] != "0")


def age(length: timedelta) -> str:
    """Return a length of time in its largest unit, for columns: `0s`, `3m`, `2d`."""
    seconds = int(max(length, _NOTHING).total_seconds())
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return "0s"


def ago(moment: datetime, at: datetime) -> str:
    """Return how long before or after `at` a moment is: `3m ago`, `in 5m`."""
    if moment > at:
        # Rounded up: what is not yet there is not "in 0s".
        left = timedelta(seconds=-((at - moment) // timedelta(seconds=1)))
        return f"in {age(left)}"
    return f"{age(at - moment)} ago"


def iso(moment: datetime | None) -> str | None:
    """Return a moment as programs read it."""
    if moment is None:
        return None
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def local(moment: datetime) -> str:
    """Return a moment as people here read it, to the second."""
    return moment.astimezone().isoformat(" ", "seconds")
