"""The rules about circuit breakers: one writer, no call while it is open, and so many trials."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from detent._engine.breaker import FRESH, LEASE, RENEW
from detent.model.circuit import Circuit, Phase
from detent.stores.memory.tables import Tables
from detent.testing.simulation.book import Book
from detent.testing.simulation.distant import Flight
from detent.testing.simulation.leases import OPERATOR
from detent.testing.simulation.ledger import Run
from detent.testing.simulation.service import BREAKER, FRAGILE, SERVICE
from detent.testing.virtual import running_loop

STEPS: Final = {
    (Phase.CLOSED, Phase.OPEN),
    (Phase.OPEN, Phase.HALF_OPEN),
    (Phase.HALF_OPEN, Phase.OPEN),
    (Phase.HALF_OPEN, Phase.CLOSED),
}
# Whoever is well has heard of a change after this time: what it knows is never older than FRESH
# when a call is let pass, and then the call has to begin.
HEARD: Final = FRESH + 1.0
# And has renewed the permits of its trials, if it has been well for so long.
KEPT: Final = LEASE.total_seconds() + RENEW


class BreakerRules:
    """Looks at what is stored of the breaker, and at the calls that are really made."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._changed_at = 0.0
        """When the present epoch began, in virtual seconds."""
        self._trials: dict[str, int] = {}
        """Permit to the epoch in which it was given."""
        self.store_troubled: Callable[[float], bool] = lambda _since: False

    def carried_out(self, flight: Flight, tables: Tables, now: datetime) -> None:
        """Look at what a statement has written."""
        old, new = self._book.before.breakers.get(SERVICE), tables.breakers.get(SERVICE)
        if new is None or new == old:
            return
        was, is_now = Circuit() if old is None else old.circuit, new.circuit
        about = f"{flight.process.name}: {was.phase} -> {is_now.phase}"
        if new.version != (0 if old is None else old.version) + 1:
            self._book.refuse("a breaker has one writer at a time", about)
        if is_now.epoch != was.epoch:
            self._changed_at = running_loop().time()
            self._stepped(flight, was, is_now, now, about)
        valid = [permit for permit, until in is_now.permits.items() if until > now]
        if len(valid) + is_now.passed > BREAKER.trials:
            self._book.refuse("no more trials than allowed", f"{about}: {len(valid)} permits")
        for permit in is_now.permits:
            self._trials.setdefault(permit, is_now.epoch)

    def set_back(self) -> None:
        """The store has lost what it knew last: everybody has to hear anew how it is."""
        self._changed_at = running_loop().time()

    def _stepped(
        self, flight: Flight, was: Circuit, is_now: Circuit, now: datetime, about: str
    ) -> None:
        if flight.process.name == OPERATOR:
            return  # people may do what they like
        if is_now.epoch != was.epoch + 1 or (was.phase, is_now.phase) not in STEPS:
            self._book.refuse("a breaker goes round its circle", about)
        if is_now.phase is Phase.HALF_OPEN and (was.half_open_at is None or now < was.half_open_at):
            self._book.refuse("no trial before its time", f"{about}, due {was.half_open_at}")

    def begun(self, run: Run) -> None:
        """Look at a call that begins."""
        row = self._book.before.breakers.get(SERVICE)
        if run.task != FRAGILE or row is None or row.circuit.phase is Phase.CLOSED:
            return
        circuit = row.circuit
        about = f"{self._book.history.job(run.job)} on {run.process.name}: {circuit.phase}"
        if self._trials.get(_permit(run)) != circuit.epoch:
            if self._changed_at + HEARD < running_loop().time() and self._is_well(
                run, self._changed_at
            ):
                self._book.refuse("no call while a breaker is open", about)
            return
        others = [each for each in self._going() if self._trials.get(_permit(each)) is not None]
        kept_since = running_loop().time() - KEPT
        # The permit of one who could not renew it is given to another: he is thought to be dead.
        known = [
            each
            for each in others
            if self._trials[_permit(each)] == circuit.epoch and self._is_well(each, kept_since)
        ]
        if len(known) + 1 + circuit.passed > BREAKER.trials:
            self._book.refuse("no more trials at once than allowed", f"{about}: {len(known) + 1}")

    def _going(self) -> list[Run]:
        going = self._book.ledger.going
        return [run for runs in going.values() for run in runs if run.task == FRAGILE]

    def _is_well(self, run: Run, since: float) -> bool:
        return run.process.well_since < since and not self.store_troubled(since)


def _permit(run: Run) -> str:
    return f"{run.job.hex}:{run.fence}"
