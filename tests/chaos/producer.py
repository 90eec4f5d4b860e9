"""Brings the jobs, through every trouble, and knows how many are left."""

import asyncio
import random
from collections.abc import Callable
from typing import Final
from uuid import UUID

import asyncpg

from detent import App
from detent.errors import StoreError
from detent.stores.postgres.failures import DRIVER_ERRORS
from tests.chaos.plan import Plan
from tests.chaos.tasks import chaos

BATCH: Final = 500
LOOK: Final = 0.5
# So many of the jobs come before the first fault; the others as faults are done.
FIRST: Final = 0.1
LEFT: Final = """
    SELECT (SELECT count(*) FROM detent.detent_ready) + (SELECT count(*) FROM detent.detent_running)
        + (SELECT count(*) FROM detent.detent_parked)
"""


class Producer:
    """Enqueues all jobs; what was acknowledged must never be lost."""

    def __init__(self, url: str, plan: Plan, faults_done: Callable[[], float]) -> None:
        self._url = url
        self._app = App(url)
        self._task = self._app.task(name="chaos")(chaos.function)
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._faults_done = faults_done
        self.acknowledged: list[UUID] = []
        self.refusals = 0
        """How often the store was not there for an enqueue."""
        self.left = 0
        """How many jobs had not ended when somebody last looked."""
        self.over = False
        """Whether all jobs were brought, and most of them have ended."""

    async def run(self) -> None:
        """Enqueue in batches, and never so many that the nodes could not do without them."""
        try:
            await self._produce()
            await self.until_left(int(self._plan.jobs * FIRST / 2))
        finally:
            self.over = True
            await self._app.close()

    async def _produce(self) -> None:
        while missing := self._plan.jobs - len(self.acknowledged):
            allowed = self._plan.jobs * (FIRST + self._faults_done())
            if self.left > self._plan.backlog or len(self.acknowledged) >= allowed:
                await asyncio.sleep(LOOK)
                continue
            size = min(BATCH, missing)
            calls = [self._task.bind(self._lasts()) for _ in range(size)]
            try:
                jobs = await self._app.enqueue_many(calls)
            except StoreError:
                self.refusals += 1
                await asyncio.sleep(0.2)
                continue
            self.acknowledged += [job.id for job in jobs]
            self.left += size

    def _lasts(self) -> float:
        """Most jobs last long enough to be met by a fault, and a few as long as a lease."""
        longest = 1.5 if self._random.random() < 0.002 else 0.4
        return self._random.uniform(0.05, longest) * self._plan.pace

    async def until_left(self, count: int) -> None:
        """Wait until no more than so many jobs are left."""
        while self.left > count:  # noqa: ASYNC110  the database tells nobody
            await asyncio.sleep(LOOK / 2)

    async def watch(self) -> None:
        """Look for ever how many jobs are left, whenever the database can say so."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                connection = await asyncpg.connect(self._url, timeout=5)
                try:
                    self.left = await connection.fetchval(LEFT, timeout=10)
                finally:
                    await connection.close(timeout=5)
            except DRIVER_ERRORS:
                continue
