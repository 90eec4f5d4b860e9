"""What every trigger can do; whoever fires schedules knows no more than this."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, Self, runtime_checkable


@runtime_checkable
class Trigger(Protocol):
    """When a schedule fires. A value: equal when it is declared equally."""

    @property
    def timezone(self) -> str:
        """The IANA name of the zone that its local times are in."""

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment, in UTC; None when there is none."""

    def describe(self) -> str:
        """Return it in plain English: "at 09:00 on Monday to Friday, Europe/Berlin"."""

    def for_schedule(self, name: str) -> Self:
        """Return it as the schedule of that name fires it: `H` in a cron depends on the name."""

    def to_data(self) -> dict[str, object]:
        """Return what `trigger_from` reads back: JSON-able, with `kind` and `version`."""

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described, without its kind and version."""
