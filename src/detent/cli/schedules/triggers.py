"""The options that say when a schedule fires: `--cron`, `--every`, `--at` and their company."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple, TypeVar

import click

from detent.cli.command import NotUnderstood, reading
from detent.cli.moments import read_clock, read_day, read_either, read_hours
from detent.config import format_duration, parse_duration
from detent.model.triggers import CalendarInterval, DailyWindow, Dates, Interval, Once, Trigger
from detent.model.triggers.calendar_interval import MOST, START, Unit
from detent.model.wording import WEEKDAYS

Command = TypeVar("Command", bound=Callable[..., Any])

UTC_ZONE: Final = "UTC"
DAY: Final = timedelta(days=1)
_COUNT: Final = re.compile(r"(?:(\d{1,6})\s*)?(day|week|month|year)s?", re.IGNORECASE)


class Count(NamedTuple):
    """So many days, weeks, months or years: by the calendar, not by real time."""

    number: int
    unit: Unit


def _read_every(text: str) -> timedelta | Count:
    if found := _COUNT.fullmatch(text.strip()):
        number, unit = int(found[1] or 1), Unit(f"{found[2].lower()}s")
        if not 1 <= number <= MOST[unit]:
            raise ValueError(f"must be 1 to {MOST[unit]:,} {unit}")
        return Count(number, unit)
    try:
        return parse_duration(text)
    except ValueError as error:
        valid = 'a length of time such as "5m", or by the calendar "1 day", "2 weeks", "1 month"'
        raise ValueError(f"must be {valid}") from error


def _read_at(text: str) -> time | datetime:
    valid = "a time such as 2026-08-01T10:00+02:00, or with --every one such as 09:00"
    return read_either(text, read_clock, _read_datetime, valid)


def _read_first(text: str) -> date:
    valid = "a day such as 2026-01-31, or a time of it"
    return read_either(text, read_day, _read_datetime, valid)


def _read_datetime(text: str) -> datetime:
    return datetime.fromisoformat(text.strip())


def _read_weekdays(text: str) -> Sequence[str]:
    """Return a day of the week, or those from one to another."""
    names = text.strip().upper().split("-")
    if len(names) > 2 or not set(names) <= set(WEEKDAYS):
        raise ValueError(f"must be one of {', '.join(WEEKDAYS)}, or as in MON-FRI")
    first, last = WEEKDAYS.index(names[0]), WEEKDAYS.index(names[-1])
    return [WEEKDAYS[number % 7] for number in range(first, last + (1 if first <= last else 8))]


def trigger_options(command: Command) -> Command:
    """Give a command the options that describe a trigger."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: Final = (
    click.option("--cron", metavar="TEXT", help="When: five or six fields, or @daily."),
    click.option(
        "--every",
        metavar="LENGTH",
        callback=reading(_read_every),
        help='When: every so long (5m), or by the calendar ("2 weeks", "1 month").',
    ),
    click.option(
        "--at",
        metavar="TIME",
        multiple=True,
        callback=reading(_read_at),
        help="When: at this time; may be repeated. With --every: the time of day (09:00).",
    ),
    click.option(
        "--from",
        "first",
        metavar="DATE",
        callback=reading(_read_first),
        help="With --every: the day to count from.",
    ),
    click.option(
        "--between",
        metavar="09:00-17:00",
        callback=reading(read_hours),
        help="With --every: only in this part of the day.",
    ),
    click.option(
        "--weekday",
        "weekdays",
        metavar="MON-FRI",
        multiple=True,
        callback=reading(_read_weekdays),
        help="With --between: only on these days; may be repeated.",
    ),
    click.option(
        "--timezone",
        metavar="ZONE",
        help="Of all these times.  [default: as it was, else UTC]",
    ),
)
_NAMES: Final = {
    "cron": "--cron",
    "every": "--every",
    "at": "--at",
    "first": "--from",
    "between": "--between",
    "weekdays": "--weekday",
}


