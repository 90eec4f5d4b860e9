"""What some jobs of a simulation call: a service that is down for stretches of time."""

import asyncio
import random
from datetime import timedelta
from typing import Final

from detent.app import App
from detent.model.breaker import Breaker
from detent.model.retry import Retry
from detent.testing.virtual import running_loop

SERVICE: Final = "service"
"""The name of its breaker."""
FRAGILE: Final = "fragile"
"""The task that calls it."""
BREAKER: Final = Breaker(
    window=8,
    minimum=2,
    wait=timedelta(seconds=1.5),
    max_wait=timedelta(seconds=4),
    trials=2,
)
# Each failed call is charged, before the breaker opens and in every trial; refusals are not.
ATTEMPTS: Final = 30
# How long it is up, and how long it is down.
UP: Final = (1.0, 8.0)
DOWN: Final = (2.0, 12.0)


class Service:
    """Somebody else's, and not a part of the cluster: nothing that befalls that befalls it."""

    def __init__(self, seed: str, lasts: float) -> None:
        chance = random.Random(f"{seed} service")
        self._outages: list[tuple[float, float]] = []
        self.calls = 0
        self.failed = 0
        begins = chance.uniform(*UP)
        while begins < lasts:
            ends = begins + chance.uniform(*DOWN)
            self._outages.append((begins, ends))
            begins = ends + chance.uniform(*UP)

    def call(self) -> None:
        """Answer, or not."""
        now = running_loop().time()
        self.calls += 1
        if any(begins <= now < ends for begins, ends in self._outages):
            self.failed += 1
            raise ConnectionError("no answer")


def declare_fragile(app: App, service: Service) -> None:
    """Declare the task that calls the service, and its breaker."""
    app.breaker(SERVICE, BREAKER)

    @app.task(name=FRAGILE, breaker=SERVICE, retry=Retry(ATTEMPTS, timedelta(seconds=1), "fixed"))
    async def fragile(seconds: float) -> None:
        await asyncio.sleep(seconds)
        service.call()
