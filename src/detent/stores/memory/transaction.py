"""Several writes that happen together or not at all, when a caller says so."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from detent.errors import ClaimLost, StoreUnavailable
from detent.model.job import Claim, Keys, NewJob, Placed
from detent.spi.leadership import Term
from detent.spi.store import PendingCompletion
from detent.stores.memory.enqueue import enqueue_jobs, enqueue_keyed
from detent.stores.memory.finish import finish_hooked, valid_claim
from detent.stores.memory.leadership import check_term
from detent.stores.memory.tables import Tables

Write = Callable[[Tables, datetime], None]


class MemoryConnection:
    """An open transaction: what was asked for, to be done at its commit."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._effects: list[Callable[[], None]] = []

    def on_commit(self, effect: Callable[[], None]) -> None:
        """Let `effect` be called with the commit; when it raises, nothing is committed."""
        self._effects.append(effect)

    def enqueue(
        self, tables: Tables, now: datetime, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """Enqueue at the commit; say now what will come of it."""
        if keys is None:
            self._writes.append(lambda tables, now: enqueue_jobs(tables, now, jobs))
            return [Placed(job.id, created=True) for job in jobs]
        (job,) = jobs
        answer = enqueue_keyed(self._preview(tables, now), now, job, keys)

        def write(tables: Tables, now: datetime) -> None:
            # Where a database would have made the other caller wait, this one starts again.
            if enqueue_keyed(tables, now, job, keys) != answer:
                raise StoreUnavailable(f"a key of job {job.id} changed hands; try again")

        self._writes.append(write)
        return [answer]

    def finish(self, node: UUID, claim: Claim, pending: PendingCompletion) -> None:
        """Write the success of a claim at the commit, with what `pending` then says."""

        def write(tables: Tables, now: datetime) -> None:
            if not finish_hooked(tables, now, node, [pending.success_of(claim)]):
                raise ClaimLost(claim.id)

        self._writes.append(write)

    def fence(self, tables: Tables, now: datetime, term: Term) -> None:
        """Refuse a term that is over, now and at the commit."""
        check_term(tables, now, term)
        self._writes.append(lambda tables, now: check_term(tables, now, term))

    def commit(self, tables: Tables, now: datetime) -> Tables:
        """Return the tables as they are after everything that was asked for."""
        after = self._preview(tables, now)
        for effect in self._effects:
            effect()
        return after

    def _preview(self, tables: Tables, now: datetime) -> Tables:
        after = tables.snapshot()
        for write in self._writes:
            write(after, now)
        return after


def check_claim(tables: Tables, now: datetime, node: UUID, claim: Claim) -> None:
    """Refuse a claim that is no longer valid."""
    if valid_claim(tables, node, claim.id, claim.fence) is None:
        raise ClaimLost(claim.id)
