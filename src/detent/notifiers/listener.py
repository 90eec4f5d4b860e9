"""Who listens on an event loop while others tell from any thread: one batch for each round."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Listener(Generic[T]):
    """One `listen` call: what comes before its loop comes round arrives as one batch."""

    def __init__(self, receive: Callable[[Sequence[T]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._lock = threading.Lock()
        self._waiting: dict[T, None] = {}  # a set that keeps its order
        self._looks = False

    def put(self, wakes: Sequence[T]) -> None:
        """Hand wake-ups over, from any thread; none at all means "look for yourself"."""
        with self._lock:
            scheduled = self._looks or bool(self._waiting)
            self._looks = self._looks or not wakes
            self._waiting.update(dict.fromkeys(wakes))
        if not scheduled:
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # its loop is closed: nobody is there to be woken
                return

    def _deliver(self) -> None:
        with self._lock:
            wakes, self._waiting = tuple(self._waiting), {}
            looks, self._looks = self._looks, False
        if wakes:
            self._receive(wakes)
        if looks:
            self._receive(())
