"""The rules about what really runs: claimed, valid, once, and within the slots."""

from collections.abc import Mapping, Sequence

from detent.model.rescue import together
from detent.testing.simulation.book import Book
from detent.testing.simulation.ledger import Run
from detent.testing.simulation.workload import BY_TASK


class RunRules:
    """Looks at every run of a task's function when it begins."""

    def __init__(self, book: Book, slots: Mapping[str, int]) -> None:
        self._book = book
        self._slots = slots

    def begun(self, run: Run) -> None:
        """Every run has a claim of its own, and it is valid: so nobody else's is."""
        book = self._book
        about = f"{book.history.job(run.job)} fence {run.fence} on {run.process.name}"
        granted = book.granted.get((run.job, run.fence))
        if granted is None or granted.node != run.node:
            book.refuse("only claimed jobs run", about)
        if (run.job, run.fence) in book.ledger.runs:
            book.refuse("a claim is run once", about)
        if run.attempt > BY_TASK[run.task].attempts:
            book.refuse("no more tries than allowed", f"{about}: attempt {run.attempt}")
        # A node stops before its lease ends, so whatever it begins it has the right to.
        if not self._valid(run) and run.node not in book.slandered:
            self._invalid(run, about)
        going = book.ledger.going_on(run.process)
        if any(each.job == run.job for each in going):
            book.refuse("a process runs a job once at a time", about)
        mates = sum(each.queue == run.queue for each in going)
        if mates >= self._slots[run.queue]:
            book.refuse("never more than its slots", f"{about}: {mates + 1} in {run.queue}")
        self._check_suspects([run, *(each for each in going if each.node == run.node)], about)

    def _invalid(self, run: Run, about: str) -> None:
        """Its node may not have heard yet that the store has forgotten the claim."""
        forgotten = self._book.lost.claims.get((run.job, run.fence))
        if forgotten is None or self._book.must_know(run.process, forgotten):
            self._book.refuse("a run begins with a valid claim", about)
        else:
            self._book.excuse_run(run)

    def _valid(self, run: Run) -> bool:
        claim = self._book.before.running.get(run.job)
        return claim is not None and (claim.fence, claim.node) == (run.fence, run.node)

    def _check_suspects(self, runs: Sequence[Run], about: str) -> None:
        """After each crash fewer suspects are together, until one is alone."""
        book = self._book
        granted = [book.granted.get((run.job, run.fence)) for run in runs]
        crashes = [each.crashes for each in granted if each is not None]
        suspects = [each for each in crashes if book.is_suspect(each)]
        if suspects and len(suspects) > together(max(suspects), book.cluster.max_crashes):
            book.refuse("never more suspects together than may be", f"{about}: {len(suspects)}")
