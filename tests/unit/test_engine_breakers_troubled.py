"""If this fails, a bad network lets more trials pass than a breaker says, or none for ever."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from detent import Breaker, Retry
from detent.model.circuit import Phase
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SECOND = timedelta(seconds=1)
SERVICE = Breaker(window=20, minimum=5, wait=3 * SECOND, max_wait=6 * SECOND, trials=3)
PATIENT = Retry(max_attempts=1_000, delay=SECOND, backoff="fixed")


class Troubled:
    """Three nodes, a service that comes and goes, and a line that loses what it carries."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.stage = Stage()
        self.down = True
        self.trials = Counter[int]()
        self.calls = 0
        self.apps = [self.stage.app, self.stage.new_app(), self.stage.new_app()]
        for app in self.apps:
            app.breaker("service", SERVICE)
            app.task(breaker="service", retry=PATIENT, name="work")(self.work)

    async def work(self) -> None:
        circuit = self.stage.tables.breakers["service"].circuit
        if circuit.phase is Phase.HALF_OPEN:
            self.trials[circuit.epoch] += 1
        self.calls += 1
        await asyncio.sleep(self.random.uniform(0, 3))
        if self.down and self.random.random() < 0.8:
            raise ConnectionError

    async def lose_some(self) -> None:
        """Lose some writes of the breaker, or the replies to them, again and again.

        Not so many in a row that a node could be taken for dead: its permits would go to others.
        """
        while True:
            await asyncio.sleep(self.random.uniform(0, 2))
            self.stage.line.lose("save_breakers", reply=self.random.random() < 0.5)

    async def until(self, *phases: Phase) -> None:
        def is_so() -> bool:
            row = self.stage.tables.breakers.get("service")
            return row is not None and row.circuit.phase in phases

        await self.stage.until(is_so, 300)


@pytest.mark.parametrize("seed", range(8))
@in_virtual_time
async def test_never_too_many_trials_and_it_closes_in_the_end(seed: int) -> None:
    world = Troubled(seed)
    stage = world.stage
    stage.line.latency = 0.1
    task = stage.app.tasks.get("work")
    first, second, third = world.apps
    async with first.node(name="a"), second.node(name="b"), third.node(name="c"):
        trouble = asyncio.create_task(world.lose_some())
        jobs = [await task.enqueue() for _ in range(60)]
        for _ in range(3):
            await world.until(Phase.OPEN)
            await world.until(Phase.HALF_OPEN)
        world.down = False
        await world.until(Phase.CLOSED)
        trouble.cancel()
        stage.line.heal()
        for job in jobs:
            await job.result(timeout=600)
    assert world.trials, "it was tried"
    assert max(world.trials.values()) <= SERVICE.trials, world.trials
    assert (await stage.app.breakers.get("service")).phase is Phase.CLOSED
