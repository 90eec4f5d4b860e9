"""Counts jobs that failed for good, so that people are told once and not ten thousand times.

Failures are added up here, by task and fingerprint, while the last ones are being written; what
is new in its window the store puts into the outbox.
"""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from detent._engine.service import Service
from detent.events import Bus
from detent.model.fingerprint import Fingerprint, fingerprint
from detent.spi.outbox import AlertStore, Failures
from detent.spi.runtime import Runtime

IDLE: Final = 3_600.0
# More kinds than this at once are no kinds: while the store is away the rest is not counted.
MOST: Final = 10_000


class Alerter(Service):
    """Writes down what fails."""

    name = "alerter"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: AlertStore,
        *,
        window: timedelta,
        most_kinds: int,
        sinks: Sequence[str],
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._window = window
        self._most_kinds = most_kinds
        self._sinks = sinks
        self._pending: dict[tuple[str, str], Failures] = {}
        self.on_raised: Callable[[], None] = lambda: None

    def note(self, task: str, job: UUID, error: bytes | None, words: str = "") -> None:
        """Take note of a job that failed for good; its failure is committed.

        `error` is what was stored; `words` are all there is when that cannot be read here.
        """
        mark = fingerprint_of(error, words)
        key = (task, mark.digest)
        known = self._pending.get(key)
        if known is not None:
            self._pending[key] = known._replace(last_job=job, times=known.times + 1)
        elif len(self._pending) < MOST:
            self._pending[key] = Failures(task, mark, job, job, 1)
        self._wakeup.set()

    async def run(self) -> None:
        """Work until stopped, and then write the last."""
        await super().run()
        await self._run_guarded()

    async def run_once(self) -> float:
        """Write down what has been noted."""
        if not self._pending:
            return self.unasked(IDLE)
        batch, self._pending = self._pending, {}
        try:
            raised = await self._store.raise_alerts(
                list(batch.values()), self._window, self._sinks, self._most_kinds
            )
        except BaseException:
            for key, failures in batch.items():
                later = self._pending.get(key)
                times = failures.times + (later.times if later else 0)
                last = later.last_job if later else failures.last_job
                self._pending[key] = failures._replace(times=times, last_job=last)
            raise
        if raised:
            self.on_raised()
        return 0.0 if self._pending else IDLE


def fingerprint_of(error: bytes | None, words: str = "") -> Fingerprint:
    """Return the fingerprint of an error as it is stored, else of its words."""
    try:
        found = json.loads(error or b"")
        return fingerprint(found["type"], found["message"], found.get("traceback") or "")
    except (ValueError, TypeError, LookupError):
        # There is none, or it is encrypted.
        kind, _, message = words.partition(": ")
        return fingerprint(kind or "unknown", message)
