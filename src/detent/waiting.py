"""Waits for the ends of jobs: without it a thousand waiters would ask the store a thousand times.

All waits of an event loop share their statements. How often a job is looked up depends on how long
it has been waited for, and not on what other waiters do: a new wait looks every few milliseconds,
an old one about twice a second, and less often where many thousands wait. Jobs mostly end in the
order in which they were enqueued. So when one has ended, those enqueued next to it are looked up
at once. The cost follows the ends, and not the number of waiters.
"""

import asyncio
import contextlib
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final
from uuid import UUID

from detent.errors import JobNotFound, StoreError, StoreUnavailable
from detent.model.job import JobInfo
from detent.spi.store import InspectStore

#: The shortest pause between two statements, and between two looks at a job.
FIRST_LOOK: Final = 0.005
#: An old wait is looked up this often, as long as that makes no more than `RATE` look-ups a second.
LONGEST_PAUSE: Final = 128 * FIRST_LOOK
RATE: Final = 4_000
#: The pause as a share of the time that the wait has taken: a result is late by at most this much.
SHARE: Final = 0.5
#: How many of the jobs on each side of one that has ended are looked up, whatever else is known.
NEIGHBOURS: Final = 4
PAGE: Final = 1_000
#: When a wait first makes sure that its job exists, in seconds, and how seldom it does so later. A
#: job may have been enqueued in a transaction that its caller has not committed yet.
SURE: Final = 5.0
LONGEST_SURE: Final = 60.0


@dataclass(slots=True)
class _Wait:
    """The waiters for one job, and when to look for it."""

    began: float
    look_at: float
    sure_at: float
    futures: list[asyncio.Future[JobInfo]] = field(default_factory=list)


