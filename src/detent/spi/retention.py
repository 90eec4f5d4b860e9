"""What a store promises about jobs that have had their time: they go in pages that harm nobody."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from detent.model.retention import StateRules
from detent.model.state import State
from detent.spi.leadership import Term


class Mark(NamedTuple):
    """Where a walk over ended jobs goes on; only the store that made it can read it."""

    finished_at: datetime | None
    id: UUID


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Which ended jobs to look at."""

    state: State
    rules: StateRules
    limit: int
    """The most jobs to take; somewhat more may be looked at."""
    after: Mark | None = None
    """Where the page before ended; None begins with the oldest."""
    term: Term | None = None
    """That of the leader who asks; under one that is over, nothing goes."""


class PrunedPage(NamedTuple):
    """What came of a page."""

    deleted: int = 0
    archived: int = 0
    after: Mark | None = None
    """Where the next page begins; None when the walk is over."""
    busy: bool = False
    """Another node prunes at this moment, and nothing was done."""
    problem: str | None = None
    """Why some job could not be taken; it was left where it is, and the others went."""


class RetentionStore(Protocol):
    """Lets ended jobs go whose time is over.

    Whatever is called here is one short transaction, bounded by its limit. It waits for nobody:
    rows that somebody else holds are left for the next time.
    """

    async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
        """Delete or archive a page of the jobs in a state whose time is over.

        A job goes with all that belongs to it, or not at all. These stay, however old they are:
        a job that lives again; one that another job waits for, or that is part of a flow; one
        whose idempotency key has not expired, since the next enqueue with it is told of that job.
        Walking until `after` is None sees every job that was due when the walk began, but for
        those that stayed; a job whose id was made by a clock that is ahead may be seen later.
        """

    async def prune_keys(self, limit: int, term: Term | None = None) -> int:
        """Delete idempotency keys that have expired; return how many.

        Under a `term` that is over, nothing goes.
        """

    async def prune_archive(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        """Delete archived jobs that have been in the archive for longer; return how many.

        Under a `term` that is over, nothing goes.
        """
