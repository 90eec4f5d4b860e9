"""Wake-ups: hints that something may be there to do. Polling alone is always correct."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Protocol
from uuid import UUID


class Hint(NamedTuple):
    """Something happened on a lane; a position lowers the floor of those who listen."""

    lane: str
    priority: int | None = None
    due_at: datetime | None = None
    id: UUID | None = None
    token: int | None = None
    """Of a lone job that is due: the nodes choose by it which of them claims first. Without one all
    nodes claim at once."""


TOKENS: Final = 1 << 16


def token_of(job_id: UUID) -> int:
    """Return the token of a lone job: the last bits of its id, which are random."""
    return job_id.int % TOKENS


EVERYONE: Final = UUID(int=0)


class SignalHint(NamedTuple):
    """Something waits for this node (or for EVERYONE): a signal to its jobs, or to itself."""

    node: UUID


# Not named tuples: two of them with the same name in them would be equal.
@dataclass(frozen=True, slots=True)
class LeaderHint:
    """A role has been given up."""

    role: str


@dataclass(frozen=True, slots=True)
class LockHint:
    """A lock has been released."""

    name: str


@dataclass(frozen=True, slots=True)
class BreakerHint:
    """A circuit breaker has opened, closed or let trials begin."""

    name: str


@dataclass(frozen=True, slots=True)
class AnsweredHint:
    """A node has answered the hints of a lane with these tokens: no due job is left there."""

    lane: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScheduleHint:
    """Schedules were changed: the first of them may be due earlier than was known."""


Wake = Hint | SignalHint | LeaderHint | LockHint | BreakerHint | AnsweredHint | ScheduleHint


@dataclass(frozen=True, slots=True)
class Silence:
    """From now on no wake-ups arrive; told by a notifier to its own listeners, never published."""

    reason: str


Heard = Wake | Silence
Receive = Callable[[Sequence[Heard]], None]


class Notifier(Protocol):
    """Carries wake-ups between processes. At most once, unordered, may lose any of them."""

    def publish(self, wakes: Sequence[Wake]) -> None:
        """Send wake-ups soon; returns at once, coalesces, and never raises. On any thread."""

    async def listen(self, receive: Receive) -> None:
        """Call `receive` for every wake-up until canceled; reconnects by itself.

        After each (re)connection `receive` is called with nothing, since wake-ups may have been
        missed: the listener looks for itself. While there is no connection it should be told so,
        once, by a `Silence`: it polls more often then.
        """

    async def flush(self) -> None:
        """Wait until what was published has been sent, or could not be."""

    async def close(self) -> None:
        """Send what is left, and let go of what this event loop uses."""
