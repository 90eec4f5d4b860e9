"""Somebody outside whom the cluster tells how jobs end, and the rules about telling him."""

import asyncio
import random
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from detent.model.job import Hook
from detent.spi.outbox import AlertInfo, OutboxEvent
from detent.stores.memory.tables import Outcome, Tables
from detent.testing.simulation.book import Book
from detent.testing.virtual import running_loop

SINK: Final = "outside"
# As often as anybody may die with an event, which is never given up here.
ATTEMPTS: Final = 100
TIMEOUT: Final = 3.0
# How long he takes, at times longer than one waits for him.
SLOW: Final = (0.0, 0.0, 0.2, 1.0, 4.0)
REFUSES: Final = 0.2

End = tuple[UUID, int]
"""A job and which of its lives has ended."""


class OutboxRules:
    """Knows which ends there were, and which of them somebody outside has heard of."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.ends: dict[End, str] = {}
        """Each end that was to be told, and how it was."""
        self._heard: dict[End, int] = {}
        """How often each was told."""
        self._forgotten: dict[tuple[End, str], None] = {}
        """Ends that the store has lost; they may be told all the same, by who had them in hand."""

    @property
    def delivered(self) -> int:
        """How many ends were told."""
        return len(self._heard)

    @property
    def repeated(self) -> int:
        """How often somebody was told again what he knew."""
        return sum(self._heard.values()) - len(self._heard)

    def moved(self, job_id: UUID, tables: Tables) -> None:
        """A job went somewhere: if that is its end, its event stands in the outbox with it."""
        outcome = tables.outcome.get(job_id)
        if outcome is None or not tables.job[job_id].new.hooks & Hook.EVENT:
            return
        end = (job_id, outcome.generation)
        if end not in self.ends:
            self.ends[end] = str(outcome.state)
            if not _is_written(tables, outcome):
                self._book.refuse("an end is written with its event", self._said(end))

    def received(self, event: OutboxEvent) -> None:
        """Somebody outside has got an event."""
        end = (event.job, event.generation)
        if self.ends.get(end) != event.kind:
            if (end, event.kind) in self._forgotten:
                return
            self._book.refuse("what is told has happened", f"{self._said(end)}: {event.kind}")
        if end not in self._heard and any(
            (job, life) not in self._heard
            for job, life in self.ends
            if job == event.job and life < event.generation
        ):
            self._book.refuse("the ends of a job are told in order", self._said(end))
        self._heard[end] = self._heard.get(end, 0) + 1

    def forget(self, ends: Mapping[End, str]) -> None:
        """The store has lost some of these ends: there will be others, to be told again."""
        for end, kind in ends.items():
            if end not in self.ends:
                self._forgotten[end, kind] = None
                self._heard.pop(end, None)

    def check_end(self, tables: Tables) -> None:
        """Everything has come to rest: nobody is owed any news."""
        for end in self.ends:
            if end not in self._heard:
                self._book.refuse("every end is told", self._said(end))
        for row in tables.events.values():
            about = self._said((row.event.job, row.event.generation))
            self._book.refuse("what was told leaves the outbox", about)

    def _said(self, end: End) -> str:
        return f"{self._book.history.job(end[0])} generation {end[1]}"


class Receiver:
    """No part of the cluster: nothing that befalls that befalls him, but he is slow and moody."""

    def __init__(self, seed: str, lasts: float, rules: OutboxRules) -> None:
        self._chance = random.Random(f"{seed} receiver")
        self._lasts = lasts
        self._rules = rules

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """See `Sink.deliver`."""
        assert alert is None
        if running_loop().time() < self._lasts:
            await asyncio.sleep(self._chance.choice(SLOW))
            if self._chance.random() < REFUSES:
                raise ConnectionError("not now")
        self._rules.received(event)
        # Until his answer is back, whoever waits for it may die.
        await asyncio.sleep(self._chance.uniform(0.0, 0.3))


def _is_written(tables: Tables, outcome: Outcome) -> bool:
    wanted = (outcome.id, outcome.generation, str(outcome.state), SINK)
    return any(
        (row.event.job, row.event.generation, row.event.kind, row.event.sink) == wanted
        for row in tables.events.values()
    )
