"""What a store promises about nodes that die: their jobs are given to others, none is lost."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from detent.model.state import State


class DeadNode(NamedTuple):
    """A node that has just been declared dead."""

    incarnation: UUID
    name: str
    host: str
    pid: int


class Rescued(NamedTuple):
    """A job whose claim was taken from a dead node."""

    id: UUID
    task: str
    queue: str
    node: UUID
    state: State
    """Pending again, canceled as requested, or failed for having crashed too often."""
    crashes: int
    attempt: int = 1


class Orphan(NamedTuple):
    """A claim that was removed because its job has no row."""

    id: UUID
    fence: int
    node: UUID
    lane: str


class Rescue(NamedTuple):
    """What one rescue did."""

    nodes: list[DeadNode]
    jobs: list[Rescued]
    busy: int = 0
    """How many claims of the dead are left because another session has locked them."""
    orphans: tuple[Orphan, ...] = ()


class RescueStore(Protocol):
    """Ends the claims of nodes that are gone."""

    async def rescue(self, limit: int, max_crashes: int, *, everywhere: bool = False) -> Rescue:
        """Declare nodes dead whose lease is over, and take up to `limit` claims from the dead.

        Both in one transaction. A lease is over when `detent.model.lease` says so: it has run out,
        and a node that lives has seen the store answer for the length of it.

        A claim is lost when its node is dead or unknown; what then becomes of the job is what
        `detent.model.rescue.judge` says, and what it calls a crash is written to the job's
        attempts as `crashed`, uncharged. A job that goes on returns to its old place. Nodes and
        claims that another transaction is busy with at this moment are left for the next call.
        Calling it until fewer than `limit` jobs come back rescues all the others. A transaction
        of a dead node (`ContextStore.transaction`) that holds its claim and rests is ended by one
        of the calls that follow within seconds.

        A claim whose job has no row (an operator deleted it, or a table was restored) is removed,
        with its permits, its business key and its messages, since neither an end nor a rescue of
        it could be written. Such claims of living nodes, and claims of nodes that have no row, need
        only be found by a call with `everywhere`, which may read all claims.
        """

    async def declare_dead(
        self, nodes: Sequence[UUID], reason: str, *, fenced: bool = False
    ) -> int:
        """Declare living nodes dead that are known to be gone; return how many there were.

        From then on they can neither claim nor renew their lease; `rescue` takes their claims.
        A node that is `fenced` has stopped its jobs itself: claims that it left count as no crash.
        """

    async def forget_nodes(self, dead_for: timedelta, limit: int) -> int:
        """Remove up to `limit` nodes that have been dead for that long and hold nothing."""
