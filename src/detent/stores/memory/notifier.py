"""Wake-ups within one process: without them every test and embedded app would wait for a poll."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from detent.notifiers.listener import Listener
from detent.spi.notifier import Wake

Receive = Callable[[Sequence[Wake]], None]


class MemoryNotifier:
    """Carries wake-ups between the event loops of this process; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener[Wake]] = []

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
        listener = Listener(receive)
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
