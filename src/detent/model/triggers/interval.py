"""Every so long, by real time, however the clocks are set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Self

from detent.model.durations import Duration, parse_duration
from detent.model.fields import Fields, Where, check_step, number_of_seconds, parse, to_instant
from detent.model.wording import every
from detent.model.zones import zone_of

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Interval:
    """Every `every`, counted from `anchor`, which is the first slot.

    The phase is kept whatever happens: a slot that was late does not move those after it. With the
    anchor that is there by itself, every 15 minutes means 00, 15, 30 and 45. An anchor without a
    zone is a local time in `timezone`.
    """

    every: timedelta
    anchor: datetime = EPOCH
    timezone: str = "UTC"

    if TYPE_CHECKING:  # the values may be given in more forms than they are kept in

        def __init__(
            self, every: Duration, anchor: datetime = EPOCH, timezone: str = "UTC"
        ) -> None: ...

    def __post_init__(self) -> None:
        zone = zone_of(self.timezone)
        if isinstance(self.every, int | float | str):
            try:
                object.__setattr__(self, "every", parse_duration(self.every))
            except ValueError as error:
                raise ValueError(f"Interval(every={self.every!r}): {error}") from None
        check_step(Where("Interval", "every"), self.every)
        if not isinstance(self.anchor, datetime):
            raise Where("Interval", "anchor").wrong_type(self.anchor, "a datetime")
        object.__setattr__(self, "anchor", to_instant(self.anchor, time(), zone))

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment."""
        if moment < self.anchor:
            return self.anchor
        try:
            return self.anchor + ((moment - self.anchor) // self.every + 1) * self.every
        except OverflowError:
            return None

    def describe(self) -> str:
        """Return it in plain English."""
        if self.anchor == EPOCH:
            return every(self.every)
        first = self.anchor.astimezone(zone_of(self.timezone)).replace(tzinfo=None)
        return f"{every(self.every)} from {first.isoformat(' ')}, {self.timezone}"

    def for_schedule(self, name: str) -> Self:
        """Return it unchanged."""
        return self

    def to_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": "interval",
            "version": 1,
            "every": number_of_seconds(self.every),
            "anchor": self.anchor.isoformat(),
            "timezone": self.timezone,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Return the trigger that `to_data` described."""
        fields = Fields("Interval", data)
        anchor = parse(Where("Interval", "anchor"), fields.text("anchor"), datetime)
        trigger = cls(fields.seconds("every"), anchor, fields.text("timezone"))
        fields.end()
        return trigger
