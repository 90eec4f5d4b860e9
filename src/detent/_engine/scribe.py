"""Writes what running jobs say about themselves, in batches: progress and log lines."""

import asyncio
from typing import Final
from uuid import UUID

from detent._engine.service import Service
from detent.events import Bus
from detent.model.job import LogLine, Progress
from detent.spi.runtime import Runtime
from detent.spi.store import ContextStore

INTERVAL: Final = 1.0
BATCH: Final = 500
BUFFERED: Final = 10_000


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
        # One at a time: who finds nothing to write must know that it is written.
        self._flushing = asyncio.Lock()
        self.node_id: UUID | None = None

    def progress(self, progress: Progress) -> None:
        """Keep how far a job is; what it said before no longer matters."""
        self._progress[progress.id] = progress

    def log(self, line: LogLine) -> None:
        """Keep a line, unless far too many wait already: memory has an end."""
        if len(self._lines) < BUFFERED:
            self._lines.append(line)

    async def run_once(self) -> float:
        """Write what has gathered."""
        await self.flush()
        return INTERVAL

    async def flush(self) -> None:
        """Write everything now; the end of a job must not overtake what it said."""
        async with self._flushing:
            while (node := self.node_id) is not None and (self._progress or self._lines):
                progress = [self._progress.popitem()[1] for _ in range(len(self._progress))]
                lines = self._lines[:BATCH]
                if progress:
                    await self._store.save_progress(node, progress)
                if lines and self.node_id == node:
                    await self._store.append_log(node, lines)
                if self.node_id == node:
                    # Only now: what could not be written is tried again, in its order.
                    del self._lines[: len(lines)]

    def forget(self) -> None:
        """Drop what has gathered: the node has lost its claims."""
        self._progress.clear()
        self._lines.clear()
