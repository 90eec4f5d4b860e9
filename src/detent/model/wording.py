"""What says lengths of time, times of day and weekdays in the words people use for them."""

from datetime import time, timedelta
from typing import Final

WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS: Final = (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def span(value: timedelta) -> str:
    """Return a length of time in words: "15 minutes", "1 hour 30 minutes"."""
    rest = value // timedelta(microseconds=1)
    days, rest = divmod(rest, 86_400_000_000)
    words = [_count(days, "day")] if days else []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if unit == "second" and rest:
            words.append(f"{count + rest / size:g} seconds")
        elif count:
            words.append(_count(count, unit))
    return " ".join(words) or "0 seconds"


def every(value: timedelta) -> str:
    """Return "every hour", "every 15 minutes"."""
    words = span(value)
    return f"every {words.removeprefix('1 ') if words.count(' ') == 1 else words}"


def clock(value: time) -> str:
    """Return a time of day as people write it, with seconds only when there are some."""
    return value.isoformat("auto" if value.second else "minutes")


def day_names(days: tuple[str, ...]) -> str:
    """Return "Monday to Friday", "Saturday and Sunday", "every day"."""
    if len(days) == len(WEEKDAYS):
        return "every day"
    numbers = [WEEKDAYS.index(day) for day in days]
    if len(days) > 2 and numbers[-1] - numbers[0] == len(days) - 1:
        return f"{DAY_NAMES[numbers[0]]} to {DAY_NAMES[numbers[-1]]}"
    return listed([DAY_NAMES[number] for number in numbers])


def listed(words: list[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
