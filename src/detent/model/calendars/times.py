"""Calendars that leave out parts of days: a range of time, or what a cron expression matches."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final, Self

from detent.model.cron import CronExpression, describe, parse_cron
from detent.model.fields import Fields, Where, check_base, check_time
from detent.model.wording import clock
from detent.model.zones import steady_until, wall_of, zone_of

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DailyRange:
    """Leaves out every day from `start` until before `end`; inverted, all but that.

    A range whose end is before its start goes on over midnight. What counts is what the clocks
    show, so in a fold the range may be left out twice.
    """

    start: time
    end: time
    inverted: bool = False
    timezone: str = "UTC"
    base: str | None = None

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        check_base("DailyRange", self.base)
        object.__setattr__(self, "start", check_time(Where("DailyRange", "start"), self.start))
        object.__setattr__(self, "end", check_time(Where("DailyRange", "end"), self.end))
        if self.start == self.end:
            raise Where("DailyRange", "end").wrong(self.end, "another time than start=")
        if not isinstance(self.inverted, bool):
            raise Where("DailyRange", "inverted").wrong_type(self.inverted, "True or False")

    def excludes(self, moment: datetime) -> bool:
        """Return whether it leaves out a moment."""
        now = wall_of(moment, zone_of(self.timezone)).time()
        if self.start < self.end:
            inside = self.start <= now < self.end
        else:
            inside = now >= self.start or now < self.end
        return inside is not self.inverted

    def excluded_until(self, moment: datetime) -> datetime | None:
        """Return when the range ends, or when the clocks change before that."""
        if not self.excludes(moment):
            return None
        zone = zone_of(self.timezone)
        wall = wall_of(moment, zone)
        edge = datetime.combine(wall.date(), self.start if self.inverted else self.end)
        return steady_until(moment, (edge if edge > wall else edge + DAY) - wall, zone)

    def describe(self) -> str:
        """Return it in plain English."""
        which = "only" if self.inverted else "not"
        return f"{which} from {clock(self.start)} to {clock(self.end)}, {self.timezone}"

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "daily_range",
            "version": 1,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "inverted": self.inverted,
            "timezone": self.timezone,
            "base": self.base,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the calendar that `to_data` described."""
        fields = Fields("DailyRange", data)
        calendar = cls(
            fields.time("start"),
            fields.time("end"),
            fields.flag("inverted"),
            fields.text("timezone"),
            fields.optional("base"),
        )
        fields.end()
        return calendar


@dataclass(frozen=True, slots=True)
class CronCalendar:
    """Leaves out the minutes that a cron expression matches; with six fields, the seconds.

    `CronCalendar("* * 1 * *")` leaves out the first day of every month.
    """

    expression: str
    timezone: str = "UTC"
    base: str | None = None

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        check_base("CronCalendar", self.base)
        if self._parsed.is_always:
            raise Where("CronCalendar", "expression").wrong(
                self.expression, "one that leaves some time"
            )

    @property
    def _parsed(self) -> CronExpression:
        return parse_cron(self.expression)

    def excludes(self, moment: datetime) -> bool:
        """Return whether it leaves out a moment."""
        return self._parsed.matches(wall_of(moment, zone_of(self.timezone)))

    def excluded_until(self, moment: datetime) -> datetime | None:
        """Return when the minute (second, hour, day) ends that is left out."""
        zone = zone_of(self.timezone)
        wall = wall_of(moment, zone)
        parsed = self._parsed
        if not parsed.matches(wall):
            return None
        whole = parsed.whole
        passed = (wall - datetime.combine(wall.date(), time())) % whole
        return steady_until(moment, whole - passed, zone)

    def describe(self) -> str:
        """Return it in plain English."""
        return f"not {describe(self._parsed)}, {self.timezone}"

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "cron",
            "version": 1,
            "expression": self.expression,
            "timezone": self.timezone,
            "base": self.base,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the calendar that `to_data` described."""
        fields = Fields("CronCalendar", data)
        calendar = cls(fields.text("expression"), fields.text("timezone"), fields.optional("base"))
        fields.end()
        return calendar
