"""Keeps wake-ups until they are sent, even when the program that published them ends at once.

Publishing never waits, so what is published last is still on its way when a short script ends. An
event loop that `asyncio.run` closes cancels its tasks and waits for them: the wake-ups go out
then. A loop that merely stops, or runs on a thread of a process that exits, is seen to at the exit
of the process, for a second at most.
"""

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from typing import Final
from weakref import WeakSet

from detent.notifiers.news import News
from detent.notifiers.strays import Send, Strays
from detent.spi.notifier import Wake

# A stream of wake-ups is thinned out: nodes that get work ask again by themselves.
PAUSE: Final = 0.005
LONG_PAUSE: Final = 0.020
STREAM: Final = 8
# Nobody waits longer than this for a hint.
PATIENCE: Final = 1.0


class Outbox:
    """What one event loop still has to send; the newest news of a lane replace the older."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Send) -> None:
        self.loop = loop
        self._process = os.getpid()
        self._send = send
        self._waiting = News()
        self._on_the_way: list[Wake] = []
        self._task: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._added = 0
        self._sent_at = -1.0

    def add(self, wakes: Sequence[Wake]) -> None:
        """Send wake-ups soon."""
        self._added += 1
        self._waiting.add(wakes)
        if self._task is None or self._task.done():
            self._empty.clear()
            self._task = self.loop.create_task(self._run())
            # A loop may stop for ever while this one waits: what is left is seen to at the exit.
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  as asyncio does for its own

    def unsent(self) -> list[Wake]:
        """Return what may not have been sent."""
        if self._process != os.getpid():
            return []  # a fork has inherited it: it is the parent's to send
        return [*self._on_the_way, *self._waiting.look()]

    async def flushed(self) -> None:
        """Wait until everything has been sent, or could not be."""
        if self._task is not None and not self._task.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), PATIENCE)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._pause()
                self._on_the_way = self._waiting.take()
                self._added = 0
                self._sent_at = self.loop.time()
                await self._send(self._on_the_way)
                self._on_the_way = []
        except asyncio.CancelledError:
            # The loop is closing, and waits for us. What was on its way is said again.
            await self._say_last_words()
            raise
        finally:
            self._empty.set()

    async def _pause(self) -> None:
        """Wait only if the last time was just now; by the clock, since loops may stand still."""
        await self._wait_until(self._sent_at + PAUSE)
        if self._added > STREAM:
            await self._wait_until(self._sent_at + LONG_PAUSE)

    async def _wait_until(self, moment: float) -> None:
        pause = moment - self.loop.time()
        if pause > 0:
            await asyncio.sleep(pause)

    async def _say_last_words(self) -> None:
        wakes, self._waiting, self._on_the_way = self.unsent(), News(), []
        with suppress(TimeoutError):
            await asyncio.wait_for(self._send(wakes), PATIENCE)


class Outboxes:
    """The outboxes of a notifier: one for each event loop."""

    def __init__(self, send: Send, send_alone: Send) -> None:
        self._send = send
        self._send_alone = send_alone
        self._boxes: dict[int, Outbox] = {}
        self._strays = Strays(send_alone, PATIENCE)
        _AT_EXIT.add(self)

    def add(self, wakes: Sequence[Wake]) -> None:
        """Send wake-ups soon, by the running loop or, on a thread that has none, beside it."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._strays.add(wakes)
        else:
            self.here().add(wakes)

    def here(self) -> Outbox:
        """Return the one of the running loop."""
        loop = asyncio.get_running_loop()
        box = self._boxes.get(id(loop))
        if box is None or box.loop is not loop:
            left = [wake for each in self._drop_closed() for wake in each.unsent()]
            box = self._boxes[id(loop)] = Outbox(loop, self._send)
            if left:
                box.add(left)
        return box

    def _drop_closed(self) -> list[Outbox]:
        # A copy, since loops of other threads come and go.
        closed = [key for key, box in list(self._boxes.items()) if box.loop.is_closed()]
        dropped = [self._boxes.pop(key, None) for key in closed]
        return [box for box in dropped if box is not None]

    def flush_at_exit(self, ends_at: float) -> None:
        """Send what is left in this process; loops that run on other threads do it themselves."""
        left = self._strays.take()
        for box in list(self._boxes.values()):
            if not box.unsent():
                continue
            if box.loop.is_running():
                told = asyncio.run_coroutine_threadsafe(box.flushed(), box.loop)
                with suppress(StillRunning):
                    told.result(max(0.0, ends_at - time.monotonic()))
            else:
                left += box.unsent()
        self._boxes.clear()
        if left:
            asyncio.run(self._send_within(left, ends_at))

    async def _send_within(self, wakes: Sequence[Wake], ends_at: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._send_alone(wakes), max(0.0, ends_at - time.monotonic()))


_AT_EXIT: Final[WeakSet[Outboxes]] = WeakSet()


def _flush_at_exit() -> None:
    ends_at = time.monotonic() + PATIENCE
    for outboxes in list(_AT_EXIT):
        outboxes.flush_at_exit(ends_at)


# Twice: before the threads that look up host names are gone, which is also all that happens at the
# end of a child of multiprocessing; and again, for what other threads published until their end.
with suppress(RuntimeError):  # the main thread has ended already: the second time is enough
    getattr(threading, "_register_atexit", atexit.register)(_flush_at_exit)
atexit.register(_flush_at_exit)
