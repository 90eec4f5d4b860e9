"""How the fields of triggers and calendars are checked, and read back from stored data."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from detent.model.wording import DAY_NAMES, WEEKDAYS, span
from detent.model.zones import instant_of

Moment = TypeVar("Moment", time, date, datetime)
Kind = TypeVar("Kind")

VERSION: Final = 1
"""Of stored triggers and calendars; a change of what a field means raises it."""

LONGEST: Final = timedelta(days=36_525)
"""A hundred years: what is rarer than that is a mistake."""


class Where(NamedTuple):
    """Which field of what is being checked, for the messages."""

    owner: str
    field: str

    def wrong(self, value: object, valid: str) -> ValueError:
        """Return the error that names the field, its value and what would be valid."""
        return ValueError(f"{self.owner}({self.field}={value!r}): must be {valid}")

    def wrong_type(self, value: object, valid: str) -> TypeError:
        """Return the error for a value of the wrong type."""
        return TypeError(f"{self.owner}({self.field}={value!r}): must be {valid}")


def check_time(where: Where, value: object) -> time:
    """Return a local time of day, in whole seconds."""
    if not isinstance(value, time):
        raise where.wrong_type(value, "a time like time(9, 30)")
    if value.tzinfo is not None:
        raise where.wrong(value, "a time without a zone; the zone is timezone=")
    if value.microsecond:
        raise where.wrong(value, "a time in whole seconds")
    return value.replace(fold=0)


def check_date(where: Where, value: object) -> date:
    """Return a day, which a moment is not."""
    if isinstance(value, datetime) or not isinstance(value, date):
        raise where.wrong_type(value, "a date like date(2026, 12, 24)")
    return value


def check_whole(where: Where, value: object, most: int) -> int:
    """Return a number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise where.wrong_type(value, "an int")
    if not 1 <= value <= most:
        raise where.wrong(value, f"1 to {most}")
    return value


def check_step(where: Where, value: object, most: timedelta = LONGEST) -> timedelta:
    """Return a step of at least a second."""
    if not isinstance(value, timedelta):
        raise where.wrong_type(value, "a timedelta")
    if not timedelta(seconds=1) <= value <= most:
        raise where.wrong(value, f"1 second to {span(most)}")
    return value


def check_weekdays(where: Where, value: object) -> tuple[str, ...]:
    """Return days of the week in their order, from names like "MON" or "Monday"."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise where.wrong_type(value, "names of weekdays like ('MON', 'FRI')")
    found = set()
    for name in value:
        short = name[:3].upper() if isinstance(name, str) else ""
        if short not in WEEKDAYS or name.upper() not in (
            short,
            DAY_NAMES[WEEKDAYS.index(short)].upper(),
        ):
            raise where.wrong(name, f"one of {', '.join(WEEKDAYS)}")
        found.add(short)
    if not found:
        raise where.wrong(value, "at least one weekday")
    return tuple(day for day in WEEKDAYS if day in found)


def check_base(owner: str, value: object) -> None:
    """Refuse what is no name of a calendar."""
    if value is not None and not (isinstance(value, str) and value):
        raise Where(owner, "base").wrong(value, "the name of a calendar or None")


def to_instant(moment: date | datetime, at: time, zone: ZoneInfo) -> datetime:
    """Return the instant of a day at a time, of a local time, or of a moment that has its zone."""
    if not isinstance(moment, datetime):
        return instant_of(datetime.combine(moment, at), zone)
    if moment.tzinfo is None:
        return instant_of(moment.replace(fold=0), zone)
    return moment.astimezone(UTC)


class Fields:
    """The fields of stored data, taken one by one; what is left at the end was not expected."""

    def __init__(self, owner: str, data: Mapping[str, object]) -> None:
        self._owner = owner
        self._data = dict(data)

    def text(self, field: str, default: str | None = None) -> str:
        """Take a text."""
        value = self._data.pop(field, default)
        if not isinstance(value, str):
            raise self._wrong(field, value, "a text")
        return value

    def number(self, field: str) -> int:
        """Take a whole number."""
        value = self._data.pop(field, None)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(field, value, "a whole number")
        return value

    def flag(self, field: str) -> bool:
        """Take true or false; false when it is not there."""
        value = self._data.pop(field, False)
        if not isinstance(value, bool):
            raise self._wrong(field, value, "true or false")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """Take a list of texts."""
        value = self._data.pop(field, None)
        if not isinstance(value, list | tuple):
            raise self._wrong(field, value, "a list of texts")
        for each in value:
            if not isinstance(each, str):
                raise self._wrong(field, each, "a text")
        return tuple(value)

    def time(self, field: str) -> time:
        """Take a time of day in ISO form."""
        return parse(Where(self._owner, field), self.text(field), time)

    def date(self, field: str) -> date:
        """Take a day in ISO form."""
        return parse(Where(self._owner, field), self.text(field), date)

    def seconds(self, field: str) -> timedelta:
        """Take a length of time in seconds."""
        value = self._data.pop(field, None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(field, value, "a number of seconds")
        try:
            return timedelta(seconds=value)
        except (OverflowError, ValueError):
            raise self._wrong(field, value, "a number of seconds") from None

    def optional(self, field: str) -> str | None:
        """Take a text that need not be there."""
        if self._data.get(field) is None:
            self._data.pop(field, None)
            return None
        return self.text(field)

    def end(self) -> None:
        """Refuse fields that nobody took: a newer version wrote them, and they mean something."""
        for field in self._data:
            raise ValueError(f"{self._owner}: unknown field {field!r}")

    def _wrong(self, field: str, value: object, valid: str) -> ValueError:
        if value is None:
            return ValueError(f"{self._owner}: {field} is missing")
        return Where(self._owner, field).wrong(value, valid)


def parse(where: Where, text: str, kind: type[Moment]) -> Moment:
    """Return a text in ISO form as what it stands for."""
    try:
        return kind.fromisoformat(text)
    except ValueError:
        raise where.wrong(text, f"a {kind.__name__} in ISO form") from None


def number_of_seconds(value: timedelta) -> int | float:
    """Return a length of time for JSON: a whole number when it is one."""
    seconds = value.total_seconds()
    return int(seconds) if seconds == int(seconds) else seconds


# ------------------------------------------------------------ kinds and versions


def to_json(data: Mapping[str, object]) -> bytes:
    """Return data as JSON; equal data give equal bytes."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def kind_of(
    what: str, data: Mapping[str, object] | bytes | str, kinds: Mapping[str, Kind]
) -> tuple[Kind, dict[str, object]]:
    """Return which of the kinds stored data are of, and their fields."""
    fields = dict(data if isinstance(data, Mapping) else _object(what, data))
    kind = fields.pop("kind", None)
    version = fields.pop("version", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{what}: unknown kind {kind!r}; known are {', '.join(kinds)}")
    if version != VERSION:
        raise ValueError(f"{what}: version {version!r} of {kind!r} is unknown; known is {VERSION}")
    return kinds[kind], fields


def _object(what: str, text: bytes | str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: not JSON: {error}") from None
    if not isinstance(value, dict):
        # Bad data, not a bad call: a ValueError like all others.
        raise ValueError(f"{what}: must be a JSON object, not {type(value).__name__}")  # noqa: TRY004 - see above
    return value
