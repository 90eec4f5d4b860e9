"""What every calendar can do: say whether it leaves out a moment, and until when."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, Self, runtime_checkable


@runtime_checkable
class Calendar(Protocol):
    """Times at which nothing fires. A value: equal when it is declared equally."""

    @property
    def timezone(self) -> str:
        """The IANA name of the zone whose days and times it speaks of."""

    @property
    def base(self) -> str | None:
        """The name of a calendar whose times are left out as well."""

    def excludes(self, moment: datetime) -> bool:
        """Return whether it leaves out a moment, its base not asked."""

    def excluded_until(self, moment: datetime) -> datetime | None:
        """Return a later moment up to which all is left out; None if this moment is not."""

    def describe(self) -> str:
        """Return it in plain English: "not on Saturday and Sunday, Europe/Berlin"."""

    def to_data(self) -> dict[str, object]:
        """Return what `calendar_from` reads back: JSON-able, with `kind` and `version`."""

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the calendar that `to_data` described, without its kind and version."""
