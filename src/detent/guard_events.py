"""What can be told about what keeps calls from running; `detent.events` has all of it."""

from dataclasses import dataclass
from uuid import UUID

__all__ = ["BreakerClosed", "BreakerHalfOpen", "BreakerOpened"]


@dataclass(frozen=True, slots=True)
class BreakerOpened:
    """Too many calls under a breaker failed, or a trial did: no calls for a while.

    Told by the one that wrote it down: once in the cluster.
    """

    breaker: str
    node: UUID | None
    """None when a person did it."""
    failed: int
    total: int
    """The calls that were counted; both are 0 after a trial, or when a person did it."""
    reason: str | None
    wait: float | None
    """Seconds until trials begin; None is until somebody resets it."""


@dataclass(frozen=True, slots=True)
class BreakerHalfOpen:
    """The wait of a breaker is over: so many trial calls are let pass in the whole cluster."""

    breaker: str
    node: UUID | None
    trials: int


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    """All trials passed, or a person reset the breaker: calls run as usual."""

    breaker: str
    node: UUID | None
