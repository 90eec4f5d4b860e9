"""Runs blocking functions on threads.

A thread cannot be stopped from outside. When its caller is canceled the call is given up: its
result is refused, and the pool says when the thread has come to its end after all.
"""

import asyncio
import contextlib
import contextvars
import functools
from concurrent.futures import Future
from typing import Any

from detent.executors.threads import DaemonThreads
from detent.spi.executor import Call


class ThreadExecutor:
    """The executor named `thread`, and every pool of that kind."""

    def __init__(self, threads: int, prefix: str = "detent-job") -> None:
        self._threads = self.capacity = threads
        self._prefix = prefix
        self._pool: DaemonThreads | None = None
        # A call waits here rather than in the pool, so that we know when it begins.
        self._free = asyncio.Semaphore(threads)

    async def run(self, call: Call) -> Any:
        """See `Executor.run`."""
        if self._free.locked():
            call.on_queued()
            await self._free.acquire()
            call.on_begun()
        else:
            await self._free.acquire()
        loop = asyncio.get_running_loop()
        future = self._submit(call)
        try:
            value, error = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # A call that had not begun is simply off; one that has goes on without us.
            if not future.cancel() and not future.done():
                call.on_abandoned()
                future.add_done_callback(lambda _future: _tell(loop, call, self._free))
            else:
                self._free.release()
            raise
        self._free.release()
        if error is not None:
            raise error
        return value

    def _submit(self, call: Call) -> "Future[tuple[Any, BaseException | None]]":
        if self._pool is None:
            self._pool = DaemonThreads(self._threads, self._prefix)
        # The context goes along, so that `JobContext.current()` works on the thread.
        context = contextvars.copy_context()
        work = functools.partial(context.run, call.function, *call.args, **call.kwargs)
        return self._pool.submit(functools.partial(_sheltered, work))

    async def close(self) -> None:
        """See `Executor.close`."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def _tell(loop: asyncio.AbstractEventLoop, call: Call, free: asyncio.Semaphore) -> None:
    """Say on its loop that a call has ended; when that is closed nobody is left to be told."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(free.release)
        loop.call_soon_threadsafe(call.on_released)


def _sheltered(work: Any) -> tuple[Any, BaseException | None]:
    """Return what the function returned or raised; StopIteration cannot pass through a future."""
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001  the user's function: handed on
        return None, error
