"""Removes locks that were never given back: each stands for a process that died holding it.

They are in nobody's way, since a lock whose time is over is free. So it is done now and then, by
the leader of the maintenance alone.
"""

from datetime import timedelta
from typing import Final

from detent._engine.leadership import MAINTENANCE, Elector
from detent._engine.service import Service
from detent.events import Bus
from detent.spi.locks import LockStore
from detent.spi.runtime import Runtime

PAGE: Final = 500
INTERVAL: Final = timedelta(hours=1)
# How often a node that does not lead looks whether it does by now; this asks nobody.
GLANCE: Final = timedelta(minutes=1)
# Long enough for people to see in the database who held it.
KEPT: Final = timedelta(days=1)


class LockForgetter(Service):
    """Forgets, a page at a time."""

    name = "locks"

    def __init__(self, runtime: Runtime, bus: Bus, store: LockStore, elector: Elector) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._elector = elector

    async def run_once(self) -> float:
        """Forget a page, if this node leads."""
        term = self._elector.leads(MAINTENANCE)
        if term is None:
            return self.unasked(GLANCE.total_seconds())
        gone = await self._store.forget_locks(term, KEPT, PAGE)
        return 1.0 if gone == PAGE else INTERVAL.total_seconds() * self.runtime.uniform(0.8, 1.0)
