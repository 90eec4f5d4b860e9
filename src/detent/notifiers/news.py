"""The fewest wake-ups that say the same: without it a stream of jobs would be one of messages."""

from collections.abc import Iterable
from typing import Final

from detent.spi.notifier import Hint, Wake

# So many lone jobs of a lane at once are a stream: all nodes are to claim.
LONE: Final = 8


class News:
    """Wake-ups that were not sent yet; the newest of a lane replace the older."""

    def __init__(self) -> None:
        self._waiting: dict[object, Wake] = {}
        self._lone: dict[str, int] = {}
        """How many lone jobs wait to be told of each lane."""

    def add(self, wakes: Iterable[Wake]) -> None:
        """Keep them."""
        for wake in wakes:
            if isinstance(wake, Hint) and wake.token is not None:
                count = self._lone[wake.lane] = self._lone.get(wake.lane, 0) + 1
                if count > LONE:
                    self._forget_lone(wake.lane)
                    wake = wake._replace(token=None)  # noqa: PLW2901  the others went with it
            if not isinstance(wake, Hint) or wake.due_at is None or wake.token is not None:
                self._waiting[wake] = wake
                continue
            # A position is news of its own: it lowers a floor, and the lowest one counts.
            key = (wake.lane, wake.priority)
            held = self._waiting.get(key)
            if not isinstance(held, Hint) or wake < held:
                self._waiting[key] = wake

    def _forget_lone(self, lane: str) -> None:
        """Leave it to the hint that follows to tell of a lane; positions are told as before."""
        lone = [
            wake
            for wake in self._waiting.values()
            if isinstance(wake, Hint) and wake.lane == lane and wake.token is not None
        ]
        for wake in lone:
            del self._waiting[wake]
        self.add(wake._replace(token=None) for wake in lone if wake.due_at is not None)

    def look(self) -> list[Wake]:
        """Return them all, and keep them."""
        return list(self._waiting.values())

    def take(self) -> list[Wake]:
        """Return them all, and keep them no longer."""
        wakes, self._waiting, self._lone = self.look(), {}, {}
        return wakes

    def __bool__(self) -> bool:
        return bool(self._waiting)
