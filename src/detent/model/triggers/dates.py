"""On certain days, or once."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Final, Self

from detent.model.fields import Fields, Where, check_time, parse, to_instant
from detent.model.moments import YEARS
from detent.model.wording import clock, listed
from detent.model.zones import wall_of, zone_of

MOST_DATES: Final = 10_000
NAMED: Final = 4
"""A description names so many dates, and counts when there are more."""


@dataclass(frozen=True, slots=True)
class Dates:
    """On each of `dates`: a date at the local time `at`, a datetime as it stands.

    A datetime without a zone is a local time in `timezone`.
    """

    dates: Iterable[date | datetime]
    at: time = time()
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        zone = zone_of(self.timezone)
        object.__setattr__(self, "at", check_time(Where("Dates", "at"), self.at))
        where = Where("Dates", "dates")
        if isinstance(self.dates, str | date) or not isinstance(self.dates, Iterable):
            raise where.wrong_type(self.dates, "a list of dates")
        found: dict[datetime, date | datetime] = {}
        for each in self.dates:
            if not isinstance(each, date):
                raise where.wrong_type(each, "dates or datetimes")
            moment = _plain(where, each)
            found.setdefault(to_instant(moment, self.at, zone), moment)
        if not 1 <= len(found) <= MOST_DATES:
            raise ValueError(f"Dates(dates=...): must be 1 to {MOST_DATES} dates, not {len(found)}")
        object.__setattr__(self, "dates", tuple(found[instant] for instant in sorted(found)))

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment."""
        zone = zone_of(self.timezone)
        dates = tuple(self.dates)
        index = bisect_right(dates, moment, key=lambda each: to_instant(each, self.at, zone))
        return to_instant(dates[index], self.at, zone) if index < len(dates) else None

    def describe(self) -> str:
        """Return it in plain English."""
        zone = zone_of(self.timezone)
        dates = tuple(self.dates)
        words = [_words(to_instant(each, self.at, zone), self.timezone) for each in dates]
        if len(words) > NAMED:
            return f"on {len(words)} dates from {words[0]} to {words[-1]}, {self.timezone}"
        return f"on {listed(words)}, {self.timezone}"

    def for_schedule(self, name: str) -> Self:
        """Return it unchanged."""
        return self

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "dates",
            "version": 1,
            "dates": [each.isoformat() for each in self.dates],
            "at": self.at.isoformat(),
            "timezone": self.timezone,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described."""
        fields = Fields("Dates", data)
        trigger = cls(
            [_read(text) for text in fields.texts("dates")],
            fields.time("at"),
            fields.text("timezone"),
        )
        fields.end()
        return trigger


@dataclass(frozen=True, slots=True)
class Once:
    """Once, `at` a moment; without a zone it is a local time in `timezone`."""

    at: datetime
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        if not isinstance(self.at, datetime):
            raise Where("Once", "at").wrong_type(self.at, "a datetime")
        object.__setattr__(self, "at", _plain(Where("Once", "at"), self.at))

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the slot if it is strictly after a moment."""
        slot = to_instant(self.at, time(), zone_of(self.timezone))
        return slot if slot > moment else None

    def describe(self) -> str:
        """Return it in plain English."""
        slot = to_instant(self.at, time(), zone_of(self.timezone))
        return f"once on {_words(slot, self.timezone)}, {self.timezone}"

    def for_schedule(self, name: str) -> Self:
        """Return it unchanged."""
        return self

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "once",
            "version": 1,
            "at": self.at.isoformat(),
            "timezone": self.timezone,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described."""
        fields = Fields("Once", data)
        at = parse(Where("Once", "at"), fields.text("at"), datetime)
        trigger = cls(at, fields.text("timezone"))
        fields.end()
        return trigger


def _plain(where: Where, moment: date | datetime) -> date | datetime:
    """Return a moment such that equal ones look equal: in UTC if it has a zone, of no fold."""
    if moment.year not in YEARS:
        raise where.wrong(moment, f"a time in the years {YEARS[0]} to {YEARS[-1]}")
    if not isinstance(moment, datetime):
        return moment
    return moment.replace(fold=0) if moment.tzinfo is None else moment.astimezone(UTC)


def _read(text: str) -> date | datetime:
    where = Where("Dates", "dates")
    return parse(where, text, datetime) if "T" in text else parse(where, text, date)


def _words(moment: datetime, timezone: str) -> str:
    wall = wall_of(moment, zone_of(timezone))
    return f"{wall.date()} at {clock(wall.time())}"
