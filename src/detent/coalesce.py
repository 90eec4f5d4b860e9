"""Lets concurrent enqueues share a commit.

While one insert is on its way, other callers gather; all of them go with the next. Each caller
is answered after the commit that holds its jobs. A lone caller goes straight through.

Where calls are rare and commits are quick, the commit of a lone caller wakes the nodes as well,
which saves a round trip. Such commits wait for each other. So a process that enqueues often, or
that finds them slow, sends its wake-ups afterwards.

Inserts run in tasks of their own. Canceling a caller does not break off its insert: the driver
would have to give up the connection, and callers that are canceled would cost one each.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from detent.errors import StoreError, StoreUnavailable
from detent.model.batches import BATCH_BYTES
from detent.model.job import NewJob
from detent.pace import Pace
from detent.spi.notifier import Wake

AT_ONCE: Final = 2
BATCH: Final = 1_000
TRIES: Final = 4
PAUSE: Final = 0.05

P = ParamSpec("P")
T = TypeVar("T")
Insert = Callable[[Sequence[NewJob], Sequence[Wake]], Awaitable[bool]]
Stored = Callable[[Sequence[NewJob], bool], None]
Wakes = Callable[[Sequence[NewJob]], Sequence[Wake]]


class RareCalls:
    """Decides whether a commit may wake the nodes itself."""

    # Calls that are closer together than this are not rare.
    APART: Final = 0.02
    # A commit that takes longer stands in a queue, or waits for a distant standby.
    QUICK: Final = 0.005
    REST: Final = 10.0

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = float("-inf")
        self._is_quick = False
        self._rests_until = float("-inf")

    def begin(self) -> bool:
        """Take note of a call; return whether its commit may wake the nodes."""
        now, before = self._clock(), self._began
        self._began = now
        return self._is_quick and now - before >= self.APART and now >= self._rests_until

    def end(self, *, told: bool) -> None:
        """Take note that the call has been answered, and whether its commit woke the nodes."""
        now = self._clock()
        self._is_quick = now - self._began <= self.QUICK
        if told and not self._is_quick:
            # Not all processes at the same moment.
            self._rests_until = now + self.REST * random.uniform(0.5, 1.5)


class _Waiting(NamedTuple):
    jobs: Sequence[NewJob]
    answer: asyncio.Future[None]


class Coalescer:
    """The inserts of one event loop."""

    def __init__(
        self,
        insert: Insert,
        stored: Stored = lambda _jobs, _told: None,
        wakes: Wakes = lambda _jobs: (),
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.announced = False
        """Whether nodes were told of a job of this loop."""
        self.pace = Pace()
        """How many bytes of arguments were encoded in this turn of the loop."""
        self._insert = insert
        self._stored = stored
        """Told of jobs as soon as they are durable, also of those whose callers were canceled; and
        whether the nodes have been woken for them."""
        self._wakes = wakes
        self._rare = RareCalls(self.loop.time)
        self._on_the_way = 0
        self._waiting: deque[_Waiting] = deque()
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Store jobs, alone or with others, and return when they are durable."""
        if not self._on_the_way:
            self._on_the_way += 1
            await self.to_its_end(self._alone(jobs))
            return
        answer: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(_Waiting(jobs, answer))
        if self._on_the_way < AT_ONCE:
            self._flush_soon()
        await _answer_of(answer)

    async def _alone(self, jobs: Sequence[NewJob]) -> None:
        try:
            tell = self._wakes(jobs) if self._rare.begin() else ()
            told = await surely(self._insert, jobs, tell)
            self._rare.end(told=told)
            self._stored(jobs, told)
        finally:
            self._on_the_way -= 1
            if self._waiting:
                self._flush_soon()

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; when the caller is canceled, it goes on by itself."""
        task = self.loop.create_task(work)
        self._keep(task)
        return await _answer_of(asyncio.shield(task))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()  # Its callers are told; if all were canceled, there is no one to tell.

    def _flush_soon(self) -> None:
        self._on_the_way += 1
        self._keep(self.loop.create_task(self._flush()))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._insert_batch(self._gather())
        finally:
            self._on_the_way -= 1

    def _gather(self) -> list[_Waiting]:
        """Take callers until their jobs fill a batch, by number or by size."""
        waiting = self._waiting
        batch: list[_Waiting] = []
        count = size = 0
        while waiting:
            jobs = waiting[0].jobs
            count += len(jobs)
            size += sum(map(size_of, jobs))
            if batch and (count > BATCH or size > BATCH_BYTES):
                break
            batch.append(waiting.popleft())
        return batch

    async def _insert_batch(self, batch: list[_Waiting]) -> None:
        """Insert together; when the store refuses, find the guilty one and spare the others."""
        jobs = [job for entry in batch for job in entry.jobs]
        try:
            await surely(self._insert, jobs, ())
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
            # No task may be left that would insert for those that still wait.
            waiting = [*batch, *self._waiting]
            self._waiting.clear()
            self._answer(waiting, StoreError(f"the insert was broken off: {error!r}"))
            raise
        else:
            self._answer(batch, None)
            self._stored(jobs, False)

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
        while self._tasks:
            await asyncio.wait(list(self._tasks))


async def _answer_of(answer: asyncio.Future[T]) -> T:
    """Wait for an answer; one that comes with the cancellation of the caller is not missed."""
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.done() and not answer.cancelled():
            answer.exception()  # or asyncio would say that it was never retrieved
        raise


def size_of(job: NewJob) -> int:
    """Return the size of the arguments and the params of a job."""
    return len(job.args) if job.params is None else len(job.args) + len(job.params)


async def surely(insert: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Insert, again after a lost connection: the ids are ours, so nothing is stored twice."""
    for attempt in range(TRIES - 1):
        try:
            return await insert(*args, **kwargs)
        except StoreUnavailable:
            await asyncio.sleep(PAUSE * (1 << attempt))
    return await insert(*args, **kwargs)