class _Said(NamedTuple):
    """What was said about the trigger, and nothing else."""

    cron: str | None
    every: timedelta | Count | None
    at: Sequence[time | datetime]
    first: date | None
    between: tuple[time, time] | None
    weekdays: Sequence[Sequence[str]]


def take_trigger(options: dict[str, Any]) -> str | timedelta | Trigger | None:
    """Take the trigger out of the options, if they describe one, and its zone if it has its own."""
    said = _Said(**{name: options.pop(name) for name in _NAMES})
    given = [_NAMES[name] for name, value in said._asdict().items() if value not in (None, ())]
    if not given:
        return None
    if said.cron is not None:
        if len(given) > 1:
            raise NotUnderstood(f"{' and '.join(given)}: --cron says all of it; give one of them")
        return said.cron
    zone = options["timezone"]
    given += [] if zone is None else ["--timezone"]
    if isinstance(said.every, timedelta) and given == ["--every"]:
        return said.every
    options["timezone"] = None
    try:
        return _moments(said, zone) if said.every is None else _repeated(said, said.every, zone)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotUnderstood(f"{' and '.join(given)}: {error}") from error


def _moments(said: _Said, zone: str | None) -> Trigger:
    """Return a trigger that fires at certain times."""
    if said.first or said.between or said.weekdays:
        raise ValueError("say --every too")
    moments = [_moment(each, zone) for each in said.at if isinstance(each, datetime)]
    if len(moments) < len(said.at):
        raise ValueError("a time of day goes with --every day; else say the day too")
    place = zone or UTC_ZONE
    return Once(moments[0], place) if len(moments) == 1 else Dates(moments, timezone=place)


def _repeated(said: _Said, every: timedelta | Count, zone: str | None) -> Trigger:
    """Return a trigger that fires again and again, by real time or by the calendar."""
    if said.between is not None:
        return _window(said, every, said.between, zone)
    if said.weekdays:
        raise ValueError("--weekday goes with --between; a week is counted from the day of --from")
    if not said.at and isinstance(every, timedelta) and said.first is not None:
        return _interval(every, said.first, zone)
    if not said.at and isinstance(every, timedelta):
        length = format_duration(every)
        raise ValueError(f"every {length} is real time, the same in all zones")
    at = said.at[0] if said.at else time()
    if len(said.at) > 1 or isinstance(at, datetime):
        raise ValueError("with --every, --at is one time of day such as 09:00")
    has_time = isinstance(said.first, datetime)
    if has_time:
        raise ValueError("--from must be a day such as 2026-01-31; the time of day is --at")
    number, unit = _counted(every)
    return CalendarInterval(number, unit, at, said.first or START, zone or UTC_ZONE)


def _window(
    said: _Said, every: timedelta | Count, between: tuple[time, time], zone: str | None
) -> Trigger:
    if said.at or said.first:
        raise ValueError("--between begins anew each day, without --at and --from")
    if not isinstance(every, timedelta) or not timedelta(seconds=1) <= every <= DAY:
        raise ValueError("--every must be 1s to 1d, such as 15m, with --between")
    days = [day for each in said.weekdays for day in each] or WEEKDAYS
    return DailyWindow(every, *between, days, zone or UTC_ZONE)


def _interval(every: timedelta, first: date, zone: str | None) -> Trigger:
    anchor = first if isinstance(first, datetime) else datetime.combine(first, time())
    return Interval(every, _moment(anchor, zone), zone or UTC_ZONE)


def _counted(every: timedelta | Count) -> Count:
    if isinstance(every, Count):
        return every
    days, rest = divmod(every, DAY)
    if rest or not days:
        length = format_duration(every)
        raise ValueError(
            f"{length} has no time of day; with --at say days, weeks, months or years, as in "
            '"1 day"'
        )
    return Count(days, Unit.DAYS)


def _moment(moment: datetime, zone: str | None) -> datetime:
    """Return a time that, without a zone, is one of the zone that was said, or else of here."""
    return moment if zone is not None else moment.astimezone(UTC)
