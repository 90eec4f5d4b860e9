"""When a failed attempt is tried again: pure arithmetic over the attempt and some random bits."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from detent.model.failure import Remote

MAX_ATTEMPTS: Final = 10_000
MAX_EXPONENT: Final = 20
MAX_DELAY: Final = timedelta(hours=24)
JITTER_BITS: Final = 32
CAUSES_SEARCHED: Final = 10

Backoff = Callable[[int], timedelta]
"""A user's own rule: the number of the attempt that failed (from 1) to the time to wait."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a task is tried and how long it waits in between.

    `backoff` is "exponential" (delay, 2 x delay, 4 x delay, ...), "fixed", or a function from the
    number of the failed attempt to a `timedelta`. No wait is longer than `max_delay`. With
    `jitter` a wait is between half and all of its length, so that jobs which failed together
    do not come back together. Exceptions of the classes in `never` are not retried at all.
    """

    max_attempts: int = 5
    delay: timedelta = timedelta(seconds=2)
    backoff: str | Backoff = "exponential"
    max_delay: timedelta = MAX_DELAY
    jitter: bool = True
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise TypeError(f"Retry(max_attempts=...) must be an int, not {attempts!r}")
        if not 1 <= attempts <= MAX_ATTEMPTS:
            raise ValueError(f"Retry(max_attempts=...) must be 1 to {MAX_ATTEMPTS}, not {attempts}")
        for name in ("delay", "max_delay"):
            value = getattr(self, name)
            if not isinstance(value, timedelta):
                raise TypeError(f"Retry({name}=...) must be a timedelta, not {value!r}")
            if not timedelta(0) <= value <= MAX_DELAY:
                raise ValueError(f"Retry({name}=...) must be 0 to 24 hours, not {value}")
        if not callable(self.backoff) and self.backoff not in ("exponential", "fixed"):
            raise ValueError(
                "Retry(backoff=...) must be 'exponential', 'fixed' or a function, "
                f"not {self.backoff!r}"
            )
        for entry in self.never:
            if not (isinstance(entry, type) and issubclass(entry, BaseException)):
                raise TypeError(f"Retry(never=...) must hold exception classes, not {entry!r}")


NO_RETRY: Final = Retry(max_attempts=1)


def may_retry(policy: Retry, attempt: int, error: BaseException | None) -> bool:
    """Return whether another attempt follows the failed attempt number `attempt`."""
    return attempt < policy.max_attempts and not is_never(policy, error)


def is_never(policy: Retry, error: BaseException | None) -> bool:
    """Return whether the error, or one it was raised from, is of a class never to be retried."""
    for _ in range(CAUSES_SEARCHED):
        if error is None:
            return False
        if isinstance(error, policy.never):
            return True
        # Compared where it was raised; a policy of the job's own names no classes.
        if policy.never and isinstance(error, Remote) and error.never:
            return True
        error = error.__cause__
    return False


def delay_after(policy: Retry, attempt: int, random_bits: int) -> timedelta:
    """Return how long to wait after the failed attempt number `attempt` (from 1).

    `random_bits` is an integer of `JITTER_BITS` bits. A user's function that returns nonsense
    falls back to the policy's fixed delay: a bad rule must not lose a job.
    """
    wait = min(_base_delay(policy, attempt), policy.max_delay)
    if policy.jitter:
        share = (random_bits % (1 << JITTER_BITS)) / (1 << JITTER_BITS)
        wait = wait / 2 + wait / 2 * share
    return wait


def _base_delay(policy: Retry, attempt: int) -> timedelta:
    if callable(policy.backoff):
        wait = policy.backoff(attempt)
        if not isinstance(wait, timedelta) or wait < timedelta(0):
            return policy.delay
        return wait
    if policy.backoff == "fixed":
        return policy.delay
    exponent = min(max(attempt - 1, 0), MAX_EXPONENT)
    return min(policy.delay * (1 << exponent), MAX_DELAY)
