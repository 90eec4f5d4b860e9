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


class SignalReader(Service):
    """Looks for signals while jobs run, at least once a second, and at once when told.

    A try that is over between two looks is looked after when its end is written (`heed.py`).
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
        self.node_id: UUID | None = None

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
