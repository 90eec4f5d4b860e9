"""Refusals of whole expressions that other systems read, but otherwise; each names the way out."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from detent.model.cron.fields import DAY_OF_MONTH, DAY_OF_WEEK, shown

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
OTHER_ALIASES: Final = {
    "@noon": "write '0 12 * * *'",
    "@reboot": "use an @app.on_start hook",
    "@every": "an interval is Interval(timedelta(...)), or a timedelta in place of the cron",
}
WITHOUT_SECONDS: Final = 5
WITH_SECONDS: Final = 6
WITH_YEARS: Final = 7
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours"}
_EVERY: Final = re.compile(r"@every\s+([0-9]{1,9})([smh])", re.IGNORECASE)
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S*)", re.IGNORECASE)
_ZONE_AT_END: Final = re.compile(r"[A-Za-z_]+/[A-Za-z_/+-]+|UTC|GMT")
_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}\b.*")
_YEARS: Final = "give start= and end= to the schedule, or use Dates"
_AWS: Final = re.compile(r"(cron|rate|at)\(.*", re.IGNORECASE)
_WEEKDAY_NUMBER: Final = re.compile(r"(?<![#/0-9])[0-9]+")
_ONE_VALUE: Final = re.compile(r"[0-9]+|H", re.IGNORECASE)


def spelled_out(text: str) -> str:
    """Return what a word such as `@daily` stands for; other texts as they are."""
    if not text.startswith("@"):
        return text
    word = text.lower()
    if word in ALIASES:
        return ALIASES[word]
    known = ", ".join(sorted(ALIASES))
    if found := _EVERY.fullmatch(text):
        way = f"use Interval(timedelta({UNITS[found[2].lower()]}={int(found[1])}))"
    elif near := get_close_matches(word, ALIASES, n=1):
        way = f"did you mean {near[0]}?"
    else:
        way = OTHER_ALIASES.get(word.partition(" ")[0], "five fields say the same")
    raise ValueError(f"{shown(text)!r} must be one of {known}; {way}")


def check_shape(parts: Sequence[str]) -> None:
    """Refuse what is not five fields or six, and fields that belong elsewhere."""
    first, last = (parts[0], parts[-1]) if parts else ("", "")
    if zone := _ZONE.fullmatch(first):
        way = f"give timezone={shown(zone[1])!r} beside the expression"
        raise ValueError(f"{shown(first)!r} is no field; {way}")
    if aws := _AWS.fullmatch(first):
        way = "write the five fields alone, without a year"
        if aws[1].lower() == "rate":
            way = "use Interval(timedelta(...))"
        raise ValueError(f"{shown(first)!r} is no field; {way}")
    if len(parts) > WITHOUT_SECONDS and _ZONE_AT_END.fullmatch(last):
        way = f"give timezone={shown(last)!r} beside the expression"
        raise ValueError(f"{shown(last)!r} is no field; {way}")
    if len(parts) == WITH_SECONDS and _YEAR.fullmatch(last):
        raise ValueError(f"year {shown(last)!r} is not read; {_YEARS}")
    if len(parts) not in (WITHOUT_SECONDS, WITH_SECONDS):
        years = f"; year {shown(last)!r} is not read: {_YEARS}" if len(parts) == WITH_YEARS else ""
        raise ValueError(
            "must have 5 fields (minute hour day-of-month month day-of-week) "
            f"or 6 (second first), not {len(parts)}{years}"
        )


def check_meaning(parts: Sequence[str]) -> None:
    """Refuse readable fields that most probably mean something else: name the weekdays."""
    *_, day, month, weekday = parts
    if day == "?" and _WEEKDAY_NUMBER.search(weekday):
        quartz, ours = _named(weekday, 1), _named(weekday, 0)
        raise DAY_OF_WEEK.wrong(
            weekday,
            f"beside ? in {DAY_OF_MONTH.name} has two meanings: write {quartz} if 1 is Sunday, "
            f"as in Quartz, or {ours} if 1 is Monday, as in cron",
        )
    if len(parts) == WITH_SECONDS and weekday.isdecimal():
        months = day == "*" and any(sign.isdecimal() for sign in month)
        if months or not _ONE_VALUE.fullmatch(parts[0]):
            name = _named(weekday, 0)
            raise DAY_OF_WEEK.wrong(weekday, f"must be a name ({name}) here; {seconds_last(parts)}")


def seconds_last(parts: Sequence[str]) -> str:
    """Return what to do with an expression whose seconds come last."""
    first = shown(" ".join([parts[-1], *parts[:-1]]))
    return f"six fields have the seconds first; if they are the last here, write {first!r}"


def _named(weekday: str, first: int) -> str:
    """Return a field with names for numbers, of which the first is Sunday's."""
    names = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
    return _WEEKDAY_NUMBER.sub(lambda found: names[(int(found[0]) - first) % 7], weekday.upper())