def next_look(now: float, age: float, waiting: int, number: int) -> float:
    """Return when to look again for a job that has been waited for this long.

    Pauses are a few milliseconds times a power of two, and looks are at multiples of the pause: so
    waits of about the same age share a statement. Where many wait, they are divided by `number`,
    which may be any: otherwise all would be due at once, and a new wait would stand behind them.
    """
    longest = LONGEST_PAUSE
    while waiting > longest * RATE:
        longest *= 2
    pause = FIRST_LOOK
    while pause < longest and pause * 2 <= age * SHARE:
        pause *= 2
    groups = waiting // PAGE + 1
    offset = number % groups / groups * pause
    return ((now - offset) // pause + 1) * pause + offset


class Waits:
    """All waits of one event loop."""

    def __init__(self, inspect: InspectStore) -> None:
        self.loop = asyncio.get_running_loop()
        self._inspect = inspect
        self._waiting: dict[UUID, _Wait] = {}
        self._in_order: list[UUID] = []
        """The ids of all that are waited for, sorted: that is the order of their enqueues."""
        self._planned: list[tuple[float, UUID]] = []
        """A heap of looks; one that is not at the `look_at` of its wait is out of date."""
        self._task: asyncio.Task[None] | None = None
        self._planned_earlier = asyncio.Event()

    async def ended(self, job_id: UUID) -> JobInfo:
        """Return a job when it has ended, or raise `JobNotFound` when it never will."""
        future: asyncio.Future[JobInfo] = self.loop.create_future()
        wait = self._waiting.get(job_id) or self._begin(job_id)
        wait.futures.append(future)
        if self._task is None:
            self._task = self.loop.create_task(self._look_on())
        try:
            return await future
        finally:
            wait.futures.remove(future)
            if not wait.futures and self._waiting.get(job_id) is wait:
                self._end(job_id)

    def _begin(self, job_id: UUID) -> _Wait:
        now = self.loop.time()
        wait = self._waiting[job_id] = _Wait(now, now, now + SURE)
        insort(self._in_order, job_id)
        heappush(self._planned, (now, job_id))
        self._planned_earlier.set()
        return wait

    def _end(self, job_id: UUID) -> _Wait:
        del self._in_order[bisect_left(self._in_order, job_id)]
        return self._waiting.pop(job_id)

    async def _look_on(self) -> None:
        try:
            while self._waiting:
                began = self.loop.time()
                page = self._due(began)
                # A store that is away for a moment is waited for like the jobs themselves.
                with contextlib.suppress(StoreUnavailable):
                    await self._look(page)
                self._plan(page)
                if self._waiting:  # or the next wait would find a task that is about to end
                    await self._rest(began)
        except StoreError as error:
            for job_id in list(self._waiting):
                self._answer(job_id, error)
        finally:
            self._task = None

    async def _rest(self, began: float) -> None:
        """Sleep until the next look, which is not at once after the one that began then."""
        await asyncio.sleep(began + FIRST_LOOK - self.loop.time())
        self._planned_earlier.clear()
        self._forget_old_plans()
        pause = self._planned[0][0] - self.loop.time() if self._planned else 0.0
        if pause > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._planned_earlier.wait()

    def _forget_old_plans(self) -> None:
        while self._planned and not self._is_planned(*self._planned[0]):
            heappop(self._planned)

    def _is_planned(self, at: float, job_id: UUID) -> bool:
        wait = self._waiting.get(job_id)
        return wait is not None and wait.look_at == at

    def _due(self, now: float) -> list[UUID]:
        """Return the jobs to look for now, at most a page of them, each once."""
        page: dict[UUID, None] = {}
        while self._planned and self._planned[0][0] <= now and len(page) < PAGE:
            at, job_id = heappop(self._planned)
            if self._is_planned(at, job_id):
                page[job_id] = None
        return list(page)

    async def _look(self, page: Sequence[UUID]) -> None:
        """Answer the waiters for those that have ended, or will never end."""
        if not page:
            return
        ended = await self._inspect.ended(page)
        for job in ended:
            self._answer(job.id, job)
        self._plan_neighbours([job.id for job in ended])
        now = self.loop.time()
        waits = [(job_id, self._waiting.get(job_id)) for job_id in page]
        unsure = [job_id for job_id, wait in waits if wait is not None and wait.sure_at <= now]
        if unsure:
            await self._make_sure(unsure, now)

    async def _make_sure(self, page: Sequence[UUID], now: float) -> None:
        known = {job.id for job in await self._inspect.get_jobs(page)}
        for job_id in page:
            if job_id not in known:
                self._answer(job_id, JobNotFound(job_id))
            elif (wait := self._waiting.get(job_id)) is not None:
                wait.sure_at = now + min(max(now - wait.began, SURE), LONGEST_SURE)

    def _plan(self, page: Iterable[UUID]) -> None:
        """Plan the next look for those of a page that are still waited for."""
        now, waiting = self.loop.time(), len(self._waiting)
        for job_id in page:
            wait = self._waiting.get(job_id)
            # One that is next to an end has a look planned already.
            if wait is not None and wait.look_at <= now:
                self._look_at(job_id, wait, next_look(now, now - wait.began, waiting, job_id.int))

    def _plan_neighbours(self, ended: Iterable[UUID]) -> None:
        """Look next for those that were enqueued next to jobs that have ended."""
        soon = self.loop.time() + FIRST_LOOK
        places = Counter(bisect_left(self._in_order, job_id) for job_id in ended)
        for place, run in places.items():
            # Behind a run of jobs that have ended, others will probably have ended as well.
            last = place + 2 * run + NEIGHBOURS
            for job_id in self._in_order[max(place - NEIGHBOURS, 0) : last]:
                wait = self._waiting[job_id]
                if wait.look_at > soon:
                    self._look_at(job_id, wait, soon)

    def _look_at(self, job_id: UUID, wait: _Wait, moment: float) -> None:
        wait.look_at = moment
        heappush(self._planned, (moment, job_id))

    def _answer(self, job_id: UUID, answer: JobInfo | Exception) -> None:
        """Tell all who wait for a job."""
        if job_id not in self._waiting:
            return
        for future in self._end(job_id).futures:
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
