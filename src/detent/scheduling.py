"""What people say about a schedule, read and checked where they say it."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from detent.config import SchedulesConfig, parse_duration
from detent.config.readers import check_label
from detent.errors import ConfigError
from detent.firings import firing_of
from detent.model.durations import Duration
from detent.model.job import NewJob, Priority
from detent.model.moments import check_moment
from detent.model.retry import Retry
from detent.model.schedule import Firing, Misfire, Overlap, Owner, Schedule
from detent.model.text import storable
from detent.model.triggers import (
    CalendarInterval,
    Cron,
    DailyWindow,
    Interval,
    Trigger,
    trigger_bytes,
    trigger_from,
)
from detent.tasks import BoundCall, Task

UTC_ZONE: Final = "UTC"
MAX_JITTER: Final = timedelta(hours=24)
MAX_THRESHOLD: Final = timedelta(days=365)
MAX_CATCH_UP: Final = 10_000
MAX_RUNS: Final = 1_000_000_000
MAX_DESCRIPTION: Final = 1_000
_CATCH_UP: Final = re.compile(r"catch_up\(\s*([0-9]{1,6})\s*\)")


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The misfire rule that fires each of the latest missed slots, up to a number of them."""

    limit: int


def catch_up(limit: int) -> CatchUp:
    """Return the misfire rule that fires each of the latest `limit` missed slots."""
    return CatchUp(limit)


class ScheduleSettings(TypedDict, total=False):
    """What can be said about a schedule besides its name, its trigger and its task."""

    group: str
    args: Sequence[Any]
    """The arguments of the task, in order,"""
    kwargs: Mapping[str, Any]
    """and by name."""
    calendars: str | Sequence[str]
    misfire: Literal["skip", "fire_once"] | CatchUp
    misfire_threshold: Duration
    overlap: Literal["allow", "skip", "queue", "replace"]
    jitter: Duration
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    description: str
    priority: Priority | int
    tags: Sequence[str]
    retry: Retry | None
    timeout: Duration | None
    queue: str
    needs: str | Sequence[str]
    params: dict[str, Any] | None


CALL_OPTIONS: Final = ("queue", "priority", "timeout", "retry", "tags", "params", "needs")
"""What a schedule says about each of its jobs, as a call would."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A schedule as code declares it; it becomes a `Schedule` when its call is prepared."""

    name: str
    trigger: Trigger
    parts: Mapping[str, Any]
    call: BoundCall[Any]

    def schedule(self, job: NewJob, config: SchedulesConfig) -> Schedule:
        """Return the schedule that fires such a job."""
        made = make_schedule(self.name, self.trigger, self.parts, firing_of(job), config)
        return replace(made, owner=Owner.CODE)


class Declarations:
    """The schedules that an app declares, by name."""

    def __init__(self) -> None:
        self._declared: dict[str, Declaration] = {}

    def add(self, declaration: Declaration) -> None:
        """Keep a declaration under its name, which must be free."""
        if declaration.name in self._declared:
            raise ConfigError(
                f"two schedules are named {declaration.name!r}; give one of them another name="
            )
        self._declared[declaration.name] = declaration

    def find(self, name: str) -> Declaration | None:
        """Return the schedule of that name, or None."""
        return self._declared.get(name)

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self._declared.values())

    def __len__(self) -> int:
        return len(self._declared)


def make_schedule(
    name: str,
    trigger: Trigger,
    parts: Mapping[str, Any],
    firing: Firing,
    config: SchedulesConfig,
) -> Schedule:
    """Return a schedule of what was read, if it makes sense as a whole."""
    unsaid = {"misfire_threshold": config.misfire_threshold}
    return checked(Schedule(name, trigger_bytes(trigger), firing, **{**unsaid, **parts}))


def checked(schedule: Schedule) -> Schedule:
    """Return a schedule whose fields make sense together, or raise `ConfigError`."""
    check_range(schedule.name, schedule.start_at, schedule.end_at)
    return schedule


def check_range(name: str, start: datetime | None, end: datetime | None) -> None:
    """Raise `ConfigError` unless the end comes after the start."""
    if start is not None and end is not None and end <= start:
        raise ConfigError(
            f"schedule {name!r}: end = {end.isoformat()}: must be after start ({start.isoformat()})"
        )


def read_trigger(name: str, value: object, timezone: str | None) -> Trigger:
    """Return the trigger that was given: as the text of a cron, as a length of time, or itself."""
    try:
        if isinstance(value, str):
            trigger: Trigger = Cron(value, UTC_ZONE if timezone is None else timezone)
        elif timezone is not None:
            raise ConfigError(
                f"schedule {name!r}: timezone = {timezone!r}: goes with the text of a cron; "
                "other triggers bring their own"
            )
        elif isinstance(value, timedelta):
            trigger = Interval(value)
        elif isinstance(value, Trigger) and not isinstance(value, type):
            trigger = value
        else:
            raise ConfigError(
                f"schedule {name!r}: trigger = {value!r}: must be a cron such as '0 9 * * MON-FRI',"
                " a timedelta, or a trigger of detent.triggers"
            )
        return trigger.for_schedule(name)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"schedule {name!r}: {error}") from error


