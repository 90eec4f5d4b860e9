"""Finds jobs that stand below the floors, beside the hot path."""

from typing import Final

from detent._engine.claim import Claimer
from detent._engine.service import Service
from detent.events import Bus
from detent.spi.runtime import Runtime
from detent.spi.store import ClaimStore

INTERVAL: Final = 1.0
# A look may walk over many dead rows; it may cost 2 % of the time at most.
REST: Final = 50


class Looker(Service):
    """Looks at the whole queue from time to time and lowers the claimer's floors."""

    name = "looker"

    def __init__(self, runtime: Runtime, bus: Bus, store: ClaimStore, claimer: Claimer) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._claimer = claimer

    async def run_once(self) -> float:
        """Look once, if there are floors at all."""
        if not self._claimer.floors:
            return INTERVAL
        before = self.runtime.monotonic()
        positions = await self._store.look(self._claimer.lanes)
        if self._claimer.floors.lower_to(positions):
            self._claimer.wake()
        return max(INTERVAL, REST * (self.runtime.monotonic() - before))
