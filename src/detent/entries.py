"""Counts what uses an app on an event loop, so that only the last exit closes it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from detent.lazy import PerLoop


@dataclass(slots=True)
class Count:
    """The users of one event loop."""

    users: int = 0
    closing: bool = False
    """Whether a program has left, so that the app closes with its last user."""


class Entries:
    """Counts the blocks (`async with app`) and the nodes of each event loop."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close
        self._counts = PerLoop(Count)

    def enter(self) -> None:
        """Count one more user of this event loop."""
        self._counts.here().users += 1

    async def leave(self) -> None:
        """Count one less; the last closes the app, if a program has left it."""
        self._counts.here().users -= 1
        await self.close_unused()

    def closing(self) -> None:
        """Let the last user of this event loop close the app."""
        self._counts.here().closing = True

    async def close_unused(self) -> None:
        """Close the app on this event loop, if a program has left it and nothing uses it."""
        count = self._counts.here()
        if count.closing and not count.users:
            count.closing = False
            await self._close()
