"""Limits: how much of something may run at once, and how often; and who is let in.

Pure arithmetic: the store says what runs, what passed and what time it is, and this says how many
more may pass. Stores that compute in their own language keep the same meaning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor, inf
from typing import Final, NamedTuple

from detent.model.gates import FAIR, KINDS, QUEUE, RATE, Gate
from detent.model.rates import Algorithm, Rate

MAX_CONCURRENCY: Final = 1_000_000
# Who waits for tokens comes back for several, unless they take longer than this to flow in.
GATHER: Final = 0.05
# Sums of tokens are not exact.
_CRUMB: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Limit:
    """What may pass the gates of one name; for gates with keys it holds for each key."""

    name: str
    """`resource:smtp`, `task:send`, for each key `task:send#`, `rate:send`, `queue:mail`."""
    concurrency: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        kind, _, rest = self.name.partition(":")
        if kind not in KINDS or not rest:
            known = ", ".join(f"{each}:..." for each in KINDS)
            raise ValueError(f"limit name = {self.name!r}: must be one of {known}")
        number = self.concurrency
        if number is not None and not (type(number) is int and 1 <= number <= MAX_CONCURRENCY):
            raise ValueError(f"concurrency = {number!r}: must be 1 to {MAX_CONCURRENCY:,}")
        if self.rate is not None and not isinstance(self.rate, Rate):
            raise ValueError(f"rate = {self.rate!r}: must be a Rate(...)")
        if kind == RATE and number is not None:
            raise ValueError(f"concurrency = {number} of {self.name}: it can only have a rate")
        if number is None and self.rate is None:
            raise ValueError(f"limit {self.name}: must have a concurrency or a rate")


class Bucket(NamedTuple):
    """How many tokens a rate has kept, at a moment."""

    tokens: float
    at: datetime


class Pass(NamedTuple):
    """That so many passed at a moment; kept for rates by window."""

    at: datetime
    number: int


def per_second(rate: Rate) -> float:
    """Return how many tokens flow in each second."""
    return rate.count / rate.per.total_seconds()


def tokens_now(bucket: Bucket | None, rate: Rate, now: datetime) -> float:
    """Return how many tokens there are; a bucket that nobody used is full."""
    if bucket is None:
        return float(rate.most)
    flown = max((now - bucket.at).total_seconds(), 0.0) * per_second(rate)
    return min(bucket.tokens + flown, float(rate.most))


def left_in_window(passes: Sequence[Pass], rate: Rate, now: datetime) -> int:
    """Return how many may pass now, given all that passed within the last window."""
    return rate.count - sum(each.number for each in passes if each.at > now - rate.per)


def token_wait(tokens: float, rate: Rate, count: int) -> float:
    """Return the seconds until so many tokens are there, and a few more if they come soon."""
    several = min(rate.most // 2, floor(per_second(rate) * GATHER))
    return max(max(count, several) - tokens, 0.0) / per_second(rate)


def window_wait(passes: Sequence[Pass], rate: Rate, now: datetime, count: int) -> float:
    """Return the seconds until so many may pass again."""
    left = left_in_window(passes, rate, now)
    for each in sorted(passes):
        if left >= count:
            break
        if each.at > now - rate.per:
            left += each.number
            if left >= count:
                return max((each.at + rate.per - now).total_seconds(), 0.0)
    return 0.0 if left >= count else rate.per.total_seconds()


@dataclass(slots=True)
class Opening:
    """How far a gate is open at one moment."""

    limit: Limit
    now: datetime
    used: int = 0
    bucket: Bucket | None = None
    passes: Sequence[Pass] = ()
    taken: int = 0
    """How much of it has been handed out since."""

    def room(self, weight: int) -> int:
        """Return how many more jobs of a weight may pass."""
        left = inf
        if self.limit.concurrency is not None:
            left = self.limit.concurrency - self.used - self.taken
        if self.limit.rate is not None:
            left = min(left, self._rate_left(self.limit.rate))
        return max(floor((left + _CRUMB) / weight), 0)

    def wait(self, weight: int) -> float | None:
        """Return when to ask again if it is the rate that keeps a job out."""
        rate, limit = self.limit.rate, self.limit
        if rate is None or self._rate_left(rate) + _CRUMB >= weight:
            return None
        if limit.concurrency is not None and limit.concurrency - self.used - self.taken < weight:
            return None
        if rate.algorithm is Algorithm.WINDOW:
            passes = self.passes
            if self.taken:
                passes = [*passes, Pass(self.now, self.taken)]
            return window_wait(passes, rate, self.now, weight)
        return token_wait(self._rate_left(rate), rate, weight)

    def _rate_left(self, rate: Rate) -> float:
        if rate.algorithm is Algorithm.WINDOW:
            return left_in_window(self.passes, rate, self.now) - self.taken
        return tokens_now(self.bucket, rate, self.now) - self.taken


class Admission:
    """Hands out room at gates to one lane after the other, never more than there is in sum."""

    def __init__(self, openings: Mapping[str, Opening]) -> None:
        self._openings = openings

    def room(self, gates: Sequence[Gate], wish: int) -> tuple[int, Gate | None]:
        """Return how many jobs of a lane may pass, and the gate that lets no more in.

        A gate whose limit nobody has declared lets nothing in: it stands for a limit that its
        task must not exceed. Queues need not have a limit, and fair shares have none.
        """
        room, narrow = wish, None
        for gate in gates:
            opening = self._openings.get(gate.name)
            if opening is None:
                if gate.kind in (QUEUE, FAIR):
                    continue
                return 0, gate
            here = opening.room(gate.weight)
            if here < room:
                room, narrow = here, gate
        return room, narrow

    def use(self, gates: Sequence[Gate], count: int) -> None:
        """Hand out so many."""
        for gate in gates:
            opening = self._openings.get(gate.name)
            if opening is not None:
                opening.taken += gate.weight * count

    def wait(self, gate: Gate) -> float | None:
        """Return the seconds until a gate may be open again; None when nobody can know."""
        opening = self._openings.get(gate.name)
        return None if opening is None else opening.wait(gate.weight)

    def under_rate(self, gates: Sequence[Gate]) -> bool:
        """Tell whether a rate is among the limits of some gates."""
        found = (self._openings.get(gate.name) for gate in gates)
        return any(each is not None and each.limit.rate is not None for each in found)

    def held(self, gates: Sequence[Gate]) -> list[Gate]:
        """Return the gates at which a running job counts."""
        found = ((gate, self._openings.get(gate.name)) for gate in gates)
        return [
            gate
            for gate, opening in found
            if opening is not None and opening.limit.concurrency is not None
        ]


def full_again(bucket: Bucket, rate: Rate) -> datetime:
    """Return when a bucket will be full: from then on it need not be remembered."""
    missing = rate.most - bucket.tokens
    return bucket.at + timedelta(seconds=max(missing, 0.0) / per_second(rate))
