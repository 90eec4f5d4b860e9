"""How often something may happen: so many in a time, evenly or in any window of it."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


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
        if self.count < 1:
            raise ValueError(f"Rate(count={self.count!r}): must be at least 1")
        if not self.per > timedelta(0):
            raise ValueError(f"Rate(per={self.per!r}): must be above 0")
        if self.burst is not None and self.burst < 1:
            raise ValueError(f"Rate(burst={self.burst!r}): must be at least 1")
