"""The real world as a `Runtime`: the only module that may ask what time it is or roll dice."""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from detent.ids import IdMaker
from detent.spi.runtime import Cancelable


class SystemRuntime:
    """Time, chance and threads of the operating system."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        # The functions themselves: both are called for every job.
        self.monotonic = time.monotonic
        self.new_id = IdMaker().new

    def utcnow(self) -> datetime:
        """See `Runtime.utcnow`."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """See `Runtime.sleep`."""
        await asyncio.sleep(seconds)

    def later(self, seconds: float, action: Callable[[], None]) -> Cancelable:
        """See `Runtime.later`."""
        return asyncio.get_running_loop().call_later(seconds, action)

    def random_bits(self, bits: int) -> int:
        """See `Runtime.random_bits`."""
        return self._random.getrandbits(bits)

    def uniform(self, low: float, high: float) -> float:
        """See `Runtime.uniform`."""
        return self._random.uniform(low, high)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """See `Runtime.spawn`."""
        # The class itself, since a loop's create_task takes twice as long; jobs are many.
        return asyncio.Task(work, loop=asyncio.get_running_loop(), name=name)

    def thread(self, work: Callable[[], Awaitable[None]], name: str) -> "LoopThread":
        """See `Runtime.thread`."""
        return LoopThread(work, name)

    def blocking(self, work: Callable[[], Any], name: str) -> asyncio.Future[Any]:
        """See `Runtime.blocking`."""
        done: Future[Any] = Future()
        # As a pool does: what has begun cannot be canceled, and may end when nobody waits for it.
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(work())
            except StopIteration as error:  # cannot pass through a future
                done.set_exception(RuntimeError(f"it raised {error!r}"))
            except BaseException as error:  # noqa: BLE001  handed on to whoever waits
                done.set_exception(error)

        # Not a pool's: at its end Python would wait for a function that never returns.
        threading.Thread(target=run, name=name, daemon=True).start()
        return asyncio.wrap_future(done)


class LoopThread:
    """An async function on a thread and event loop of its own."""

    def __init__(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        self._work = work
        self._stop_asked = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(self._work())
        if self._stop_asked.is_set():
            self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._stop_asked.is_set():
                raise

    def stop(self) -> None:
        """See `Thread.stop`."""
        self._stop_asked.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    async def joined(self) -> None:
        """See `Thread.joined`."""
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 1.0)
