"""Lets concurrent enqueues share a commit.

While one insert is on its way, other callers gather; all of them go with the next. Each caller
is answered after the commit that holds its jobs. A lone caller goes straight through.

Where calls are rare and commits are quick, the commit of a lone caller wakes the nodes as well,
which saves a round trip. Such commits wait for each other. So a process that enqueues often, or
that finds them slow, sends its wake-ups afterwards.

An insert that fails twice is halved, whatever the error, until only the guilty caller gets it: a
job that does not fit on a full disk, or on which the connection breaks, is told to its own caller.
When the store gives no answer to any half for `HALVING` seconds, it is away: all are told.

Canceling a caller does not take its jobs back. Inserts for several callers run in tasks of their
own. The insert of a lone caller is made again, which stores nothing twice: so each job is stored
and told of, whatever became of the first insert.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from detent.errors import StoreError, StoreUnavailable
from detent.model.batches import BATCH_BYTES
from detent.model.job import NewJob
from detent.pace import Pace
from detent.spawning import spawn_quietly
from detent.spi.notifier import Wake

AT_ONCE: Final = 2
BATCH: Final = 1_000
TRIES: Final = 4
PAUSE: Final = 0.05
# How often an insert that callers share is tried as a whole, and as the half of another.
TOGETHER: Final = 2
AS_HALF: Final = 1
# For how many seconds halves are tried while the store neither takes nor refuses any of them.
HALVING: Final = 5.0

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


@dataclass(slots=True)
class _Halves:
    """A shared insert that failed, on the way to its guilty ones."""

    until: float
    """When the store counts as away."""


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
        self._closing: asyncio.Future[None] | None = None
        """Done when a lone call has been answered, for those who wait for all of them."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Store jobs, alone or with others, and return when they are durable."""
        if not self._on_the_way:
            self._on_the_way += 1
            await self._alone(jobs)
            return
        answer: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(_Waiting(jobs, answer))
        if self._on_the_way < AT_ONCE:
            self._flush_soon()
        await _answer_of(answer)

    async def _alone(self, jobs: Sequence[NewJob]) -> None:
        try:
            tell = self._wakes(jobs) if self._rare.begin() else ()
            told = await surely(partial(self._insert, jobs, tell))
            self._rare.end(told=told)
            self._stored(jobs, told)
        except asyncio.CancelledError:
            # The insert may have been made, or may still be: to make sure of it tells which.
            self._keep(spawn_quietly(partial(self._make_sure, jobs)))
            raise
        finally:
            self._on_the_way -= 1
            if self._waiting:
                self._flush_soon()
            if self._closing is not None and not self._closing.done():
                self._closing.set_result(None)

    async def _make_sure(self, jobs: Sequence[NewJob]) -> None:
        await surely(partial(self._insert, jobs, ()))
        self._stored(jobs, False)

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

    async def _insert_batch(self, batch: list[_Waiting], halves: _Halves | None = None) -> None:
        """Insert together; when that fails, find the guilty one and spare the others."""
        jobs = [job for entry in batch for job in entry.jobs]
        tries = TRIES if len(batch) == 1 else TOGETHER if halves is None else AS_HALF
        try:
            await surely(partial(self._insert, jobs, ()), tries=tries)
        except Exception as error:  # noqa: BLE001  whatever it is, others must not suffer from it
            await self._halve(batch, error, halves)
        except BaseException as error:
            # No task may be left that would insert for those that still wait.
            waiting = [*batch, *self._waiting]
            self._waiting.clear()
            self._answer(waiting, _broken_off(error))
            raise
        else:
            self._answer(batch, None)
            self._stored(jobs, False)
            if halves is not None:
                halves.until = self.loop.time() + HALVING

    async def _halve(self, batch: list[_Waiting], error: Exception, halves: _Halves | None) -> None:
        if halves is None:
            halves = _Halves(self.loop.time() + HALVING)
        elif not isinstance(error, StoreUnavailable):
            halves.until = self.loop.time() + HALVING  # it refuses, so it is there
        if len(batch) == 1 or self.loop.time() >= halves.until:
            self._answer(batch, error if isinstance(error, StoreError) else _broken_off(error))
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            if self.loop.time() < halves.until:
                await self._insert_batch(half, halves)
            else:
                await self._halve(half, error, halves)

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
        while self._tasks or self._on_the_way:
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            else:
                self._closing = self.loop.create_future()
                await self._closing


async def _answer_of(answer: asyncio.Future[T]) -> T:
    """Wait for an answer; one that comes with the cancellation of the caller is not missed."""
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.done() and not answer.cancelled():
            answer.exception()  # or asyncio would say that it was never retrieved
        raise


def _broken_off(error: BaseException) -> StoreError:
    return StoreError(f"the insert was broken off: {error!r}")


def size_of(job: NewJob) -> int:
    """Return the size of the arguments and the params of a job."""
    return len(job.args) if job.params is None else len(job.args) + len(job.params)


async def surely(insert: Callable[[], Awaitable[T]], *, tries: int = TRIES) -> T:
    """Insert, again after a lost connection: the ids are ours, so nothing is stored twice."""
    for attempt in range(tries - 1):
        try:
            return await insert()
        except StoreUnavailable:
            await asyncio.sleep(PAUSE * (1 << attempt))
    return await insert()
