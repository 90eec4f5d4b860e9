"""Remembers the numbers that this process was given, and tells when the store gives lower ones.

Other systems were shown those numbers, and refuse the smaller of two. A store that has lost a part
of its history does not always know it: a file was replaced, or a disk was set back.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from detent.events import Bus, HistoryLost
from detent.model.numbers import went_back
from detent.spi.numbers import NumberStore

# Of so many names the last number is remembered.
MOST: Final = 10_000


class _Seen(NamedTuple):
    number: int
    at: float
    """When it became known here."""
    told: bool


class SeenNumbers:
    """The last number of each lock, or of each role."""

    def __init__(
        self, kind: str, store: NumberStore, bus: Bus, monotonic: Callable[[], float]
    ) -> None:
        self._kind = kind
        self._store = store
        self._bus = bus
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}

    async def accept(self, name: str, number: int, asked_at: float) -> bool:
        """Tell whether a number may be used; if not, the next one that is asked for will do.

        `asked_at` is when the store was asked: answers may overtake each other.
        """
        last = self._seen.get(name)
        if last is not None and last.at > asked_at:
            return True
        if last is None or last.told or not went_back(last.number, number):
            self._keep(name, number, told=False)
            return True
        what = f"{self._kind} {last.number} of {name} is followed by {number}"
        self._bus.emit(HistoryLost(None, what))
        if number > last.number:
            # The store has found out by itself.
            self._keep(name, number, told=False)
            return True
        self._keep(name, last.number, told=True)
        await self._store.raise_numbers(last.number)
        return False

    def _keep(self, name: str, number: int, *, told: bool) -> None:
        self._seen.pop(name, None)
        self._seen[name] = _Seen(number, self._monotonic(), told)
        if len(self._seen) > MOST:
            del self._seen[next(iter(self._seen))]
