"""A lost tail of history: the store goes on from an earlier moment, as a promoted standby does.

What was written after that moment is gone. The rules know as much as they knew at that moment. What
follows from the loss is excused, and nothing else: see `Lost`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from detent.stores.memory.tables import Leadership, Lock, Tables
from detent.testing.simulation.book import Book

Row = TypeVar("Row", Leadership, Lock)
Part = tuple[object, Sequence[str]]
"""One who watches, and what of it is true only of the history that the store has."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to which the store may go back."""

    moment: float
    tables: Tables
    """What the store knew."""
    granted: Mapping[tuple[UUID, int], object]
    """The claims that it had given."""
    known: Sequence[tuple[object, str, Any]]
    """What those who watch knew."""


class Tail:
    """Takes those who watch back together with the store."""

    def __init__(self, book: Book, parts: Sequence[Part]) -> None:
        self._book = book
        self._parts = (
            (book, ("accepted", "ends", "returns")),
            (book.ledger, ("effects",)),
            *parts,
        )

    def mark(self, tables: Tables) -> Mark:
        """Return the present moment."""
        known = [
            (part, name, _copied(getattr(part, name)))
            for part, names in self._parts
            for name in names
        ]
        return Mark(self._book.history.now(), tables.snapshot(), dict(self._book.granted), known)

    def go_back(self, mark: Mark, lost: Tables) -> None:
        """Take note of what is lost, and know as little as at that moment."""
        book = self._book
        book.lost.accepted.update(
            (claim, None) for claim in book.accepted if claim not in _known(mark, "accepted")
        )
        book.lost.beats.update(
            (node, None) for node, row in lost.nodes.items() if row != mark.tables.nodes.get(node)
        )
        book.lost.jobs.update(
            (job_id, None) for job_id in lost.job if job_id not in mark.tables.job
        )
        book.lost.terms.update(
            ((row.role, row.term), None) for row in _changed(lost.leaders, mark.tables.leaders)
        )
        now = book.history.now()
        book.lost.locks.update(
            ((row.name, row.fence), now) for row in _changed(lost.locks, mark.tables.locks)
        )
        for part, name, value in mark.known:
            setattr(part, name, _copied(value))
        for claim in book.granted:
            if claim not in mark.granted:
                book.lost.claims[claim] = now
                if (run := book.ledger.runs.get(claim)) is not None:
                    book.excuse_run(run)
        book.before = mark.tables.snapshot()


def _changed(lost: Mapping[str, Row], kept: Mapping[str, Row]) -> list[Row]:
    """Return the rows that were written after the moment that is kept."""
    return [row for name, row in lost.items() if row != kept.get(name)]


def _known(mark: Mark, wanted: str) -> Any:
    (found,) = [value for _, name, value in mark.known if name == wanted]
    return found


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value
