"""Waiting for the ends of jobs together: alone, a thousand waiters would ask a thousand times."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from detent.errors import JobNotFound, StoreError, StoreUnavailable
from detent.model.job import JobInfo
from detent.spi.store import InspectStore

FIRST_LOOK: Final = 0.005
LONGEST_PAUSE: Final = 0.5
PAGE: Final = 1_000
#: How often it is made sure that what is waited for is still there, in seconds. A job may have been
#: enqueued in a transaction that its caller has not committed yet.
SURE: Final = 5.0


@dataclass(slots=True)
class _Wait:
    """Who waits for one job, and when to look whether there is such a job at all."""

    sure_at: float
    futures: list[asyncio.Future[JobInfo]] = field(default_factory=list)


class Waits:
    """All waits of one event loop, looked up together: a thousand waiters are one statement."""

    def __init__(self, inspect: InspectStore) -> None:
        self.loop = asyncio.get_running_loop()
        self._inspect = inspect
        self._waiting: dict[UUID, _Wait] = {}
        self._task: asyncio.Task[None] | None = None
        self._pause = FIRST_LOOK

    async def ended(self, job_id: UUID) -> JobInfo:
        """Return a job when it has ended, or raise `JobNotFound` when it never will."""
        future: asyncio.Future[JobInfo] = self.loop.create_future()
        wait = self._waiting.setdefault(job_id, _Wait(self.loop.time() + SURE))
        wait.futures.append(future)
        self._pause = FIRST_LOOK
        if self._task is None:
            self._task = self.loop.create_task(self._look_on())
        try:
            return await future
        finally:
            wait.futures.remove(future)
            if not wait.futures and self._waiting.get(job_id) is wait:
                del self._waiting[job_id]

    async def _look_on(self) -> None:
        try:
            while self._waiting:
                # A store that is away for a moment is waited for like the jobs themselves.
                with contextlib.suppress(StoreUnavailable):
                    await self._look()
                if self._waiting:  # or whoever asks next would wait for nothing
                    await asyncio.sleep(self._pause)
                    self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
        except StoreError as error:
            for job_id in list(self._waiting):
                self._answer(job_id, error)
        finally:
            self._task = None

    async def _look(self) -> None:
        for page in _pages(list(self._waiting)):
            for job in await self._inspect.ended(page):
                self._pause = FIRST_LOOK
                self._answer(job.id, job)
        now = self.loop.time()
        for page in _pages(
            [job_id for job_id, wait in self._waiting.items() if wait.sure_at <= now]
        ):
            there = {job.id for job in await self._inspect.get_jobs(page)}
            for job_id in page:
                if job_id not in there:
                    self._answer(job_id, JobNotFound(job_id))
                elif job_id in self._waiting:
                    self._waiting[job_id].sure_at = now + SURE

    def _answer(self, job_id: UUID, answer: JobInfo | Exception) -> None:
        """Tell all who wait for a job."""
        wait = self._waiting.pop(job_id, None)
        for future in [] if wait is None else wait.futures:
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def _pages(ids: Sequence[UUID]) -> list[Sequence[UUID]]:
    return [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]