def in_zone(name: str, data: bytes, timezone: str) -> Trigger:
    """Return a stored trigger that goes by the clocks of a zone in another one."""
    trigger = trigger_from(data)
    if not isinstance(trigger, Cron | CalendarInterval | DailyWindow):
        raise ConfigError(
            f"schedule {name!r}: timezone = {timezone!r}: goes with a time of day; "
            "give the whole trigger instead"
        )
    try:
        return replace(trigger, timezone=timezone)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"schedule {name!r}: {error}") from error


def zone_in(data: bytes) -> str:
    """Return the zone of a stored trigger; UTC if only a newer version can read it."""
    try:
        return trigger_from(data).timezone
    except (TypeError, ValueError):
        return UTC_ZONE


def read_parts(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the settings say about the schedule itself, as parts of a `Schedule`.

    What they say about its jobs (`CALL_OPTIONS`, `args` and `kwargs`) is left to others.
    """
    parts: dict[str, Any] = {}
    for option, value in settings.items():
        if option in CALL_OPTIONS or option in {"args", "kwargs"}:
            continue
        if option not in _READERS:
            raise ConfigError(f"schedule {name!r}: {option}: unknown option; {_meant(option)}")
        try:
            parts |= _READERS[option](value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"schedule {name!r}: {option} = {value!r}: {error}") from error
    return parts


def _meant(option: str) -> str:
    near = difflib.get_close_matches(option, _KNOWN, n=1)
    return f"did you mean {near[0]}?" if near else f"the options are {', '.join(_KNOWN)}"


def call_of(name: str, task: Task[..., Any], settings: Mapping[str, Any]) -> BoundCall[Any]:
    """Return the call that a schedule makes, with what its settings say about each of its jobs."""
    options = {option: settings[option] for option in CALL_OPTIONS if option in settings}
    args, kwargs = call_arguments(name, settings)
    try:
        return task.options(**options).bind(*args, **kwargs)
    except ConfigError as error:
        raise ConfigError(f"schedule {name!r}: {error}") from error


def call_arguments(
    name: str, settings: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the task, in order and by name."""
    args, kwargs = settings.get("args", ()), settings.get("kwargs") or {}
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise ConfigError(f"schedule {name!r}: args = {args!r}: must be a list or tuple")
    if not isinstance(kwargs, Mapping) or not all(isinstance(key, str) for key in kwargs):
        raise ConfigError(f"schedule {name!r}: kwargs = {kwargs!r}: must be a mapping by name")
    return tuple(args), dict(kwargs)


# One reader for each option: from what was given to parts of a `Schedule`.


def _group(value: Any) -> dict[str, Any]:
    return {"group": check_label("group", value)}


def _calendars(value: Any) -> dict[str, Any]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence):
        raise TypeError("must be the name of a calendar, or a list of names")
    return {"calendars": tuple(dict.fromkeys(check_label("calendar", name) for name in names))}


def _misfire(value: Any) -> dict[str, Any]:
    limit = 1
    if isinstance(value, CatchUp):
        value, limit = Misfire.CATCH_UP, value.limit
    elif isinstance(value, str) and (found := _CATCH_UP.fullmatch(value)):
        value, limit = Misfire.CATCH_UP, int(found[1])
    elif value == Misfire.CATCH_UP:
        raise ValueError("must say how many slots: catch_up(10)")
    if value not in tuple(Misfire):
        raise ValueError("must be 'skip', 'fire_once' or catch_up(n)")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_CATCH_UP:
        raise ValueError(f"must catch up 1 to {MAX_CATCH_UP:,} slots")
    return {"misfire": Misfire(value), "catch_up_limit": limit}


def _threshold(value: Any) -> dict[str, Any]:
    length = parse_duration(value)
    if not timedelta(0) < length <= MAX_THRESHOLD:
        raise ValueError(f"must be above 0, at most {MAX_THRESHOLD.days} days")
    return {"misfire_threshold": length}


def _overlap(value: Any) -> dict[str, Any]:
    if value not in tuple(Overlap):
        raise ValueError(f"must be one of {', '.join(Overlap)}")
    return {"overlap": Overlap(value)}


def _jitter(value: Any) -> dict[str, Any]:
    length = parse_duration(value)
    if not timedelta(0) <= length <= MAX_JITTER:
        raise ValueError("must be 0 to 24 hours")
    return {"jitter": length}


def _moment(part: str) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        if value is not None and not isinstance(value, datetime):
            raise TypeError("must be a datetime or None")
        if value is not None:
            check_moment(value)
        return {part: None if value is None else value.astimezone(UTC)}

    return read


def _max_runs(value: Any) -> dict[str, Any]:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_number and 1 <= value <= MAX_RUNS):
        raise ValueError(f"must be 1 to {MAX_RUNS:,}, or None")
    return {"max_runs": value}


def _description(value: Any) -> dict[str, Any]:
    if not isinstance(value, str) or storable(value, MAX_DESCRIPTION) != value:
        raise ValueError(f"must be a text of at most {MAX_DESCRIPTION:,} characters")
    return {"description": value}


_READERS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "group": _group,
    "calendars": _calendars,
    "misfire": _misfire,
    "misfire_threshold": _threshold,
    "overlap": _overlap,
    "jitter": _jitter,
    "start": _moment("start_at"),
    "end": _moment("end_at"),
    "max_runs": _max_runs,
    "description": _description,
}
_KNOWN: Final = ("name", "timezone", "args", "kwargs", *CALL_OPTIONS, *_READERS)
