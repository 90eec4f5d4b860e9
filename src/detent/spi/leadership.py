"""What a store promises about leaders: one term at a time, and no write under an old one.

A *role* is led by whoever its row names, under the *term* that it names. Each election raises the
term by one; terms never go back, whatever happens to leaders. A term is *valid* while it stands in
the row together with its holder. Who only believes to lead writes nothing: every write of a leader
is conditional on its term.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

SETTLING: Final = timedelta(seconds=2)
"""How long a store that has lost sight of a leader waits before it elects another."""
BELIEF: Final = SETTLING / 2
"""How long that leader may still believe in its terms. The rest is for what it has to stop."""


def _ignore() -> None:
    pass


class Term(NamedTuple):
    """The right to act for a role: what every write of a leader brings along."""

    role: str
    number: int
    holder: UUID


NO_TERM: Final = (None, None, None)
"""What a statement is given instead of a term by those who need none: people."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who wants to lead: a node by its incarnation, or any other program by an id of its own."""

    id: UUID
    name: str
    on_doubt: Callable[[], None] = field(default=_ignore, compare=False, repr=False)
    """Called on the event loop of `elect` when the store may have lost sight of the candidate: it
    confirms its terms within `BELIEF`, or stops, since others may be elected after `SETTLING`."""


class Bid(NamedTuple):
    """A role that a candidate wants."""

    role: str
    term: int | None = None
    """The term that it holds and wants to keep; None asks for a new one."""


class Leader(NamedTuple):
    """Who leads a role."""

    role: str
    term: int
    holder: UUID | None
    """None when the last leader has resigned and nobody followed."""
    name: str | None
    since: datetime | None
    lease_until: datetime | None
    free_in: float | None = None
    """Seconds after which it is worth asking again, if the store has just lost sight of the leader
    and its lease was shortened by that."""


class LeaderStore(Protocol):
    """Elects leaders, and guards what they write."""

    async def elect(
        self, candidate: Candidate, bids: Sequence[Bid], lease: timedelta
    ) -> list[Leader]:
        """Take each role that nobody leads, keep those that are held; say who leads each of them.

        A role is free when it was never led or its leader has resigned, when the lease has run
        out or the store knows that its holder is gone (a node that was declared dead), and when
        the candidate itself is named by it with another term than it bids: an answer that was
        lost, or a term that it has given up for itself. Who takes a free role gets the next term.
        Who bids the valid term keeps it, with a lease from the store's now. A node that was
        declared dead gets and keeps nothing. A store that can tell when it loses sight of a leader,
        which does not prove that its process has ended, tells the leader (`Candidate.on_doubt`) and
        shortens the lease to `SETTLING`. The answer names the candidate only where it leads
        now; a role that nobody leads may be missing from it. A role whose term somebody holds by
        `fence_within` at this moment is left as it is.
        """

    async def resign(self, candidate: UUID, terms: Sequence[Term]) -> list[str]:
        """Give up valid terms, and return their roles; the next election need not wait.

        What the store keeps for a candidate beside its terms is given back, too.
        """

    async def leaders(self) -> list[Leader]:
        """Return who leads at this moment, by role."""

    async def fence_within(self, connection: Any, term: Term) -> None:
        """Let the caller's transaction on `connection` commit only under this term.

        Raises `TermLost` when the term is no longer valid. From then on until the end of the
        transaction either there is no election for the role, or the commit fails. A transaction
        that holds up an election and rests for longer than a lease may be ended by the store.
        """

    def fence_within_sync(self, connection: Any, term: Term) -> None:
        """Do the same on the caller's thread, for a connection of a blocking driver."""


class TermFence(Protocol):
    """Fences the transactions of people, whatever library their connection comes from."""

    async def fence_within(self, connection: Any, term: Term) -> None:
        """See `LeaderStore.fence_within`."""

    def fence_within_sync(self, connection: Any, term: Term) -> None:
        """See `LeaderStore.fence_within_sync`."""
