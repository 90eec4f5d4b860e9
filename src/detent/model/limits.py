"""Limits: how much of something may run at once, and how often; and who is let in.

Pure arithmetic: the store says what runs, what passed and what time it is, and this says how many
more may pass. Stores that compute in their own language keep the same meaning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import Final, NamedTuple
from uuid import UUID

from detent.model.gates import FAIR, KEY, KINDS, QUEUE, RATE, TASK, Gate
from detent.model.rates import (
    CRUMB,
    NOTHING_TAKEN,
    Algorithm,
    Grants,
    Rate,
    left,
    per_second,
    used,
    wait,
)

MAX_CONCURRENCY: Final = 1_000_000
MAX_WEIGHT: Final = 1_000
# Who waits for tokens comes back for several, unless they take longer than this to flow in.
GATHER: Final = 0.05
# Who can never be let in asks again after so long.
LONG: Final = 60.0


@dataclass(frozen=True, slots=True)
class Limit:
    """What may pass the gates of one name; for gates with keys it holds for each key."""

    name: str
    """`resource:smtp`, `task:send`, for each key `task:send#`, `rate:send`, `queue:mail`."""
    concurrency: int | None = None
    rate: Rate | None = None
    weight: int | None = None
    """How many turns the key of a fair share has for each of another; of `fair:mail#acme` only."""
    ordered: bool = False
    """Whether a job that is put back, to be tried again or for any other reason, holds back the
    later ones: of a task's limit of 1 only."""

    def __post_init__(self) -> None:
        kind, _, rest = self.name.partition(":")
        if self.ordered and (kind != TASK or self.concurrency != 1):
            raise ValueError(
                f"ordered = {self.ordered!r} of {self.name}: only a task's concurrency of 1 keeps "
                f"an order, this is {self.concurrency!r}"
            )
        if kind == FAIR and KEY in rest:
            self._check_share()
            return
        if self.weight is not None:
            raise ValueError(f"weight = {self.weight!r} of {self.name}: only fair shares have one")
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

    def _check_share(self) -> None:
        if self.concurrency is not None or self.rate is not None:
            raise ValueError(f"limit {self.name}: a fair share has a weight and nothing else")
        if type(self.weight) is not int or not 1 <= self.weight <= MAX_WEIGHT:
            raise ValueError(
                f"weight = {self.weight!r} of {self.name}: must be 1 to {MAX_WEIGHT:,}"
            )


class Holder(NamedTuple):
    """A job that was put back behind an ordered gate: no other may pass the gate before it."""

    job: UUID
    lane: str | None
    """Where it is pending; None while it is paused, or waits for something."""
    due_in: float
    """Seconds until it is due; 0 or less when it is."""

    def may_start_from(self, lane: str) -> bool:
        """Tell whether it is this lane that can give it now."""
        return self.lane == lane and self.due_in <= 0


@dataclass(slots=True)
class Opening:
    """How far a gate is open at one moment."""

    limit: Limit
    now: float
    """Seconds of the store's clock."""
    used: int = 0
    grants: Grants = NOTHING_TAKEN
    taken: int = 0
    """How much of it has been handed out since."""
    kept: int = 0
    """What a job needs for which the rest is kept; 0 when there is none."""
    holder: Holder | None = None

    def room(self, weight: int) -> int:
        """Return how many more jobs of a weight may pass."""
        room = 0.0 if self.kept else inf
        if self.limit.concurrency is not None:
            room = min(room, self.limit.concurrency - self.used - self.taken)
        if self.limit.rate is not None:
            room = min(room, self._rate_left(self.limit.rate))
        return max(floor((room + CRUMB) / weight), 0)

    def wait(self, weight: int) -> float | None:
        """Return when to ask again if it is the rate, or the delay of a job that holds the gate,
        that keeps a job out.
        """
        if self.holder is not None and self.holder.lane is not None and self.holder.due_in > 0:
            return self.holder.due_in
        rate, limit = self.limit.rate, self.limit
        weight = max(weight, self.kept)
        if rate is None or self._rate_left(rate) + CRUMB >= weight:
            return None
        if limit.concurrency is not None and limit.concurrency - self.used - self.taken < weight:
            return None
        several = 0
        if rate.algorithm is Algorithm.BUCKET:
            several = min(rate.most // 2, floor(per_second(rate) * GATHER))
        seconds = wait(rate, self.grants_after(rate), max(weight, several), self.now)
        # A job that weighs more than the rate ever has may be let in when the rate is changed.
        return min(seconds, max(rate.per.total_seconds(), LONG))

    def keep(self, weight: int) -> bool:
        """Let nobody else pass before a job of a weight; return False if it never could."""
        concurrency, rate = self.limit.concurrency, self.limit.rate
        if concurrency is not None and weight > concurrency:
            return False
        if rate is not None and weight > rate.most:
            return False
        self.kept = max(self.kept, weight)
        return True

    def grants_after(self, rate: Rate) -> Grants:
        """Return what is to be remembered when what was handed out has passed."""
        return used(rate, self.grants, self.taken, self.now) if self.taken else self.grants

    def _rate_left(self, rate: Rate) -> float:
        return left(rate, self.grants, self.now) - self.taken


class Admission:
    """Hands out room at gates to one lane after the other, never more than there is in sum."""

    def __init__(self, openings: Mapping[str, Opening]) -> None:
        self._openings = openings

    def room(self, gates: Sequence[Gate], wish: int) -> tuple[int, Gate | None]:
        """Return how many jobs of a lane may pass, and the gate that then lets no more in.

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
            if here <= room:
                room, narrow = here, gate
        return room, narrow

    def holder(self, gates: Sequence[Gate]) -> tuple[Gate, Holder] | None:
        """Return the job that holds one of some gates, and which one."""
        for gate in gates:
            opening = self._openings.get(gate.name)
            if opening is not None and opening.holder is not None:
                return gate, opening.holder
        return None

    def use(self, gates: Sequence[Gate], count: int) -> None:
        """Hand out so many."""
        for gate in gates:
            opening = self._openings.get(gate.name)
            if opening is not None:
                opening.taken += gate.weight * count

    def keep(self, gate: Gate) -> bool:
        """Keep the rest of a gate for a job that needs more; return whether that is any use.

        Or lighter ones, of which there is always another, would overtake it for ever.
        """
        opening = self._openings.get(gate.name)
        return gate.weight > 1 and opening is not None and opening.keep(gate.weight)

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
