"""A circuit breaker at one moment, and what follows when something happens to it: pure.

    closed ──(too many failed)──> open ──(its wait is over, somebody asks)──> half-open
       ^                           ^                                           │     │
       │                           └──────────────(a trial failed)─────────────┘     │
       └───────────────────────────(all trials passed)───────────────────────────────┘

An *epoch* is the time between two changes of the phase. What a call says counts only in the epoch
in which it was let pass: a call that began before the breaker opened says nothing about later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from detent.model.breaker import Breaker, Verdict
from detent.model.calls import Calls

REASON_LIMIT: Final = 200
SOON: Final = timedelta(seconds=5)


class Phase(StrEnum):
    """What a breaker does with a call."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class Circuit:
    """The shared state of one breaker."""

    phase: Phase = Phase.CLOSED
    epoch: int = 0
    since: datetime | None = None
    """When the phase began; None for one that never changed."""
    calls: Calls = field(default_factory=Calls)
    """What is known of the calls of this epoch, while it is closed."""
    half_open_at: datetime | None = None
    """When trials begin. None while it is open: not before somebody resets it."""
    reopened: int = 0
    """How often it opened again since it was closed."""
    forced: bool = False
    """Whether a person opened it."""
    reason: str | None = None
    """Why it opened."""
    permits: Mapping[str, datetime] = field(default_factory=dict)
    """The trials that run, and until when each is believed to."""
    passed: int = 0
    """The trials that passed."""


class Admission(NamedTuple):
    """What came of asking for a call."""

    circuit: Circuit
    admitted: bool
    wait: timedelta
    """How long to wait before asking again, when it was not."""


def count(
    circuit: Circuit, breaker: Breaker, verdicts: Sequence[bool], now: datetime, reason: str
) -> Circuit:
    """Add calls of the present epoch (True: it failed), in order; open if they are too many.

    `reason` is what to say of the failures. Only a closed breaker counts.
    """
    if circuit.phase is not Phase.CLOSED or not verdicts:
        return circuit
    calls = circuit.calls.add(breaker, verdicts, now)
    if not is_too_much(breaker, calls):
        return replace(circuit, calls=calls)
    return _open(replace(circuit, calls=calls, reopened=0), breaker, now, reason)


def is_too_much(breaker: Breaker, calls: Calls) -> bool:
    """Tell whether these calls open a breaker."""
    total, failed = calls.total, calls.failed
    return total >= breaker.minimum and failed >= breaker.failure_rate * total


def ask(
    circuit: Circuit, breaker: Breaker, permit: str, now: datetime, lease: timedelta
) -> Admission:
    """Ask for a call; in half-open the permit is for this call only, and lasts for `lease`.

    Asking again with the same permit renews it.
    """
    if circuit.phase is Phase.CLOSED:
        return Admission(circuit, True, timedelta(0))
    if circuit.phase is Phase.OPEN:
        if circuit.half_open_at is None:
            return Admission(circuit, False, breaker.wait)
        if now < circuit.half_open_at:
            return Admission(circuit, False, circuit.half_open_at - now)
        circuit = replace(_next(circuit, Phase.HALF_OPEN, now), half_open_at=circuit.half_open_at)
    permits = {key: until for key, until in circuit.permits.items() if until > now}
    if permit not in permits and len(permits) + circuit.passed >= breaker.trials:
        # Nobody knows when the trials will end; who asks again soon finds it open or closed.
        return Admission(replace(circuit, permits=permits), False, min(breaker.wait / 4, SOON))
    permits[permit] = now + lease
    return Admission(replace(circuit, permits=permits), True, timedelta(0))


def renew(circuit: Circuit, permits: Sequence[str], now: datetime, lease: timedelta) -> Circuit:
    """Let permits last for longer, also those whose time is over but whose place is still free."""
    mine = {permit: now + lease for permit in permits if permit in circuit.permits}
    return replace(circuit, permits={**circuit.permits, **mine}) if mine else circuit


def judge(
    circuit: Circuit, breaker: Breaker, permit: str, verdict: Verdict, now: datetime, reason: str
) -> Circuit:
    """Take the verdict on a trial. One that says nothing gives its permit back."""
    if circuit.phase is not Phase.HALF_OPEN or permit not in circuit.permits:
        return circuit
    if verdict is Verdict.FAILED:
        again = replace(circuit, reopened=circuit.reopened + 1)
        return _open(again, breaker, now, reason)
    permits = {key: until for key, until in circuit.permits.items() if key != permit}
    passed = circuit.passed + (verdict is Verdict.PASSED)
    if passed >= breaker.trials:
        return _next(circuit, Phase.CLOSED, now)
    return replace(circuit, permits=permits, passed=passed)


def force_open(
    circuit: Circuit, now: datetime, lasting: timedelta | None, reason: str | None
) -> Circuit:
    """Open a breaker by hand, for a time or until it is reset."""
    return replace(
        _next(circuit, Phase.OPEN, now),
        half_open_at=None if lasting is None else now + lasting,
        forced=True,
        reason=reason,
    )


def reset(circuit: Circuit, now: datetime) -> Circuit:
    """Close a breaker, whatever it knows, and forget that."""
    return _next(circuit, Phase.CLOSED, now)


def _open(circuit: Circuit, breaker: Breaker, now: datetime, reason: str) -> Circuit:
    """Open until the trials. What was counted is kept, to be looked at."""
    return replace(
        _next(circuit, Phase.OPEN, now),
        calls=circuit.calls,
        half_open_at=now + breaker.wait_after(circuit.reopened),
        reopened=circuit.reopened,
        reason=reason[:REASON_LIMIT] or None,
    )


def _next(circuit: Circuit, phase: Phase, now: datetime) -> Circuit:
    """Begin a new epoch, in which nothing is known but how often it reopened."""
    reopened = circuit.reopened if phase is not Phase.CLOSED else 0
    reason = circuit.reason if phase is Phase.HALF_OPEN else None
    return Circuit(phase, circuit.epoch + 1, now, reopened=reopened, reason=reason)
