"""What must be so when everything has come to rest."""

from collections.abc import Sequence
from uuid import UUID

from detent.model.rescue import CRASHED
from detent.model.state import State
from detent.stores.memory.tables import UNIQUE, Outcome, Tables
from detent.testing.simulation.book import Book
from detent.testing.simulation.history import places_of
from detent.testing.simulation.workload import BY_TASK


class FinalRules:
    """Looks at the store after the last node has left."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def check(self, tables: Tables, acknowledged: Sequence[UUID]) -> None:
        """Check everything."""
        book = self._book
        for job_id in acknowledged:
            if job_id not in tables.job and job_id not in book.lost.jobs:
                book.refuse("a committed enqueue is never lost", book.history.job(job_id))
        for job_id in tables.running:
            book.refuse("nothing is held after a drain", book.history.job(job_id))
        for job_id in tables.job:
            self._ended_well(tables, job_id)
        for (kind, key, _), held in tables.keys.items():
            if kind == UNIQUE and held.job in tables.outcome:
                book.refuse("an end frees the business key", key)
        for job_id in [*tables.progress, *(job_id for job_id, _ in tables.signals)]:
            outcome = tables.outcome.get(job_id)
            # A request that came too late stays, to say so.
            late = outcome is not None and outcome.state is not State.CANCELED
            if outcome is not None and not (late and job_id not in tables.progress):
                book.refuse("an end leaves nothing behind", book.history.job(job_id))

    def _ended_well(self, tables: Tables, job_id: UUID) -> None:
        book = self._book
        task = tables.job[job_id].new.task
        about = f"{book.history.job(job_id)} ({task})"
        outcome = tables.outcome.get(job_id)
        if outcome is None:
            if not waits_for_a_stranger(tables, job_id):
                place = book.history.place(places_of(tables, job_id)[0])
                book.refuse("every job comes to an end", f"{about}: {place}")
            return
        for generation in range(1, outcome.generation + 1):
            key = (job_id, generation)
            if book.ends.get(key) != 1:
                book.refuse("one completion per job and generation", about)
            if book.ledger.runs_of(*key) > book.returns.get(key, 0) + 1:
                book.refuse("no run without a reason", about)
        self._check_outcome(tables, outcome, about)
        effects = book.ledger.effects.get((job_id, outcome.generation), 0)
        if task == "payment" and effects != int(outcome.state is State.SUCCEEDED):
            book.refuse("effect and completion are one", f"{about}: {effects} effects")

    def _check_outcome(self, tables: Tables, outcome: Outcome, about: str) -> None:
        book, job_id = self._book, outcome.id
        kind = BY_TASK[tables.job[job_id].new.task]
        tried = [
            each
            for each in tables.attempts.get(job_id, ())
            if each.generation == outcome.generation
        ]
        asked = job_id in book.cancel_asked or outcome.superseded_by is not None
        crashes = sum(each.kind == CRASHED for each in tried)
        excused = (asked and outcome.state is State.CANCELED) or (
            crashes >= book.cluster.max_crashes and outcome.state is State.FAILED
        )
        if outcome.state not in kind.ends and not excused:
            book.refuse("a job ends as its task says", f"{about}: {outcome.state}")
        if outcome.state is State.FAILED and State.FAILED not in kind.ends:
            self._check_innocence([each.node for each in tried if each.alone], about)
        charged = [each for each in tried if each.kind in ("failed", "timed_out")]
        if len(charged) > kind.attempts or len(charged) != len({each.number for each in charged}):
            book.refuse("no more tries than allowed", f"{about}: {len(charged)} charged")
        if outcome.state is State.SUCCEEDED and (
            outcome.fence is None or (job_id, outcome.fence) not in book.ledger.runs
        ):
            book.refuse("a success has run", about)

    def _check_innocence(self, nodes: Sequence[UUID | None], about: str) -> None:
        """One job that kills its process must not be the ruin of another."""
        culprits = [self._book.ledger.culprits.get(node) for node in nodes if node is not None]
        if None not in culprits and len(set(culprits)) == 1:
            self._book.refuse("one culprit takes no neighbour with it", about)


def waits_for_a_stranger(tables: Tables, job_id: UUID) -> bool:
    """Whether a job waits for a node that knows its task, or is to replace one that does."""
    if tables.job[job_id].new.task == "stranger":
        return True
    parked = tables.parked.get(job_id)
    waits_for = None if parked is None else parked.waits_for
    return waits_for is not None and waits_for_a_stranger(tables, waits_for)


def at_rest(tables: Tables) -> bool:
    """Whether nothing is left to do."""
    waits = all(waits_for_a_stranger(tables, job_id) for job_id in tables.parked)
    return not tables.ready and not tables.running and not tables.events and waits
