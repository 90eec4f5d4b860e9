"""Cancels jobs whose time to begin is over, just before they would."""

from collections.abc import Iterable
from typing import Protocol

from detent._engine.attempt import Attempt
from detent.model.outcome import Ending, Outcome
from detent.options import read_options


def too_late(attempt: Attempt) -> Outcome | None:
    """Return the end of a job that has expired before its first try; None for all others."""
    claim = attempt.claim
    # Options are decoded only where they may name such a time.
    if claim.options is None or b'"expires"' not in claim.options:
        return None
    if claim.attempt > 1 or claim.crashes or claim.generation > 1:
        return None
    expires = read_options(claim.options).expires
    if expires is None or attempt.bench.runtime.utcnow() < expires:
        return None
    return Outcome(Ending.CANCELED, reason=f"expired at {expires.isoformat()}, before it began")


class Pending(Protocol):
    """A job of a batch, and its end if it has one before the call."""

    attempt: Attempt
    outcome: Outcome | None


def end_late(entries: Iterable[Pending]) -> None:
    """End those of a batch that have expired."""
    for entry in entries:
        entry.outcome = too_late(entry.attempt)
