"""What a circuit breaker remembers of the last calls: each of the last N, or sums over a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from detent.model.breaker import Breaker

# A window of time is remembered in so many slices, and forgotten slice by slice.
SLICES: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Slice(NamedTuple):
    """The calls of one stretch of time."""

    number: int
    total: int
    failed: int


@dataclass(frozen=True, slots=True)
class Calls:
    """One of the two is used: which one says the breaker's window."""

    last: str = ""
    """A letter for each call, the oldest first: `x` failed, `.` passed."""
    slices: tuple[Slice, ...] = ()
    """Sums, the oldest first."""

    @property
    def total(self) -> int:
        """How many calls are known."""
        return len(self.last) + sum(each.total for each in self.slices)

    @property
    def failed(self) -> int:
        """How many of them failed."""
        return self.last.count("x") + sum(each.failed for each in self.slices)

    def add(self, breaker: Breaker, verdicts: Sequence[bool], now: datetime) -> "Calls":
        """Return what is known after more calls (True: it failed), in order.

        What was remembered in the other way, before somebody changed the settings, is forgotten.
        """
        if isinstance(breaker.window, timedelta):
            return Calls(slices=self._slices(breaker.window, verdicts, now))
        letters = "".join("x" if failed else "." for failed in verdicts)
        return Calls(last=(self.last + letters)[-breaker.window :])

    def _slices(
        self, window: timedelta, verdicts: Sequence[bool], now: datetime
    ) -> tuple[Slice, ...]:
        each = max(window / SLICES, timedelta(microseconds=1))
        number = (now - _EPOCH) // each
        # Numbers above this one come from longer slices of other settings, or from a clock
        # that was put back: neither can be placed.
        kept = [old for old in self.slices if number - SLICES < old.number <= number]
        if not kept or kept[-1].number != number:
            kept.append(Slice(number, 0, 0))
        latest = kept[-1]
        total, failed = latest.total + len(verdicts), latest.failed + sum(verdicts)
        kept[-1] = Slice(number, total, failed)
        return tuple(kept)
