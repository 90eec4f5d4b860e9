"""Exact rates across the cluster, kept by the store; and whoever answers "may I, now?"."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from detent.model.rates import Rate
from detent.spi.leadership import Term


class RateAsk(NamedTuple):
    """Somebody wants so many of what `name` limits."""

    name: str
    rate: Rate
    wanted: int = 1


class RateVerdict(NamedTuple):
    """All of it was granted, or nothing."""

    granted: bool
    remaining: int
    """How many more would be granted now."""
    retry_after: float
    """Seconds until the same ask may be granted; 0 when it was."""


class RateStore(Protocol):
    """Counts exactly, by its own clock, whoever asks."""

    async def take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        """Answer each ask, in order. Asks for the same name see each other."""

    async def forget_rates(self, idle_seconds: float, limit: int, term: Term | None = None) -> int:
        """Remove the counts of names that have been full again for so long; return how many.

        Under a `term` that is over, nothing goes.
        """


class RateLimiter(Protocol):
    """What guards a door: the gateway asks it for each request."""

    async def ask(self, ask: RateAsk) -> RateVerdict:
        """Answer one ask."""
