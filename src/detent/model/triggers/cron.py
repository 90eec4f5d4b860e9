"""At the times of a cron expression, on the clocks of a zone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from detent.model.cron import CronExpression, describe, parse_cron
from detent.model.fields import Fields, Where
from detent.model.zones import next_named, next_passing, zone_of


@dataclass(frozen=True, slots=True)
class Cron:
    """At every local time in `timezone` that a cron expression matches.

    A cron that has neither every minute nor every hour asks for its times by name: one in a gap
    fires at the end of the gap, one in a fold fires once. Any other cron follows real time.
    `name` is what `H` is hashed by; the schedule's name takes its place (`for_schedule`).
    """

    expression: str
    timezone: str = "UTC"
    name: str = ""

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        if not isinstance(self.name, str):
            raise TypeError(f"Cron(name={self.name!r}): must be a string")
        if not self._parsed.hashed:
            # Such that equal ones are equal.
            object.__setattr__(self, "name", "")

    @property
    def _parsed(self) -> CronExpression:
        return parse_cron(self.expression, self.name)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment, which must have a zone."""
        if moment.tzinfo is None:
            raise Where("Cron.next_after", "moment").wrong_type(moment, "a datetime with a zone")
        parsed = self._parsed
        following = next_named if parsed.named else next_passing
        try:
            return following(moment, zone_of(self.timezone), parsed.next_wall)
        except OverflowError:
            return None  # After the year 9999.

    def describe(self) -> str:
        """Return it in plain English."""
        return f"{describe(self._parsed)}, {self.timezone}"

    def for_schedule(self, name: str) -> Self:
        """Return it with `H` hashed by the schedule's name, unless it has a name already."""
        return replace(self, name=name) if self._parsed.hashed and not self.name else self

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        data: dict[str, object] = {
            "kind": "cron",
            "version": 1,
            "expression": self.expression,
            "timezone": self.timezone,
        }
        return data | ({"name": self.name} if self.name else {})

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described."""
        fields = Fields("Cron", data)
        trigger = cls(fields.text("expression"), fields.text("timezone"), fields.text("name", ""))
        fields.end()
        return trigger
