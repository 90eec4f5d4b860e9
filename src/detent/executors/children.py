"""The children of one pool: started when needed, given out one job at a time, and sent away.

They are started one by one while somebody waits, up to the size of the pool. They end when they
have been idle for long, have done their number of jobs or use too much memory.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from detent.config import PoolConfig, format_size
from detent.errors import ExecutorUnavailable, ProcessDied
from detent.executors.worker import Worker

# How often busy children are looked at: do they live, and how big are they?
WATCH: Final = 0.1
# A child that is not needed any more gets this long to end by itself.
STOP_GRACE: Final = 2.0
CLOSE_LIMIT: Final = 10.0
# How long no new child is started after one could not be: twice as long each time.
FIRST_PAUSE: Final = 0.5
LAST_PAUSE: Final = 30.0

Hire = Callable[[Worker], Awaitable[None]]


class Children:
    """Some children, at most `size` of them."""

    def __init__(self, config: PoolConfig, size: int, hire: Hire) -> None:
        self._size = size
        self._max_jobs = config.max_jobs
        self._max_memory = config.max_memory or 0
        self._idle_limit = config.idle.total_seconds()
        self._hire = hire
        # Dictionaries in place of sets, for their order.
        self._starting: dict[Worker, None] = {}
        self._busy: dict[Worker, None] = {}
        self._idle: list[Worker] = []
        """The one that worked last comes last, and is taken first."""
        self._waiting: deque[asyncio.Future[Worker]] = deque()
        self._chores: set[asyncio.Task[None]] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._failures = 0
        self._start_again_at = 0.0
        self._closed = False

    # Taking one and giving it back

    def take(self, task: str) -> Worker | None:
        """Return an idle child that knows the task, if there is one and nobody waits."""
        if self._waiting:
            return None
        for worker in reversed(self._idle):
            if task in worker.loaded and self._is_well(worker):
                return self._occupy(worker)
        return None

    def can_start_another(self) -> bool:
        """Tell whether the next to wait need not wait for another job to end."""
        return len(self._waiting) < self._size - len(self._busy)

    async def wait(self) -> Worker:
        """Wait for a free child, which may not know the task yet.

        Raises `ExecutorUnavailable` when there is none and none can be started.
        """
        loop = asyncio.get_running_loop()
        if not self._count() and loop.time() < self._start_again_at:
            raise ExecutorUnavailable("its children could not be started just now")
        turn: asyncio.Future[Worker] = loop.create_future()
        self._waiting.append(turn)
        self._serve()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It came at the same moment; the next one shall have it.
                self.release(turn.result())
            raise

    def release(self, worker: Worker) -> None:
        """A child is free: keep it, or send it away when it is worn out."""
        self._busy.pop(worker, None)
        if worker.alive:
            if self._closed or self._is_worn_out(worker):
                self._retire(worker)
            else:
                self._rest(worker)
        self._serve()

    def _is_worn_out(self, worker: Worker) -> bool:
        # Not before its first job: one that is too big from the start would never serve anybody.
        if not worker.jobs:
            return False
        if 0 < self._max_jobs <= worker.jobs:
            return True
        return self._max_memory > 0 and worker.resident() > self._max_memory

    def _occupy(self, worker: Worker) -> Worker:
        self._idle.remove(worker)
        self._busy[worker] = None
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(WATCH, self._look)
        return worker

    def _rest(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        worker.idle_since = loop.time()
        self._idle.append(worker)
        if self._sweep is None:
            self._sweep = loop.call_later(self._idle_limit, self._end_idle)

    def _serve(self) -> None:
        """Give free children to those who wait, and start more while there are too few."""
        while self._waiting and (self._waiting[0].done() or self._idle):
            if self._waiting[0].done():
                del self._waiting[0]
            elif self._is_well(worker := self._idle[-1]):
                turn = self._waiting.popleft()
                turn.set_result(self._occupy(worker))
        pausing = asyncio.get_running_loop().time() < self._start_again_at
        wanted = 0 if self._closed or pausing else len(self._waiting)
        while len(self._starting) < wanted and self._count() < self._size:
            worker = Worker(self._forget)
            self._starting[worker] = None
            self._chore(self._start(worker))

    def _count(self) -> int:
        return len(self._starting) + len(self._busy) + len(self._idle)

    async def _start(self, worker: Worker) -> None:
        """Start a child and let it serve."""
        try:
            await self._hire(worker)
        except ProcessDied as error:
            worker.end()
            del self._starting[worker]
            self._start_failed(error)
        except BaseException as error:
            worker.end()
            del self._starting[worker]
            self._start_failed(ProcessDied(repr(error)))
            raise
        else:
            self._failures = 0
            del self._starting[worker]
            self.release(worker)

    def _start_failed(self, error: ProcessDied) -> None:
        """Try again later and later, and let nobody wait for children who are not there."""
        pause = min(FIRST_PAUSE * 2**self._failures, LAST_PAUSE)
        self._failures += 1
        loop = asyncio.get_running_loop()
        self._start_again_at = loop.time() + pause
        if self._count():
            loop.call_later(pause, self._serve)
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(ExecutorUnavailable(str(error)))

    # Looking after them

    def _is_well(self, worker: Worker) -> bool:
        if worker.has_died():
            worker.end()
        return worker.alive

    def _forget(self, worker: Worker, ending: "asyncio.Task[None]") -> None:
        """A child is being killed, or was found dead: it does not count any more."""
        if worker in self._idle:
            self._idle.remove(worker)
        self._keep(ending)

    def _look(self) -> None:
        """Look at the busy children: those that died unheard, and those that are too big."""
        limit = self._max_memory
        for worker in list(self._busy):
            if self._is_well(worker) and limit and (used := worker.resident()) > limit:
                worker.end(
                    f"it used {format_size(used)} of memory, "
                    f"more than max_memory = {format_size(limit)}"
                )
        self._watch = None
        if self._busy:
            self._watch = asyncio.get_running_loop().call_later(WATCH, self._look)

    def _end_idle(self) -> None:
        """Send away the children that have had nothing to do for long."""
        loop = asyncio.get_running_loop()
        latest = loop.time() - self._idle_limit
        for worker in [worker for worker in self._idle if worker.idle_since <= latest]:
            self._idle.remove(worker)
            self._retire(worker)
        self._sweep = None
        if self._idle:
            wait = min(worker.idle_since for worker in self._idle) - latest
            self._sweep = loop.call_later(max(wait, WATCH), self._end_idle)

    def _retire(self, worker: Worker) -> None:
        self._chore(worker.stop(STOP_GRACE))

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        self._keep(asyncio.get_running_loop().create_task(work, name="detent-children"))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def close(self) -> None:
        """Send all away, and wait until they are gone, but not for ever."""
        self._closed = True
        for timer in (self._watch, self._sweep):
            if timer is not None:
                timer.cancel()
        for turn in self._waiting:
            turn.cancel()
        for worker in (*self._busy, *self._starting):
            worker.end()
        while self._idle:
            self._retire(self._idle.pop())
        ends_at = asyncio.get_running_loop().time() + CLOSE_LIMIT
        while self._chores and (left := ends_at - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._chores, timeout=left)
