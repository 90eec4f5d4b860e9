"""Rings when a lock is released: without it everybody who waits for one would only poll."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from detent.lazy import PerLoop
from detent.spi.notifier import Heard, LockHint, Notifier, Silence

# Listening goes on for so long after the last one waited: he may come again.
LINGER: Final = 5.0


class Doorbell:
    """One event loop's ear; it listens only while somebody waits."""

    def __init__(self, notifier: Notifier) -> None:
        self.loop = asyncio.get_running_loop()
        self._notifier = notifier
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._silent = False

    @property
    def hears(self) -> bool:
        """Whether releases are told here, for all that is known."""
        return not self._silent and self._task is not None and not self._task.done()

    @contextmanager
    def waiting(self, name: str) -> Iterator[asyncio.Event]:
        """Lend a bell that rings when this lock is released, and whenever it may have been."""
        bell = asyncio.Event()
        self._waiting.setdefault(name, []).append(bell)
        self._listen()
        try:
            yield bell
        finally:
            self._waiting[name].remove(bell)
            if not self._waiting[name]:
                del self._waiting[name]
            if not self._waiting:
                self._rest = self.loop.call_later(LINGER, self._stop)

    def _listen(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._task is None or self._task.done():
            self._task = self.loop.create_task(self._notifier.listen(self._receive))

    def _receive(self, heard: Sequence[Heard]) -> None:
        """Ring; nothing heard means that something may have been missed."""
        self._silent = any(isinstance(each, Silence) for each in heard)
        names = [each.name for each in heard if isinstance(each, LockHint)]
        for name in names if heard else list(self._waiting):
            for bell in self._waiting.get(name, ()):
                bell.set()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Listen no more."""
        if self._rest is not None:
            self._rest.cancel()
        task = self._task
        self._stop()
        if task is not None:
            await asyncio.wait([task])


class Doorbells:
    """One for each process and event loop."""

    def __init__(self, notifier: Notifier) -> None:
        self._bells = PerLoop(lambda: Doorbell(notifier))

    def here(self) -> Doorbell:
        """Return the one of this process and event loop."""
        return self._bells.here()

    async def close(self) -> None:
        """Close the one of this process and event loop."""
        found = self._bells.take()
        if found is not None:
            await found.close()
