"""What one node knows of the circuit breakers, and what it has seen and not yet told."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from detent.events import BreakerClosed, BreakerHalfOpen, BreakerOpened
from detent.model.breaker import Breaker, Verdict
from detent.model.circuit import Circuit, Phase
from detent.model.failure import Remote
from detent.model.outcome import Outcome
from detent.spi.breakers import BreakerRow

NEVER: Final = float("-inf")
# How often others are asked, while calls run.
POLL: Final = 1.0


@dataclass(slots=True, eq=False)
class Known:
    """One breaker, as this node knows it, and what the node has not yet told."""

    name: str
    breaker: Breaker
    circuit: Circuit = field(default_factory=Circuit)
    version: int = 0
    asked_at: float = NEVER
    """When it was asked for, by this node's clock; NEVER when others may have changed it since."""
    hints: int = 0
    """How often it was said that others have changed it."""
    store_time: datetime | None = None
    """The store's time, and this node's clock when it heard of it."""
    measured_at: float = 0.0
    running: int = 0
    verdicts: list[bool] = field(default_factory=list)
    """Of this epoch, in order; True for a failure."""
    reason: str = ""
    trials: dict[str, float] = field(default_factory=dict)
    """The permits that calls here hold, and when they were taken or renewed."""
    judged: list[tuple[str, Verdict, str]] = field(default_factory=list)
    line_ends: float = NEVER
    """When the last of those that were refused here asks again, by this node's clock."""
    unsure: BreakerRow | None = None
    """What was written without a reply: if it is there, it was we who wrote it."""

    def learn(self, row: BreakerRow | None, now: datetime, at: float, heard_at: float) -> None:
        """Take over what is stored; what was counted in another epoch means nothing now."""
        circuit = Circuit() if row is None else row.circuit
        if circuit.epoch != self.circuit.epoch:
            self.verdicts.clear()
        self.circuit, self.version = circuit, 0 if row is None else row.version
        self.asked_at = at
        self.store_time, self.measured_at = now, heard_at

    @property
    def untold(self) -> bool:
        """Whether something is to be reported."""
        return bool(self.verdicts or self.judged)


class Running(NamedTuple):
    """A call that was let pass."""

    known: Known
    epoch: int
    permit: str | None
    """Set when it is a trial."""


def event_of(
    name: str, breaker: Breaker, circuit: Circuit, node: UUID | None
) -> BreakerOpened | BreakerHalfOpen | BreakerClosed:
    """Return what is to be told of a breaker that has just changed."""
    match circuit.phase:
        case Phase.OPEN:
            calls, wait = circuit.calls, None
            if circuit.half_open_at is not None and circuit.since is not None:
                wait = (circuit.half_open_at - circuit.since).total_seconds()
            return BreakerOpened(name, node, calls.failed, calls.total, circuit.reason, wait)
        case Phase.HALF_OPEN:
            return BreakerHalfOpen(name, node, breaker.trials)
        case Phase.CLOSED:
            return BreakerClosed(name, node)


def is_due(known: Known, now: float) -> bool:
    """Tell whether the store is to be asked about a breaker, or told."""
    if known.untold:
        return True
    return known.running > 0 and now - known.asked_at >= POLL * 0.9


def reason_of(outcome: Outcome) -> str:
    """Return what to say of a failure: its kind, since messages may hold what is secret."""
    error = outcome.error
    if isinstance(error, Remote):
        return error.failure.type
    return str(outcome.ending) if error is None else type(error).__name__
