"""How often something may happen: so many in a time, evenly or in any window of it."""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple


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
        if self.count < 1:
            raise ValueError(f"Rate(count={self.count!r}): must be at least 1")
        if not self.per > timedelta(0):
            raise ValueError(f"Rate(per={self.per!r}): must be above 0")
        if self.burst is not None and self.burst < 1:
            raise ValueError(f"Rate(burst={self.burst!r}): must be at least 1")
        if self.burst is not None and self.algorithm is Algorithm.WINDOW:
            raise ValueError(f"Rate(burst={self.burst!r}): a window has no burst")

    @property
    def most(self) -> int:
        """The most that can ever be had at once."""
        return self.count if self.burst is None else self.burst


class Grants(NamedTuple):
    """What a rate has granted, as far as that still matters."""

    full_at: float = 0.0
    """Bucket: when it will be full again. Until then it lacks what flows in meanwhile."""
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
# Times are floats: what is due in a millionth of a token's time is due.
_BLUR: Final = 1e-6


def take(rate: Rate, grants: Grants, count: int, now: float) -> Taken:
    """Take `count` under a rate at the time `now` (seconds), if they can be had.

    More than `rate.most` can never be had: `retry_after` is infinite then.
    """
    if rate.algorithm is Algorithm.WINDOW:
        return _take_window(rate, grants, count, now)
    return _take_bucket(rate, grants, count, now)


def _take_bucket(rate: Rate, grants: Grants, count: int, now: float) -> Taken:
    """Keep one number: how long the bucket needs to be full again."""
    each = rate.per.total_seconds() / rate.count
    lacking = max(grants.full_at - now, 0.0)
    after = lacking + count * each
    room = rate.most * each + each * _BLUR
    if after <= room:
        left = Grants(full_at=now + after)
        return Taken(left, True, _whole((room - after) / each), 0.0)
    wait = after - rate.most * each if count <= rate.most else math.inf
    return Taken(grants, False, _whole((room - lacking) / each), wait)


def _take_window(rate: Rate, grants: Grants, count: int, now: float) -> Taken:
    """Remember every grant for as long as it counts, so that no window ever holds too many."""
    since = now - rate.per.total_seconds()
    live = tuple(entry for entry in grants.taken if entry[0] > since)
    free = rate.count - sum(each for _, each in live)
    if count <= free:
        return Taken(Grants(taken=(*live, (now, count))), True, free - count, 0.0)
    wait = math.inf
    if count <= rate.count:
        for at, each in live:
            free += each
            if free >= count:
                wait = at - since
                break
    return Taken(Grants(taken=live), False, max(rate.count - sum(n for _, n in live), 0), wait)


def is_forgettable(rate: Rate, grants: Grants, now: float) -> bool:
    """Tell whether nothing granted so far matters any more."""
    since = now - rate.per.total_seconds()
    return grants.full_at <= now and all(at <= since for at, _ in grants.taken)


def _whole(tokens: float) -> int:
    return max(int(tokens), 0)
