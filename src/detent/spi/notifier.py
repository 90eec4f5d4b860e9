"""Wake-ups: hints that something may be there to do. Polling alone is always correct."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID


class Hint(NamedTuple):
    """Something happened on a lane; a position lowers the floor of those who listen."""

    lane: str
    priority: int | None = None
    due_at: datetime | None = None
    id: UUID | None = None


class SignalHint(NamedTuple):
    """A signal waits for jobs of this node."""

    node: UUID


Wake = Hint | SignalHint


class Notifier(Protocol):
    """Carries wake-ups between processes. At most once, unordered, may lose any of them."""

    def publish(self, wakes: Sequence[Wake]) -> None:
        """Send wake-ups soon; returns at once, coalesces, and never raises."""

    async def listen(self, receive: Callable[[Sequence[Wake]], None]) -> None:
        """Call `receive` for every wake-up until canceled; reconnects by itself.

        After each (re)connection `receive` is called with nothing, since wake-ups may have been
        missed: the listener looks for itself.
        """

    async def flush(self) -> None:
        """Wait until what was published has been sent, or could not be."""
