"""Finds jobs that stand below the floors, beside the hot path."""

from collections.abc import Sequence
from typing import Final

from detent._engine.claim import Claimer
from detent._engine.service import Service
from detent.events import Bus
from detent.spi.runtime import Runtime
from detent.spi.store import ClaimStore

INTERVAL: Final = 1.0
# How many lanes are looked at by one statement.
PAGE: Final = 500
# A look may walk over many dead rows; it may cost 2 % of the time at most.
REST: Final = 50
# What was slow may have been our own event loop or the line, and not the look.
LONGEST_REST: Final = 20.0


def rest_after(took: float) -> float:
    """Return how long not to look after a look that took so long."""
    return min(REST * took, LONGEST_REST)


class Looker(Service):
    """Looks at the whole queue from time to time and lowers the claimer's floors."""

    name = "looker"

    def __init__(self, runtime: Runtime, bus: Bus, store: ClaimStore, claimer: Claimer) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._claimer = claimer
        self._unseen: Sequence[str] = ()
        """The lanes that are still to be looked at in this round."""

    async def run_once(self) -> float:
        """Look once, unless nothing has been going on: then the next poll sees everything."""
        claimer = self._claimer
        if not self._unseen and not claimer.stirred:
            return self.unasked(INTERVAL)
        if not self._unseen:
            claimer.stirred = False
            self._unseen = claimer.lanes
        page, self._unseen = self._unseen[:PAGE], self._unseen[PAGE:]
        before, moment = self.runtime.monotonic(), claimer.store_time()
        positions = await self._store.look(page)
        if claimer.floors.learn(page, positions, moment):
            claimer.poll_soon()
        rest = rest_after(self.runtime.monotonic() - before)
        return rest if self._unseen else max(INTERVAL, rest)
