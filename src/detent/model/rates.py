"""How often something may happen: so many in a time, evenly or in any window of it."""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from detent.model.durations import Duration, parse_duration
from detent.model.refusals import ConfigError

MAX_COUNT: Final = 1_000_000
MAX_PER: Final = timedelta(days=366)
# What flows in within this many seconds may come at once, if no burst was given: a node looks for
# jobs some twenty times a second, and a rate of thousands has to pass in as many looks.
LOOK: Final = 0.05


class InvalidRate(ConfigError, ValueError):
    """A rate that cannot be; the message names the field and its value."""


class Algorithm(StrEnum):
    """How a rate is kept."""

    BUCKET = "bucket"
    """Tokens flow in evenly; up to `burst` of them are kept for later."""
    WINDOW = "window"
    """In no window of length `per`, wherever it begins, are more than `count` granted.

    The store's clock counts what it grants. A job starts a moment after its claim, on a clock of
    its node: up to `count` starts of one window may fall into the next, where a node was slow."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` in `per`, evenly: `Rate(5)` is five a second, one each 200 ms.

    `burst` is how many may come at once after a quiet time, and by so many more than `count` may
    pass in one `per`. It is 1 if it is not given, or what flows in within 50 ms where that is
    more: `Rate(5)` lets at most 6 pass in any second, `Rate(5, burst=5)` at most 10.
    """

    count: int
    per: timedelta = timedelta(seconds=1)
    burst: int | None = None
    """Bucket only; once the rate is made it is a number."""
    algorithm: Algorithm = Algorithm.BUCKET

    if TYPE_CHECKING:  # the values may be given in more forms than they are kept in

        def __init__(
            self,
            count: int,
            per: Duration = timedelta(seconds=1),
            burst: int | None = None,
            algorithm: Algorithm | str = Algorithm.BUCKET,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.algorithm not in tuple(Algorithm):
            known = ", ".join(Algorithm)
            raise InvalidRate(f"Rate(algorithm={self.algorithm!r}): must be one of {known}")
        # Its name will do.
        object.__setattr__(self, "algorithm", Algorithm(self.algorithm))
        _check_number("count", self.count)
        object.__setattr__(self, "per", _read_per(self.per))
        if self.burst is not None:
            _check_number("burst", self.burst)
        if self.algorithm is Algorithm.BUCKET:
            object.__setattr__(self, "burst", self.burst or self._default_burst)
        elif self.burst is not None:
            raise InvalidRate(f"Rate(burst={self.burst!r}): a window has no burst")

    @property
    def _default_burst(self) -> int:
        return max(math.floor(per_second(self) * LOOK), 1)

    @property
    def has_default_burst(self) -> bool:
        """Tell whether the burst is what it would be if none had been given."""
        return self.burst in (None, self._default_burst)

    @property
    def most(self) -> int:
        """The most that can ever be had at once."""
        return self.count if self.burst is None else self.burst


def _read_per(value: object) -> timedelta:
    try:
        per = parse_duration(value)
    except ValueError as error:
        raise InvalidRate(f"Rate(per={value!r}): {error}") from None
    if not timedelta(0) < per <= MAX_PER:
        raise InvalidRate(f"Rate(per={value!r}): must be above 0, at most {MAX_PER.days} days")
    return per


def _check_number(field: str, value: object) -> None:
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        raise InvalidRate(f"Rate({field}={value!r}): must be a whole number, 1 to {MAX_COUNT:,}")


class Grants(NamedTuple):
    """What a rate has granted, as far as that still matters; moments are seconds of any clock."""

    tokens: float | None = None
    """Bucket: how many were left at a moment; None for a full one. Not when it will be full again:
    that would mean something else when the rate is changed."""
    at: float = 0.0
    taken: tuple[tuple[float, int], ...] = ()
    """Window: when how many were granted, the oldest first."""


class Taken(NamedTuple):
    """What came of wanting some: all of it, or nothing."""

    grants: Grants
    granted: bool
    remaining: int
    """How many more could be had now."""
    retry_after: float
    """Seconds until the same could be had, if nobody else takes any; 0 when it was granted."""


NOTHING_TAKEN: Final = Grants()
# Sums of tokens and moments are not exact: what lacks a millionth of a token is there.
CRUMB: Final = 1e-6


def take(rate: Rate, grants: Grants, count: int, now: float) -> Taken:
    """Take `count` under a rate at the time `now` (seconds), if they can be had.

    More than `rate.most` can never be had: `retry_after` is infinite then.
    """
    free = left(rate, grants, now)
    if free + CRUMB < count:
        return Taken(grants, False, _whole(free), wait(rate, grants, count, now))
    return Taken(used(rate, grants, count, now), True, _whole(free - count), 0.0)


def left(rate: Rate, grants: Grants, now: float) -> float:
    """Return how many could be had now; a bucket that nobody used is full."""
    if rate.algorithm is Algorithm.WINDOW:
        return rate.count - sum(number for _, number in _live(rate, grants, now))
    if grants.tokens is None:
        return rate.most
    return min(grants.tokens + max(now - grants.at, 0.0) * per_second(rate), rate.most)


def used(rate: Rate, grants: Grants, count: int, now: float) -> Grants:
    """Return what is to be remembered when so many have been had."""
    if rate.algorithm is Algorithm.WINDOW:
        return Grants(taken=(*_live(rate, grants, now), (now, count)))
    return Grants(left(rate, grants, now) - count, now)


def wait(rate: Rate, grants: Grants, count: int, now: float) -> float:
    """Return the seconds until so many could be had; infinite when they never can."""
    if count > rate.most:
        return math.inf
    lacking = count - left(rate, grants, now)
    if lacking <= CRUMB:
        return 0.0
    if rate.algorithm is Algorithm.BUCKET:
        return lacking / per_second(rate)
    for at, number in _live(rate, grants, now):
        lacking -= number
        if lacking <= 0:
            return max(at + rate.per.total_seconds() - now, 0.0)
    return rate.per.total_seconds()


def matters_until(rate: Rate, grants: Grants) -> float:
    """Return from when on nothing granted so far matters any more."""
    if rate.algorithm is Algorithm.WINDOW:
        return max((at for at, _ in grants.taken), default=0.0) + rate.per.total_seconds()
    if grants.tokens is None:
        return 0.0
    return grants.at + max(rate.most - grants.tokens, 0.0) / per_second(rate)


def per_second(rate: Rate) -> float:
    """Return how many tokens flow in each second."""
    return rate.count / rate.per.total_seconds()


def _live(rate: Rate, grants: Grants, now: float) -> list[tuple[float, int]]:
    since = now - rate.per.total_seconds()
    return [each for each in grants.taken if each[0] > since]


def _whole(tokens: float) -> int:
    return max(int(tokens + CRUMB), 0)
