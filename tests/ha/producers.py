"""Bring jobs through every failover, and remember what was acknowledged, and when."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final
from uuid import UUID

from detent import App
from detent.errors import StoreError
from tests.chaos.tasks import chaos
from tests.ha.tasks import PERMITS, limited, long

PAUSE: Final = 0.1
LONG: Final = 20.0


class Producers:
    """Four kinds of callers: in bulk, one by one with keys, with a limit, and of long jobs."""

    def __init__(self, url: str) -> None:
        self._app = App(url)
        self._app.limit("five", concurrency=PERMITS)
        self._chaos = self._app.task(name="chaos")(chaos.function)
        self._limited = self._app.task(name="limited", resource="five")(limited.function)
        self._lengthy = self._app.task(name="long")(long.function)
        self._numbers = count(1)
        self._going: list[asyncio.Task[None]] = []
        self.acknowledged: dict[UUID, float] = {}
        """Jobs, and when their caller had the answer."""
        self.limited: set[UUID] = set()
        self.long: set[UUID] = set()
        self.refused = 0

    def start(self) -> None:
        """Begin to enqueue."""
        kinds: list[tuple[Callable[[], Awaitable[Any]], float]] = [
            (self._bulk, PAUSE),
            (self._keyed, PAUSE),
            (self._few, PAUSE * 5),
            (self._long, LONG / 4),
        ]
        self._going = [asyncio.create_task(self._repeat(*kind)) for kind in kinds]

    async def stop(self) -> None:
        """Enqueue no more."""
        for each in self._going:
            each.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        await self._app.close()

    async def _repeat(self, enqueue: Callable[[], Awaitable[Any]], pause: float) -> None:
        while True:
            try:
                await enqueue()
            except StoreError:
                self.refused += 1
            await asyncio.sleep(pause)

    async def _bulk(self) -> None:
        self._note(*await self._app.enqueue_many([self._chaos.bind(0.05) for _ in range(5)]))

    async def _keyed(self) -> None:
        key = f"ha-{next(self._numbers)}"
        self._note(await self._chaos.options(key=key).enqueue(0.05))

    async def _few(self) -> None:
        jobs = await self._app.enqueue_many([self._limited.bind(0.3) for _ in range(4)])
        self.limited |= {job.id for job in jobs}
        self._note(*jobs)

    async def _long(self) -> None:
        job = await self._lengthy.enqueue(LONG)
        self.long.add(job.id)
        self._note(job)

    def _note(self, *jobs: Any) -> None:
        now = time.time()
        self.acknowledged.update((job.id, now) for job in jobs)
