"""How often something may happen: so many in a time, evenly or in any window of it."""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

MAX_COUNT: Final = 1_000_000
MAX_PER: Final = timedelta(days=366)


class Algorithm(StrEnum):
    """How a rate is kept."""

    BUCKET = "bucket"
    """Tokens flow in evenly; up to `burst` of them are kept for later."""
    WINDOW = "window"
    """In no window of length `per`, wherever it begins, are there more than `count`."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` in `per`: `Rate(100)` is a hundred a second."""

    count: int
    per: timedelta = timedelta(seconds=1)
    burst: int | None = None
    """How many may come at once after a quiet time (bucket only); None is `count`."""
    algorithm: Algorithm = Algorithm.BUCKET

    def __post_init__(self) -> None:
        if self.algorithm not in tuple(Algorithm):
            known = ", ".join(Algorithm)
            raise ValueError(f"Rate(algorithm={self.algorithm!r}): must be one of {known}")
        # Its name will do.
        object.__setattr__(self, "algorithm", Algorithm(self.algorithm))
        _check_number("count", self.count)
        if not isinstance(self.per, timedelta) or not timedelta(0) < self.per <= MAX_PER:
            raise ValueError(
                f"Rate(per={self.per!r}): must be a timedelta above 0, at most {MAX_PER.days} days"
            )
        if self.burst is not None:
            _check_number("burst", self.burst)
        if self.burst is not None and self.algorithm is Algorithm.WINDOW:
            raise ValueError(f"Rate(burst={self.burst!r}): a window has no burst")

    @property
    def most(self) -> int:
        """The most that can ever be had at once."""
        return self.count if self.burst is None else self.burst


def _check_number(field: str, value: object) -> None:
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        raise ValueError(f"Rate({field}={value!r}): must be a whole number, 1 to {MAX_COUNT:,}")


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
