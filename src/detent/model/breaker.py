"""When calls to something that fails should stop for a while, and which ends count as failures."""

from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from detent.model.durations import Duration, parse_duration
from detent.model.failure import Remote
from detent.model.outcome import Ending, Outcome
from detent.model.retry import CAUSES_SEARCHED, MAX_DELAY

MAX_CALLS: Final = 10_000
MAX_TRIALS: Final = 1_000
MAX_WINDOW: Final = timedelta(hours=24)
# Four doublings: what is down for long is asked seldom, and not never.
LONGEST: Final = 16

Classes = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a circuit breaker opens, for how long, and what closes it again.

    It opens when at least `minimum` of the last `window` calls (or of those within a `window` of
    time) are known and `failure_rate` of them failed. After `wait` it lets `trials` calls pass: if
    one of them fails it opens again, each time twice as long up to `max_wait` (16 x `wait` if not
    given); if all of them pass it closes. With `record`, only exceptions of these classes count as
    failures; those of `ignore` never do. Time-outs always count.
    """

    failure_rate: float = 0.5
    window: int | timedelta = 100
    minimum: int = 10
    wait: timedelta = timedelta(seconds=30)
    max_wait: timedelta | None = None
    trials: int = 3
    record: Classes = ()
    ignore: Classes = ()

    if TYPE_CHECKING:  # the values may be given in more forms than they are kept in

        def __init__(  # noqa: PLR0917  as the fields stand
            self,
            failure_rate: float = 0.5,
            window: int | timedelta | str = 100,
            minimum: int = 10,
            wait: Duration = timedelta(seconds=30),
            max_wait: Duration | None = None,
            trials: int = 3,
            record: Classes = (),
            ignore: Classes = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        rate = self.failure_rate
        if isinstance(rate, bool) or not isinstance(rate, (int, float)):
            raise TypeError(f"Breaker(failure_rate={rate!r}): must be a number above 0, at most 1")
        if not 0 < rate <= 1:
            raise ValueError(f"Breaker(failure_rate={rate!r}): must be above 0, at most 1")
        _check_whole("minimum", self.minimum, MAX_CALLS)
        _check_whole("trials", self.trials, MAX_TRIALS)
        self._check_window()
        self._check_waits()
        for name in ("record", "ignore"):
            _check_classes(name, getattr(self, name))

    def _check_window(self) -> None:
        if isinstance(self.window, str):
            try:
                object.__setattr__(self, "window", parse_duration(self.window))
            except ValueError as error:
                raise ValueError(f"Breaker(window={self.window!r}): {error}") from None
        if isinstance(self.window, timedelta):
            if not timedelta(0) < self.window <= MAX_WINDOW:
                raise ValueError(
                    f"Breaker(window={self.window!r}): must be above 0, at most 24 hours"
                )
            return
        _check_whole("window", self.window, MAX_CALLS)
        if self.window < self.minimum:
            raise ValueError(
                f"Breaker(window={self.window}): must be at least minimum ({self.minimum}), "
                "or the breaker would never open"
            )

    def _check_waits(self) -> None:
        for name in ("wait", "max_wait"):
            value = getattr(self, name)
            if value is None and name == "max_wait":
                continue
            try:
                value = parse_duration(value)
            except ValueError as error:
                raise TypeError(f"Breaker({name}={value!r}): {error}") from None
            object.__setattr__(self, name, value)
            if not timedelta(0) < value <= MAX_DELAY:
                raise ValueError(f"Breaker({name}={value!r}): must be above 0, at most 24 hours")
        if self.max_wait is not None and self.max_wait < self.wait:
            raise ValueError(f"Breaker(max_wait={self.max_wait!r}): must be at least wait")

    @classmethod
    def default(cls, **changes: Any) -> Self:
        """Half of a hundred calls, half a minute; anything can be given differently."""
        return cls(**changes)

    @classmethod
    def fast(cls, **changes: Any) -> Self:
        """For what fails and recovers quickly: a short memory and a short wait."""
        return cls._with(changes, window=20, minimum=3, wait=timedelta(seconds=10), trials=2)

    @classmethod
    def critical(cls, **changes: Any) -> Self:
        """For what should be stopped late and started carefully."""
        longer = timedelta(seconds=60)
        return cls._with(changes, failure_rate=0.75, window=200, wait=longer, trials=5)

    @classmethod
    def external_api(cls, **changes: Any) -> Self:
        """For services of others, which fail now and then on a good day."""
        longer = timedelta(seconds=60)
        return cls._with(changes, failure_rate=0.6, window=50, minimum=5, wait=longer)

    @classmethod
    def _with(cls, changes: dict[str, Any], **profile: Any) -> Self:
        return cls(**{**profile, **changes})

    def changed(self, **changes: Any) -> Self:
        """Return these settings with some of them different."""
        mine = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return type(self)(**{**mine, **changes})

    def wait_after(self, reopened: int) -> timedelta:
        """Return how long it stays open when it has opened again so often without closing."""
        longest = self.max_wait or min(self.wait * LONGEST, MAX_DELAY)
        # The exponent is bounded before it is used: a breaker may stay broken for years.
        return min(self.wait * (1 << min(max(reopened, 0), 20)), longest)


class Verdict(StrEnum):
    """What the end of a call says about what was called."""

    PASSED = "passed"
    FAILED = "failed"
    NEITHER = "neither"


def verdict_of(breaker: Breaker, outcome: Outcome) -> Verdict:
    """Return what an outcome says; one of a call that was never made says nothing."""
    match outcome.ending:
        case Ending.SUCCEEDED:
            return Verdict.PASSED
        case Ending.TIMED_OUT:
            return Verdict.FAILED
        case Ending.FAILED:
            return _verdict_of_error(breaker, outcome)
        case _:
            return Verdict.NEITHER


def _verdict_of_error(breaker: Breaker, outcome: Outcome) -> Verdict:
    if _is_among(outcome.error, breaker.ignore):
        return Verdict.NEITHER
    # Who says that trying again is of no use speaks of his job, and not of what he called.
    counts = _is_among(outcome.error, breaker.record) if breaker.record else outcome.retryable
    return Verdict.FAILED if counts else Verdict.NEITHER


def _is_among(error: BaseException | None, classes: Classes) -> bool:
    """Tell whether an error, or one that it was raised from, is of one of the classes."""
    if not classes:
        return False
    names = {f"{entry.__module__}.{entry.__qualname__}" for entry in classes}
    for _ in range(CAUSES_SEARCHED):
        if error is None:
            return False
        if isinstance(error, classes):
            return True
        if isinstance(error, Remote) and not names.isdisjoint(error.lineage):
            return True
        error = error.__cause__
    return False


def _check_whole(name: str, value: Any, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"Breaker({name}={value!r}): must be a whole number")
    if not 1 <= value <= most:
        raise ValueError(f"Breaker({name}={value}): must be 1 to {most:,}")


def _check_classes(name: str, value: Any) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"Breaker({name}={value!r}): must be a tuple of exception classes")
    for entry in value:
        if not (isinstance(entry, type) and issubclass(entry, BaseException)):
            raise TypeError(f"Breaker({name}=...): must hold exception classes, not {entry!r}")
