"""Forgets what rates and ordered limits remember of keys that are no longer used.

They are in nobody's way. So it is done now and then, by the leader of the maintenance alone.
"""

from datetime import timedelta
from typing import Final, Protocol

from detent._engine.leadership import MAINTENANCE, Elector
from detent._engine.service import Service
from detent.events import Bus
from detent.spi.limits import LimitStore
from detent.spi.rates import RateStore
from detent.spi.runtime import Runtime

PAGE: Final = 500
INTERVAL: Final = timedelta(minutes=5)
# How often a node that does not lead looks whether it does by now; this asks nobody.
GLANCE: Final = timedelta(minutes=1)
# How long a rate is remembered that has been full again.
IDLE: Final = timedelta(minutes=1)


class Forgetful(RateStore, LimitStore, Protocol):
    """What remembers rates, and the jobs that hold ordered limits."""


class RateForgetter(Service):
    """Forgets, a page at a time."""

    name = "rates"

    def __init__(self, runtime: Runtime, bus: Bus, store: Forgetful, elector: Elector) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._elector = elector

    async def run_once(self) -> float:
        """Forget a page, if this node leads."""
        term = self._elector.leads(MAINTENANCE)
        if term is None:
            return self.unasked(GLANCE.total_seconds())
        rates = await self._store.forget_rates(IDLE.total_seconds(), PAGE, term)
        holds = await self._store.forget_holds(PAGE, term)
        if max(rates, holds) >= PAGE:
            return 1.0
        return INTERVAL.total_seconds() * self.runtime.uniform(0.8, 1.0)
