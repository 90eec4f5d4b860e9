"""The rules about limits: none is exceeded by valid claims, and a serial key keeps its order."""

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from detent.model.gates import Gate, gates_of
from detent.model.job import Claim
from detent.stores.memory.tables import Parked, Ready, Running, Tables
from detent.testing.simulation.book import Book


class LimitRules:
    """Looks at gates whenever somebody was let in."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._put_back: dict[str, UUID] = {}
        """The last job that was put back behind each ordered gate."""

    def ended(self, was: Running, now: object, tables: Tables) -> None:
        """Take note of a job that had begun: it is to begin again, or has come to its end."""
        for gate in gates_of(was.place.lane):
            if not isinstance(now, Ready | Parked):
                self._put_back.pop(gate.name, None)
            elif _is_ordered(tables, gate):
                self._put_back[gate.name] = was.place.id

    def claimed(self, claims: Iterable[Claim], tables: Tables) -> None:
        """Count anew, from the names of the lanes: whatever the store believes."""
        for claim in claims:
            self._check_order(claim, tables)
        for gate, used in _used(tables).items():
            rule = tables.limits.get(Gate(gate).definition)
            limit = None if rule is None else rule.limit.concurrency
            if limit is not None and used > limit:
                self._book.refuse("a limit is never exceeded", f"{gate}: {used} of {limit}")

    def _check_order(self, claim: Claim, tables: Tables) -> None:
        for gate in gates_of(claim.lane):
            first = self._put_back.get(gate.name, claim.id)
            waits = first in tables.ready or first in tables.parked
            if first != claim.id and waits and _is_ordered(tables, gate):
                history = self._book.history
                about = f"{gate.name}: {history.job(claim.id)} before {history.job(first)}"
                self._book.refuse("a serial key keeps its order", about)


def _is_ordered(tables: Tables, gate: Gate) -> bool:
    rule = tables.limits.get(gate.definition)
    return rule is not None and rule.limit.ordered


def is_blocked(tables: Tables, place: Ready) -> bool:
    """Tell whether a job stands behind a gate that is full, or that another job holds."""
    used = _used(tables)
    for gate in gates_of(place.lane):
        rule = tables.limits.get(gate.definition)
        if rule is None:
            return True
        limit = rule.limit.concurrency
        if limit is not None and used[gate.name] + gate.weight > limit:
            return True
        first = tables.holds.get(gate.name) if rule.limit.ordered else None
        if first not in (None, place.id) and (first in tables.ready or first in tables.parked):
            return True
    return False


def _used(tables: Tables) -> Counter[str]:
    used: Counter[str] = Counter()
    for claim in tables.running.values():
        for gate in gates_of(claim.place.lane):
            used[gate.name] += gate.weight
    return used
