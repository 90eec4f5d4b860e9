"""What a store promises about limits: none is ever exceeded by valid claims, and none leaks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from detent.model.job import Claim
from detent.model.limits import Limit
from detent.spi.leadership import Term
from detent.spi.scans import Floor, LaneScan


@dataclass(frozen=True, slots=True)
class GatedRequest:
    """What a node asks for: at most `limit` jobs in all, lanes in the order given."""

    node: UUID
    scans: Sequence[LaneScan]
    free: Sequence[int]
    """For each scan how many jobs could start at once: what is under a rate must not wait."""
    least: Sequence[int]
    """For each scan the lowest aged priority to be taken: others have more urgent jobs."""
    limit: int
    boost_interval: timedelta
    inline_args: int


class Head(NamedTuple):
    """The most urgent due job of a lane."""

    priority: int
    waited: float
    """Seconds since it was due."""


class LaneAnswer(NamedTuple):
    """What became of one lane in a claim."""

    lane: str
    taken: int
    blocked_by: str | None
    """The gate that let no more in; None when it was not a gate that ended it."""
    retry_after: float | None
    """Seconds until that gate may be open again; None when only an end of a job can tell."""
    due_in: float | None
    """Seconds until the next job of the lane is due, 0 when one is, None when there is none."""
    head: Head | None
    """What was left due, None for nothing; where a lane was not emptied this may be what was taken:
    what is left is at most as urgent."""
    weight: int | None
    """How many turns the key of a fair share was given by its limit; None when it has none."""
    keeps: bool = False
    """Whether its first job needs more of that gate than is left, and the rest is kept for it."""


class GatedAnswer(NamedTuple):
    """What a claim from gated lanes came to."""

    claims: list[Claim]
    lanes: list[LaneAnswer]


class GatedLane(NamedTuple):
    """A lane with gates that holds jobs."""

    lane: str
    due_in: float
    head: Head | None
    """None when nothing is due."""


class Refusal(StrEnum):
    """Why a claim from a family took nothing."""

    NOT_OFFERED = "refused"
    """Its limit, its queue or the store asks for claims lane by lane."""
    BUSY = "busy"
    """Another claim holds the family: it may be asked again after a moment."""
    PAUSED = "paused"
    DEAD = "dead"
    """The node may not claim."""


@dataclass(frozen=True, slots=True)
class FamilyRequest:
    """What a node asks for of all keys of one limit together: at most `room` jobs."""

    node: UUID
    family: str
    """See `detent.model.gates.family_of`."""
    queue: str
    room: int
    walk: int
    """How many due jobs to look at: the first in their order, whether they may run or not."""
    least: int
    """The lowest aged priority to be taken."""
    floors: Sequence[Floor | None]
    """Where to begin, by priority; see `LaneScan`."""
    without: Sequence[str]
    """Lanes to leave alone: the node claims from each of them by itself."""
    boost_interval: timedelta
    inline_args: int


class FamilyAnswer(NamedTuple):
    """What a claim from a family came to."""

    claims: list[Claim]
    refusal: Refusal | None = None
    """Why nothing was tried; the rest means nothing then."""
    blocked: int = 0
    """How many of the jobs it looked at were kept out by their keys."""
    is_all: bool = True
    """Whether it looked at all that are due."""
    head: Head | None = None
    """The most urgent that it left though its key is open; None if it saw none."""
    last: Head | None = None
    """The last that it looked at: what it has not seen is at most as urgent."""
    due_in: float | None = None
    """Seconds until the next one is due that is not due yet, None if there is none."""
    keys: int = 0
    """How many keys it saw."""
    floors: Sequence[Floor | None] = (None,) * 5
    """The first of each priority that is not in `without`: the next scan may begin there."""
    crowd: Sequence[str] = ()
    """Lanes of which it saw many jobs that are kept out: better claimed from by themselves."""


NOT_OFFERED: Final = FamilyAnswer([], Refusal.NOT_OFFERED)
"""The answer of a store in which only single lanes can be claimed from."""


class LimitInfo(NamedTuple):
    """A limit as people see it."""

    limit: Limit
    declared: Limit | None
    """What code says; None when only an operator made it."""
    edited: bool
    """Whether an operator's word holds instead of the code's."""
    running: int
    """How much of it is taken by running jobs; for limits by key, of all keys together."""


class LimitStore(Protocol):
    """Keeps limits, and gives jobs behind gates to nodes."""

    async def declare_limits(self, limits: Sequence[Limit]) -> None:
        """Make sure of limits that are written in code; what an operator has set stays."""

    async def set_limit(self, limit: Limit) -> None:
        """Let a limit hold from the next claim on, whatever code says.

        What runs already goes on. A limit for a queue that had none counts what is claimed from
        then on.
        """

    async def reset_limit(self, name: str) -> Limit | None:
        """Let code's word hold again, and return it; a limit that is in no code goes."""

    async def limits(self) -> list[LimitInfo]:
        """Return all limits, by name."""

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """Move due jobs to running as `claim_jobs` does, no more than their gates let in.

        The gates of a lane are those in its name and that of its queue. In sum over everything
        that runs by a valid claim no gate takes more than its limit; each rate counts all that it
        ever let in. Lanes are served in the order given, each in its own order, and of each only
        jobs whose aged priority is high enough. A lane of which nothing is wanted is looked at.
        A gate that another claim holds for longer than a moment counts as full, and may be asked
        again after a moment. What is left of a gate when the first job of a lane needs more than
        that is kept for it: no lane behind may have it.

        A job that passed a gate whose limit is `ordered`, and was put back by an end or a rescue,
        holds that gate until it has ended: nothing else passes it, whatever its lane, its priority
        or its due time. A lane that has to wait for such a job is blocked by the gate, until the
        job is due.
        """

    async def claim_family(self, request: FamilyRequest) -> FamilyAnswer:
        """Move due jobs to running, of all lanes that differ in nothing but the key of their gate.

        It means the same as `claim_gated` of all these lanes: no key takes more than its limit in
        sum over both kinds of claims, each key keeps its own order, and a job that holds an ordered
        gate goes first. Over all keys the order is that of `claim_jobs`. It looks at the first
        `walk` due jobs and takes of these what may run, so what is blocked costs no more than that.

        A store need not offer it, and does not for limits with a rate, for those that nobody has
        declared and in queues that have a limit: the node then claims lane by lane.
        """

    async def forget_holds(self, limit: int, term: Term | None = None) -> int:
        """Forget which jobs held ordered gates and have ended, up to so many; return how many.

        Under a `term` that is over, nothing goes.
        """

    async def gated_lanes(
        self,
        queues: Sequence[str],
        after: str,
        limit: int,
        boost_interval: timedelta,
        whole: Sequence[str] = (),
    ) -> list[GatedLane]:
        """Return up to `limit` lanes of these queues that have gates, in the order of their bytes,
        those behind `after`. Locks nothing, and walks over no lane's jobs.

        Of the families in `whole` at least one lane of each that holds jobs, and all lanes of
        suspects; those may come on any page.
        """
