"""Wake-ups: at once within this process, and through the file to the others.

They are written after the commit that they tell of, with whatever is written next or alone and
without waiting for the disk. Losing one costs time, never correctness.
"""

import asyncio
import os
import threading
from collections.abc import Sequence

from detent.lazy import FirstUse
from detent.notifiers.listener import Listener
from detent.spi.notifier import Heard, Receive, Wake
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.poller import Poller


class SqliteNotifier:
    """The `Notifier` of the SQLite store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._first_use = FirstUse()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener[Heard]] = []
        self._poller: Poller | None = None
        # Last: with it other threads know that the rest belongs to this process.
        self._pid = os.getpid()

    def publish(self, wakes: Sequence[Wake]) -> None:
        """See `Notifier.publish`."""
        if wakes:
            self._here()
            self._tell(wakes)
            self._database.announce(wakes)

    async def flush(self) -> None:
        """See `Notifier.flush`."""
        await self._database.announced()

    async def close(self) -> None:
        """See `Notifier.close`."""
        await self.flush()

    async def listen(self, receive: Receive) -> None:
        """See `Notifier.listen`."""
        self._here()
        # The file is there and has our tables before anybody watches it.
        await self._database.ready()
        listener = Listener(receive)
        with self._lock:
            self._listeners.append(listener)
            if self._poller is None:
                self._poller = Poller(self._database.path, self._database.origin, self._tell)
            else:
                listener.put(())
        try:
            await asyncio.Event().wait()
        finally:
            with self._lock:
                self._listeners.remove(listener)
                if not self._listeners and self._poller is not None:
                    self._poller.stop()
                    self._poller = None

    def _tell(self, wakes: Sequence[Heard]) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.put(wakes)

    def _here(self) -> None:
        """Begin anew in a child process: whoever listened is in its parent."""
        if self._pid != os.getpid():
            with self._first_use.lock:
                if self._pid != os.getpid():
                    self._begin()
