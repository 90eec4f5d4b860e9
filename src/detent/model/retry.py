"""When a failed attempt is tried again: pure arithmetic over the attempt and some random bits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from detent.model.durations import Duration, parse_duration, read_duration
from detent.model.failure import Remote

MAX_ATTEMPTS: Final = 10_000
MAX_EXPONENT: Final = 20
MAX_DELAY: Final = timedelta(hours=24)
JITTER_BITS: Final = 32
CAUSES_SEARCHED: Final = 10

Backoff = Callable[[int], Duration]
"""A user's own rule: the number of the attempt that failed (from 1) to the time to wait."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a task is tried and how long it waits in between.

    `backoff` is "exponential" (delay, 2 x delay, 4 x delay, ...), "fixed", or a function from the
    number of the failed attempt to a duration. No wait is longer than `max_delay`. With
    `jitter` a wait is between half and all of its length, so that jobs which failed together
    do not come back together.

    Exceptions of the classes in `never` are not retried at all; with `only`, no others than those
    of its classes are. An exception that was raised from one of them counts like it. `retry_if`
    is asked last: it takes the exception and returns whether to try again. A task that ran out of
    time has raised `JobTimeout`.
    """

    max_attempts: int = 5
    delay: timedelta = timedelta(seconds=2)
    backoff: str | Backoff = "exponential"
    max_delay: timedelta = MAX_DELAY
    jitter: bool = True
    never: tuple[type[BaseException], ...] = ()
    only: tuple[type[BaseException], ...] = ()
    retry_if: Callable[[BaseException], bool] | None = None

    if TYPE_CHECKING:  # the values may be given in more forms than they are kept in

        def __init__(  # noqa: PLR0917  the fields
            self,
            max_attempts: int = 5,
            delay: Duration = timedelta(seconds=2),
            backoff: str | Backoff = "exponential",
            max_delay: Duration = MAX_DELAY,
            jitter: bool = True,
            never: type[BaseException] | tuple[type[BaseException], ...] = (),
            only: type[BaseException] | tuple[type[BaseException], ...] = (),
            retry_if: Callable[[BaseException], bool] | None = None,
        ) -> None: ...

    def replace(self, **changes: Any) -> "Retry":
        """Return the same policy with some values changed."""
        return replace(self, **changes)

    @property
    def asks_about_errors(self) -> bool:
        """Whether the exception decides."""
        return bool(self.never or self.only or self.retry_if is not None)

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise TypeError(f"Retry(max_attempts=...) must be an int, not {attempts!r}")
        if not 1 <= attempts <= MAX_ATTEMPTS:
            raise ValueError(f"Retry(max_attempts=...) must be 1 to {MAX_ATTEMPTS}, not {attempts}")
        for name in ("delay", "max_delay"):
            value = read_duration(f"Retry({name}=...)", getattr(self, name), MAX_DELAY)
            object.__setattr__(self, name, value)
        if not callable(self.backoff) and self.backoff not in ("exponential", "fixed"):
            raise ValueError(
                "Retry(backoff=...) must be 'exponential', 'fixed' or a function, "
                f"not {self.backoff!r}"
            )
        for name in ("never", "only"):
            classes = getattr(self, name)
            # One class alone is as clear as a tuple of one.
            classes = (classes,) if isinstance(classes, type) else tuple(classes)
            object.__setattr__(self, name, classes)
            for entry in classes:
                if not (isinstance(entry, type) and issubclass(entry, BaseException)):
                    raise TypeError(f"Retry({name}=...) must hold exception classes, not {entry!r}")
        if self.retry_if is not None and not callable(self.retry_if):
            raise TypeError(f"Retry(retry_if=...) must be a function, not {self.retry_if!r}")


NO_RETRY: Final = Retry(max_attempts=1)


def may_retry(policy: Retry, attempt: int, error: BaseException | None) -> bool:
    """Return whether another attempt follows the failed attempt number `attempt`."""
    return attempt < policy.max_attempts and not is_never(policy, error)


def is_never(policy: Retry, error: BaseException | None) -> bool:
    """Return whether the policy refuses to try again after this error, whatever the attempt."""
    if error is None or not policy.asks_about_errors:
        return False
    chain = _chain(error)
    for each in chain:
        # Compared where it was raised.
        if isinstance(each, Remote):
            return each.never
    if any(isinstance(each, policy.never) for each in chain):
        return True
    if policy.only and not any(isinstance(each, policy.only) for each in chain):
        return True
    return policy.retry_if is not None and not _wants(policy.retry_if, error)


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that it was raised from."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and len(found) < CAUSES_SEARCHED:
        found.append(each)
        each = each.__cause__
    return found


def _wants(retry_if: Callable[[BaseException], bool], error: BaseException) -> bool:
    """Ask a user's rule; one that fails itself must not lose a job."""
    try:
        return bool(retry_if(error))
    except Exception:  # noqa: BLE001  see above
        return True


def merged(own: Retry, declared: Retry) -> Retry:
    """Return the policy of one job: what it says itself, and what only its task can say.

    Classes and functions are not stored with a job, so those of its task go on to count.
    """
    if not declared.asks_about_errors or own.asks_about_errors:
        return own
    return own.replace(never=declared.never, only=declared.only, retry_if=declared.retry_if)


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
        try:
            wait = parse_duration(policy.backoff(attempt))
        except ValueError:
            return policy.delay
        return policy.delay if wait < timedelta(0) else wait
    if policy.backoff == "fixed":
        return policy.delay
    exponent = min(max(attempt - 1, 0), MAX_EXPONENT)
    return min(policy.delay * (1 << exponent), MAX_DELAY)
