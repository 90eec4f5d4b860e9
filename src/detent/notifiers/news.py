"""The fewest wake-ups that say the same: without it a stream of jobs would be one of messages."""

from collections.abc import Iterable

from detent.spi.notifier import Hint, Wake


class News:
    """Wake-ups that were not sent yet; the newest of a lane replace the older."""

    def __init__(self) -> None:
        self._waiting: dict[object, Wake] = {}

    def add(self, wakes: Iterable[Wake]) -> None:
        """Keep them."""
        for wake in wakes:
            if not isinstance(wake, Hint) or wake.due_at is None:
                self._waiting[wake] = wake
                continue
            # A position is news of its own: it lowers a floor, and the lowest one counts.
            key = (wake.lane, wake.priority)
            held = self._waiting.get(key)
            if not isinstance(held, Hint) or wake < held:
                self._waiting[key] = wake

    def look(self) -> list[Wake]:
        """Return them all, and keep them."""
        return list(self._waiting.values())

    def take(self) -> list[Wake]:
        """Return them all, and keep them no longer."""
        wakes, self._waiting = self.look(), {}
        return wakes

    def __bool__(self) -> bool:
        return bool(self._waiting)
