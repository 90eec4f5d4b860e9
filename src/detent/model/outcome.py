"""What an attempt meant, and what follows from it.

`decide` is the only place where a failure becomes a retry or an end. It is pure: the engine
hands it what happened, the policy and some random bits, and writes down the answer.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from detent.model.moments import MAX_AHEAD
from detent.model.retry import Retry, delay_after, may_retry
from detent.model.state import State


class Ending(StrEnum):
    """How an attempt ended, seen from the task."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SNOOZED = "snoozed"
    CANCELED = "canceled"
    RELEASED = "released"
    """Not run after all (draining, claim given back): nothing is charged."""
    UNKNOWN_TASK = "unknown_task"
    """This node does not know the task: the job is parked until a node that does comes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in one attempt."""

    ending: Ending
    error: BaseException | None = None
    retryable: bool = True
    """False when the task itself said that trying again is of no use."""
    wait: timedelta | None = None
    """The wait that the task asked for, with a snooze or a retry."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write: the next state, when a pending job is due, and whether a try was used up."""

    state: State
    delay: timedelta | None = None
    """None with PENDING means the old place in the queue."""
    charged: bool = False


def decide(outcome: Outcome, attempt: int, policy: Retry, random_bits: int) -> Decision:
    """Return what follows from `outcome` of attempt number `attempt` under `policy`."""
    match outcome.ending:
        case Ending.SUCCEEDED:
            return Decision(State.SUCCEEDED)
        case Ending.CANCELED:
            return Decision(State.CANCELED)
        case Ending.RELEASED:
            return Decision(State.PENDING)
        case Ending.UNKNOWN_TASK:
            return Decision(State.WAITING)
        case Ending.SNOOZED:
            return Decision(State.PENDING, delay=_bounded(outcome.wait or timedelta(0)))
        case Ending.FAILED | Ending.TIMED_OUT:
            if not outcome.retryable or not may_retry(policy, attempt, outcome.error):
                return Decision(State.FAILED, charged=True)
            wait = outcome.wait
            if wait is None:
                wait = delay_after(policy, attempt, random_bits)
            return Decision(State.PENDING, delay=_bounded(wait), charged=True)


def _bounded(wait: timedelta) -> timedelta:
    """Keep a wait that a task asked for between nothing and the longest that `enqueue` takes."""
    return min(max(wait, timedelta(0)), MAX_AHEAD)
