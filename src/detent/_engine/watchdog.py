"""Notices when a job blocks the event loop, and says which one and where.

The lease is renewed from another thread, so nothing is lost; but no other job of the node goes
on, and no cancel or timeout can reach it. Code that also keeps the other threads from going on, as
a C extension can, costs the node its lease: that is told when it is over.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from detent._engine.attempt import Attempt
from detent._engine.dispatch import Dispatcher
from detent._engine.service import Service
from detent.events import Bus, LoopBlocked, ProcessHeldUp
from detent.spi.runtime import Runtime

PULSE: Final = 0.25
LOOK: Final = 0.25
# A loop that stays blocked is told of again each time this many times longer.
AGAIN: Final = 4.0


class Watchdog(Service):
    """Beats on the loop that it guards; another thread looks whether it still does."""

    name = "watchdog"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        *,
        dispatcher: Dispatcher,
        patience: timedelta,
        stack: Callable[[], str],
    ) -> None:
        super().__init__(runtime, bus)
        self._dispatcher = dispatcher
        self._patience = patience.total_seconds()
        self._stack = stack
        self._beat_at = runtime.monotonic()
        self._tell_at = self._patience
        self._loop: asyncio.AbstractEventLoop | None = None
        self.lag = 0.0
        """How late the last beat was."""

    async def run_once(self) -> float:
        """Beat."""
        now = self.runtime.monotonic()
        self._loop = asyncio.get_running_loop()
        self.lag = max(now - self._beat_at - PULSE, 0.0)
        self._beat_at = now
        return PULSE

    async def look_on(self) -> None:
        """Look for ever whether it still beats; runs on another thread."""
        while True:
            before = self.runtime.monotonic()
            await self.runtime.sleep(LOOK)
            held_up = self.runtime.monotonic() - before - LOOK
            if self._loop is None or self._stopping:
                continue  # it does not beat yet, or no longer
            if held_up >= self._patience:
                self._tell_of_all(held_up)
            else:
                self._look()

    def _look(self) -> None:
        silent = self.runtime.monotonic() - self._beat_at
        if silent < self._patience + PULSE:
            self._tell_at = self._patience
        elif silent >= self._tell_at:
            self._tell_at = silent * AGAIN
            self._tell(silent)

    def _tell(self, silent: float) -> None:
        culprit = self._culprit()
        if culprit is None:
            self.bus.emit(LoopBlocked(None, silent, None, None, self._stack()))
        else:
            claim = culprit.claim
            self.bus.emit(LoopBlocked(culprit.node_id, silent, claim.id, claim.task, self._stack()))

    def _tell_of_all(self, held_up: float) -> None:
        # Whoever held up everybody has only just let go: the others were waiting for that. One that
        # is over in the same moment may not be seen.
        culprit = self._culprit()
        tasks = list(dict.fromkeys(each.claim.task for each in self._dispatcher.executing()))
        if culprit is None:
            self.bus.emit(ProcessHeldUp(None, held_up, None, None, tasks))
        else:
            claim = culprit.claim
            self.bus.emit(ProcessHeldUp(culprit.node_id, held_up, claim.id, claim.task, tasks))

    def _culprit(self) -> Attempt | None:
        """Return the job that has the event loop at this moment."""
        task = asyncio.current_task(self._loop)
        for attempt in self._dispatcher.executing():
            if attempt.task is task and task is not None:
                return attempt
        return None
