"""Writes what running jobs say about themselves, in batches: progress and log lines."""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from detent._engine.service import Service
from detent.events import Bus
from detent.model.batches import batches
from detent.model.job import LogLine, Progress
from detent.spi.runtime import Runtime
from detent.spi.store import ContextStore

INTERVAL: Final = 1.0
BATCH: Final = 500
BATCH_SIZE: Final = 1 << 20
BUFFERED: Final = 10_000
BUFFERED_SIZE: Final = 16 << 20
"""Characters; a line has at most 8,192 of them by default."""


class Scribe(Service):
    """Keeps the latest progress of each job and every log line, at most once a second.

    Both may be called from threads: appending to a list and setting a dictionary entry are
    atomic, and the service looks again within its interval.
    """

    name = "scribe"

    def __init__(self, runtime: Runtime, bus: Bus, store: ContextStore) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._progress: dict[UUID, Progress] = {}
        self._lines: list[LogLine] = []
        self._size = 0
        # One at a time: who finds nothing to write must know that it is written.
        self._flushing = asyncio.Lock()
        self.node_id: UUID | None = None

    def progress(self, progress: Progress) -> None:
        """Keep how far a job is; what it said before no longer matters."""
        self._progress[progress.id] = progress

    def log(self, line: LogLine) -> None:
        """Keep a line, unless far too many wait already: memory has an end."""
        if len(self._lines) < BUFFERED and self._size < BUFFERED_SIZE:
            self._size += len(line.message)
            self._lines.append(line)

    async def run_once(self) -> float:
        """Write what has gathered."""
        if not (self._progress or self._lines):
            return self.unasked(INTERVAL)
        await self.flush()
        return INTERVAL

    async def flush(self) -> None:
        """Write everything now; the end of a job must not overtake what it said."""
        async with self._flushing:
            while (node := self.node_id) is not None and (self._progress or self._lines):
                count = min(len(self._progress), BATCH)
                progress = [self._progress.popitem()[1] for _ in range(count)]
                lines = self._next_lines()
                if progress:
                    await self._store.save_progress(node, progress)
                if lines and self.node_id == node:
                    await self._store.append_log(node, lines)
                if self.node_id == node:
                    # Only now: what could not be written is tried again, in its order.
                    del self._lines[: len(lines)]
                    left = sum(len(line.message) for line in lines)
                    self._size = max(self._size - left, 0) if self._lines else 0

    def _next_lines(self) -> Sequence[LogLine]:
        """Return the first lines, as many as one statement may bring."""
        first = self._lines[:BATCH]
        return next(batches(first, lambda line: len(line.message), BATCH, BATCH_SIZE), ())

    def forget(self) -> None:
        """Drop what has gathered: the node has lost its claims."""
        self._progress.clear()
        self._lines.clear()
        self._size = 0
