"""The blocking face of the client: one event loop on one thread, and no second implementation."""

import asyncio
import concurrent.futures.thread  # noqa: F401  see below
import os
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from detent.errors import WrongThread
from detent.lazy import FirstUse

# The module of thread pools is imported here because it cannot be once the main thread has ended.
# A thread that outlives it may make the first call.

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for blocking code; started when first needed, anew after a fork."""

    def __init__(self) -> None:
        self._first_use = FirstUse()
        self._pid = -1
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return what it returns."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(work, self._running_loop()).result()
        work.close()
        raise WrongThread(
            "a blocking call on the thread of a running event loop would stop that loop; "
            "use the awaitable form, or call it from another thread"
        )

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._first_use.lock:
            if self._loop is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._loop = _Loop()
                threading.Thread(
                    target=self._loop.run_forever, name="detent-sync", daemon=True
                ).start()
            return self._loop


class _Loop(asyncio.SelectorEventLoop):
    """Serves threads that outlive the main thread, whose end takes the lookup of names along."""

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        """Look a host up, here and now if nobody else can any more."""
        try:
            return await super().getaddrinfo(host, port, **more)
        except RuntimeError:
            return socket.getaddrinfo(host, port, **more)
