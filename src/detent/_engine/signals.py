"""Brings messages from the store to running jobs: the cancel requests."""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from detent._engine.dispatch import Dispatcher
from detent._engine.service import Service
from detent.events import Bus
from detent.spi.runtime import Runtime
from detent.spi.store import ContextStore

# While nothing runs no job can be meant.
NOTHING_RUNS: Final = 1.0
# How soon to look after jobs have come that were tried before: one look for all of this time.
SOON: Final = 0.05


class SignalReader(Service):
    """Looks for signals while jobs run, at least once a second, and at once when told.

    A request to cancel outlives a try that has not heard of it. So when jobs are tried again it
    looks soon: a short try would else lie between two looks, and the next one as well.
    """

    name = "signals"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: ContextStore,
        dispatcher: Dispatcher,
        interval: float,
        troubled: Callable[[], None],
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._dispatcher = dispatcher
        self._interval = interval
        self._troubled = troubled
        self._will_look = False
        self.node_id: UUID | None = None

    def look_soon(self) -> None:
        """Look for requests that came before their jobs were claimed."""
        if not self._will_look:
            self._will_look = True
            self.runtime.later(SOON, self._look)

    def _look(self) -> None:
        self._will_look = False
        self.wake()

    async def run_once(self) -> float:
        """Deliver what has come."""
        if self.node_id is None or not self._dispatcher.held:
            return self.unasked(NOTHING_RUNS)
        for signal in await self._store.signals_for(self.node_id):
            if signal.kind == "cancel":
                self._dispatcher.cancel(signal.id, signal.fence, signal.reason)
        return self._interval

    def on_trouble(self, error: Exception) -> None:
        """Let the claims be compared: it asks most often while jobs run, and so knows first."""
        self._troubled()
