"""A flag that one coroutine waits for, with a limit: cheaper than an event and a timeout."""

import asyncio

from detent.spi.runtime import Runtime


class Wakeup:
    """Set by anybody on the loop, waited for by one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the one who waits, or who will wait next."""
        self._is_set = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    @property
    def pending(self) -> bool:
        """Whether it was set since the last wait."""
        return self._is_set

    async def wait(self, limit: float | None) -> bool:
        """Wait until set, or for `limit` seconds; return whether it was set, and unset it."""
        if not self._is_set and (limit is None or limit > 0):
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            timer = None if limit is None else self._runtime.later(limit, lambda: _expire(waiter))
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        was_set, self._is_set = self._is_set, False
        return was_set


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
