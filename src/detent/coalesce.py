"""Lets concurrent enqueues share a commit.

While one insert is on its way, other callers gather; all of them go with the next. Each caller
is answered after the commit that holds his jobs. A lone caller goes straight through.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, ParamSpec, TypeVar

from detent.errors import StoreError, StoreUnavailable
from detent.model.job import NewJob

AT_ONCE: Final = 2
BATCH: Final = 1_000
TRIES: Final = 4
PAUSE: Final = 0.05

P = ParamSpec("P")
T = TypeVar("T")
Insert = Callable[[Sequence[NewJob]], Awaitable[None]]


class _Waiting(NamedTuple):
    jobs: Sequence[NewJob]
    answer: asyncio.Future[None]


class Coalescer:
    """The inserts of one event loop."""

    def __init__(self, insert: Insert) -> None:
        self.loop = asyncio.get_running_loop()
        self.announced = False
        """Whether nodes were told of a job of this loop."""
        self._insert = insert
        self._on_the_way = 0
        self._waiting: deque[_Waiting] = deque()
        self._flushes: dict[asyncio.Task[None], None] = {}

    async def enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Store jobs, alone or with others, and return when they are durable."""
        if not self._on_the_way:
            await self._alone(jobs)
            return
        answer: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(_Waiting(jobs, answer))
        if self._on_the_way < AT_ONCE:
            self._flush_soon()
        # Canceling this caller does not cancel the batch that others are in.
        await answer

    async def _alone(self, jobs: Sequence[NewJob]) -> None:
        self._on_the_way += 1
        try:
            await surely(self._insert, jobs)
        finally:
            self._on_the_way -= 1
            if self._waiting:
                self._flush_soon()

    def _flush_soon(self) -> None:
        self._on_the_way += 1
        task = self.loop.create_task(self._flush())
        self._flushes[task] = None
        task.add_done_callback(lambda done: self._flushes.pop(done, None))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._insert_batch(self._gather())
        finally:
            self._on_the_way -= 1

    def _gather(self) -> list[_Waiting]:
        """Take callers until their jobs fill a batch."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0].jobs) <= BATCH):
            batch.append(self._waiting.popleft())
            size += len(batch[-1].jobs)
        return batch

    async def _insert_batch(self, batch: list[_Waiting]) -> None:
        """Insert together; when the store refuses, find the guilty one and spare the others."""
        try:
            await surely(self._insert, [job for entry in batch for job in entry.jobs])
        except StoreUnavailable as error:
            self._answer(batch, error)
        except StoreError as error:
            if len(batch) == 1:
                self._answer(batch, error)
                return
            middle = len(batch) // 2
            await self._insert_batch(batch[:middle])
            await self._insert_batch(batch[middle:])
        except BaseException as error:
            # Nobody may be left who would insert for those that still wait.
            waiting = [*batch, *self._waiting]
            self._waiting.clear()
            self._answer(waiting, StoreError(f"the insert was broken off: {error!r}"))
            raise
        else:
            self._answer(batch, None)

    def _answer(self, batch: list[_Waiting], error: Exception | None) -> None:
        for entry in batch:
            if entry.answer.done():
                continue
            if error is None:
                entry.answer.set_result(None)
            else:
                entry.answer.set_exception(error)

    async def flushed(self) -> None:
        """Wait until nothing is on the way."""
        while self._flushes:
            await asyncio.wait(list(self._flushes))


async def surely(insert: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Insert, again after a lost connection: the ids are ours, so nothing is stored twice."""
    for attempt in range(TRIES - 1):
        try:
            return await insert(*args, **kwargs)
        except StoreUnavailable:
            await asyncio.sleep(PAUSE * (1 << attempt))
    return await insert(*args, **kwargs)
