"""Wake-ups within one process: without them every test and embedded app would wait for a poll."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from detent.spi.notifier import Wake

Receive = Callable[[Sequence[Wake]], None]


class MemoryNotifier:
    """Carries wake-ups between the event loops of this process; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []

    def publish(self, wakes: Sequence[Wake]) -> None:
        """Hand wake-ups to every listener, on the listener's own loop."""
        if not wakes:
            return  # an empty call means "you were disconnected", which is not so
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.put(wakes)

    async def listen(self, receive: Receive) -> None:
        """Call `receive` until canceled."""
        listener = _Listener(asyncio.get_running_loop(), receive)
        with self._lock:
            self._listeners.append(listener)
        try:
            receive(())
            await asyncio.Event().wait()
        finally:
            with self._lock:
                self._listeners.remove(listener)

    async def flush(self) -> None:
        """Let this loop's listeners have what was published; other loops have it queued."""
        await asyncio.sleep(0)

    async def close(self) -> None:
        """See `Notifier.close`."""
        await self.flush()


class _Listener:
    """One `listen` call: what is published before its loop comes round arrives as one batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        self._loop = loop
        self._receive = receive
        self._lock = threading.Lock()
        self._waiting: dict[Wake, None] = {}  # a set that keeps its order

    def put(self, wakes: Sequence[Wake]) -> None:
        with self._lock:
            scheduled = bool(self._waiting)
            self._waiting.update(dict.fromkeys(wakes))
        if not scheduled:
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # its loop is closed: nobody is there to be woken
                return

    def _deliver(self) -> None:
        with self._lock:
            wakes, self._waiting = tuple(self._waiting), {}
        self._receive(wakes)
