"""Wake-ups published on threads without an event loop: blocking code has jobs to announce too."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from detent.lazy import FirstUse
from detent.notifiers.news import News
from detent.spi.notifier import Wake

Send = Callable[[Sequence[Wake]], Awaitable[None]]


class Strays:
    """Sends what was published without a loop from a thread that ends when nothing is left."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self._first_use = FirstUse()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting = News()
        self._thread: threading.Thread | None = None
        # Last: with it other threads know that the rest belongs to this process.
        self._process = os.getpid()

    def add(self, wakes: Sequence[Wake]) -> None:
        """Send wake-ups soon."""
        if self._process != os.getpid():
            self._begin_in_child()
        with self._lock:
            self._waiting.add(wakes)
            if self._thread is not None:
                return
            # No daemon: a process that ends waits for it, and it waits for nobody long.
            self._thread = threading.Thread(target=self._run, name="detent-wakeups")
            try:
                self._thread.start()
            except RuntimeError:  # too late for new threads: it is seen to at the exit
                self._thread = None

    def _begin_in_child(self) -> None:
        """Forget what the child of a fork has inherited: it is the parent's to send."""
        with self._first_use.lock:
            if self._process != os.getpid():
                self._begin()

    def take(self) -> list[Wake]:
        """Return what was not sent, and keep it no longer."""
        if self._process != os.getpid():
            return []
        with self._lock:
            return self._waiting.take()

    def _run(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        while wakes := self._next():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._send(wakes), self._patience)

    def _next(self) -> list[Wake]:
        with self._lock:
            wakes = self._waiting.take()
            if not wakes:
                self._thread = None
            return wakes
