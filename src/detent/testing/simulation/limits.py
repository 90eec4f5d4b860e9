"""The rule about limits: what runs by valid claims never takes more of one than there is."""

from collections import Counter

from detent.model.gates import Gate, gates_of
from detent.stores.memory.tables import Ready, Tables
from detent.testing.simulation.book import Book


class LimitRules:
    """Looks at gates whenever somebody was let in."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def claimed(self, tables: Tables) -> None:
        """Count anew, from the names of the lanes: whatever the store believes."""
        for gate, used in _used(tables).items():
            rule = tables.limits.get(Gate(gate).definition)
            limit = None if rule is None else rule.limit.concurrency
            if limit is not None and used > limit:
                self._book.refuse("a limit is never exceeded", f"{gate}: {used} of {limit}")


def is_blocked(tables: Tables, place: Ready) -> bool:
    """Tell whether a job stands behind a gate that is full at this moment."""
    used = _used(tables)
    for gate in gates_of(place.lane):
        rule = tables.limits.get(gate.definition)
        if rule is None:
            return True
        limit = rule.limit.concurrency
        if limit is not None and used[gate.name] + gate.weight > limit:
            return True
    return False


def _used(tables: Tables) -> Counter[str]:
    used: Counter[str] = Counter()
    for claim in tables.running.values():
        for gate in gates_of(claim.place.lane):
            used[gate.name] += gate.weight
    return used
