"""Forgets what became of slots long ago, so that schedules leave no more behind than their jobs.

It is done by the leader of the maintenance alone, a page at a time, and rests longer than it works.
"""

from datetime import timedelta
from typing import Final

from detent._engine.leadership import MAINTENANCE, Elector
from detent._engine.service import Service
from detent.config import SchedulesConfig
from detent.events import Bus
from detent.spi.runtime import Runtime
from detent.spi.schedules import ScheduleStore

PAGE: Final = 1_000
INTERVAL: Final = timedelta(minutes=30)
# How often a node that does not lead looks whether it does by now; this asks nobody.
GLANCE: Final = timedelta(minutes=1)
SHORTEST_REST: Final = 0.05


class SlotForgetter(Service):
    """Forgets, a page at a time."""

    name = "slots"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: ScheduleStore,
        elector: Elector,
        config: SchedulesConfig,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._elector = elector
        self._keep = config.keep_slots

    async def run_once(self) -> float:
        """Forget a page, if this node leads."""
        term = self._elector.leads(MAINTENANCE)
        if self._keep is None or term is None:
            return self.unasked(GLANCE.total_seconds())
        started = self.runtime.monotonic()
        gone = await self._store.prune_slots(self._keep, PAGE, term)
        if gone == PAGE:
            return max(self.runtime.monotonic() - started, SHORTEST_REST)
        return INTERVAL.total_seconds() * self.runtime.uniform(0.8, 1.0)
