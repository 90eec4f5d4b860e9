"""Threads that no program waits for at its end.

Those of `concurrent.futures` are joined when the interpreter exits: a function that never returns
would keep a program from ending whose node has long left.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

Item = tuple["Future[Any]", Callable[[], Any]]


class DaemonThreads:
    """Runs functions on threads of its own, which are made when they are needed."""

    def __init__(self, most: int, prefix: str) -> None:
        self._most = most
        self._prefix = prefix
        self._inbox: SimpleQueue[Item | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, work: Callable[[], Any]) -> "Future[Any]":
        """Run a function, which must not raise, on the next thread that is free."""
        future: Future[Any] = Future()
        self._inbox.put((future, work))
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._most:
                name = f"{self._prefix}_{self._threads}"
                self._threads += 1
                threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """Cancel what has not begun, and let each thread end after what it does."""
        while not self._inbox.empty():
            item = self._inbox.get()
            if item is not None:
                item[0].cancel()
        for _ in range(self._threads):
            self._inbox.put(None)

    def _run(self) -> None:
        while (item := self._inbox.get()) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                future.set_result(work())
            # Nothing of a call may live until the next one.
            del item, future, work
            with self._lock:
                self._idle += 1
