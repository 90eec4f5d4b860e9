"""The rules about leaders and locks: terms and fences grow, and nothing counts under an old one."""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from detent.model.numbers import EPOCH
from detent.spi.leadership import Term
from detent.stores.memory.leadership import is_valid
from detent.stores.memory.nodes import DEAD
from detent.stores.memory.tables import Leadership, Tables
from detent.testing.simulation.book import Book
from detent.testing.simulation.distant import Flight
from detent.testing.simulation.ledger import Reign
from detent.testing.simulation.process import Process
from detent.testing.simulation.workload import LOCKED

NOBODY: Final = UUID(int=0)
DAEMON: Final = "daemon:beacon"


class LeaderRules:
    """Looks at elections, and at what is written in the name of a term."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._fences: dict[str, tuple[int, UUID]] = {}
        self._last_term = 0
        self._given: dict[str, int] = {}
        """Role to the highest term that anybody was given."""
        self.believes: Callable[[Process, str], Term | None] = lambda _process, _role: None
        """Under which term a process believes to lead a role at this moment."""
        book.ledger.on_reign = self.reigned
        book.ledger.on_hold = self.held

    def carried_out(self, flight: Flight, tables: Tables, now: datetime) -> None:
        """Look at every role whose row a statement has changed."""
        old = self._book.before.leaders
        for role, row in tables.leaders.items():
            if row != old.get(role):
                self._changed(flight, old.get(role), row, now)

    def _changed(
        self, flight: Flight, was: Leadership | None, row: Leadership, now: datetime
    ) -> None:
        about = f"{flight.statement} {row.role} term {row.term}"
        before = 0 if was is None else was.term
        if row.term != before and (row.term < before or row.term % EPOCH != before % EPOCH + 1):
            self._book.refuse("terms grow by one", about)
        if row.term > before:
            if row.term <= self._given.get(row.role, 0):
                self._book.refuse("a term is given once", about)
            self._given[row.role] = max(row.term, self._given.get(row.role, 0))
            if was is not None and was.node != row.node and self._is_led(was, now):
                self._book.refuse("nobody is elected while another leads", about)
            self._check_believers(flight.process, row, about)
        elif was is not None and row.node not in (was.node, None):
            self._book.refuse("a new leader has a new term", about)
        elif was is not None and flight.process is not self._book.processes.get(was.node or NOBODY):
            self._book.refuse("only a leader keeps or gives up his term", about)
        else:
            self._book.lost.terms.pop((row.role, row.term), None)

    def _is_led(self, row: Leadership, now: datetime) -> bool:
        if row.node is None or row.lease_until <= now:
            return False
        node = self._book.before.nodes.get(row.node)
        return node is None or node.state != DEAD

    def _check_believers(self, elected: Process, row: Leadership, about: str) -> None:
        """Whoever led before does no longer believe so, if he is awake."""
        for process in self._book.incarnations:
            if process is elected or not self._book.is_aware(process):
                continue
            term = self.believes(process, row.role)
            if term is not None and (row.role, term.number) not in self._book.lost.terms:
                self._book.refuse("one leader at a time", f"{about}: so does {process.name}")

    def written(self, flight: Flight) -> None:
        """Look at what was written under a term."""
        terms = [each for each in flight.args if isinstance(each, Term)]
        for term in terms:
            if flight.answer and not is_valid(self._book.before, term):
                about = f"{flight.statement} {term.role} term {term.number}"
                self._book.refuse("nothing is written under an old term", about)

    def reigned(self, reign: Reign, others: list[Reign]) -> None:
        """A daemon has committed something under its term."""
        about = f"term {reign.term} on {reign.process.name}"
        if reign.term < self._last_term:
            self._book.refuse("nothing is written under an old term", about)
        self._last_term = max(self._last_term, reign.term)
        for other in others:
            if (DAEMON, other.term) in self._book.lost.terms:
                continue
            if other.term > reign.term or self._book.is_aware(other.process):
                self._book.refuse("one daemon at a time", f"{about}: also on {other.process.name}")

    def held(self, name: str, reign: Reign, other: Reign) -> None:
        """Somebody acts under a lock while another does who does not know that he has lost it."""
        forgotten = self._book.lost.locks.get((name, other.term))
        if forgotten is not None and self._book.history.now() < forgotten + LOCKED:
            return  # the other one has not had to ask again yet
        about = f"{name}: {reign.process.name} and {other.process.name}"
        self._book.refuse("one at a time under a lock", about)

    def locked(self, flight: Flight, now: datetime) -> None:
        """Look at a lock that somebody got."""
        name, holder = flight.args[0], flight.args[1]
        fence = flight.answer.fence
        if fence is None:
            return
        about = f"{name} fence {fence}"
        row = self._book.before.locks.get(name)
        if row is not None and row.holder != holder and row.expires_at > now:
            self._book.refuse("a lock has one holder", about)
        last, by = self._fences.get(name, (0, holder))
        if fence < last or (fence == last and by != holder):
            self._book.refuse("the fences of a lock grow", about)
        self._fences[name] = (fence, holder)
