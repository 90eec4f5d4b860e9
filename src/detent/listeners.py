"""Tells the application what has happened, after it is committed and without anybody waiting.

Each listener has a queue and a task of its own: events come in the order in which they were
written down, a slow listener falls behind alone, and one that is too slow misses the oldest. A
listener that is not there costs nothing: no event is even made.
"""

import asyncio
import atexit
import contextvars
import inspect
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from detent.events import Bus, HookFailed, ListenerOverflow
from detent.lazy import PerLoop
from detent.model.failure import describe
from detent.spi.runtime import Runtime
from detent.spi.sinks import Outlet

BUFFER: Final = 10_000
# How many events a thread tells before the loop is asked for more.
BATCH: Final = 100

PATIENCE: Final = 5.0

Listen = Callable[[Any], Any]


class Listeners:
    """Those who listen, and what is on its way to them."""

    def __init__(
        self, runtime: Runtime, bus: Bus, buffer: int = BUFFER, patience: float = PATIENCE
    ) -> None:
        self._runtime = runtime
        self._bus = bus
        self._buffer = buffer
        self._patience = patience
        self._feeds: PerLoop[dict[int, Feed]] = PerLoop(dict)
        self.by_type: dict[type, list[Listen]] = {}
        """Empty as long as nobody listens: so that asking is cheap."""

    def add(self, listener: Listen, kinds: Sequence[type]) -> None:
        """Call `listener` with every event of exactly these types."""
        for kind in kinds:
            self.by_type.setdefault(kind, []).append(listener)

    def wants(self, kind: type) -> bool:
        """Whether anybody listens, or the bus does."""
        return kind in self.by_type or self._bus.wants(kind)

    def publish(self, event: object) -> None:
        """Tell the listeners soon; on the event loop. What it speaks of is committed."""
        for listener in self.by_type.get(type(event), ()):
            self._feed(listener).put(event)

    def announce(self, event: object) -> None:
        """Tell the bus at once and the listeners soon."""
        self._bus.emit(event)
        self.publish(event)

    def _feed(self, listener: Listen) -> "Feed":
        feeds = self._feeds.here()
        found = feeds.get(id(listener))
        if found is None:
            found = feeds[id(listener)] = Feed(self._runtime, self._bus, listener, self._buffer)
            _with_feeds.add(self)
        return found

    async def drain(self, limit: float) -> None:
        """Wait until all has been told on this event loop, but no longer than that.

        What is left goes on: another node of the program may still work.
        """
        tasks = [feed.task for feed in self._here() if feed.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=limit)

    async def close(self, limit: float) -> None:
        """Do the same, and give up what is left."""
        await self.drain(limit)
        tasks = [feed.task for feed in self._here() if feed.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            # One that does not even end when it is told to keeps nobody.
            await asyncio.wait(tasks, timeout=limit)

    def tell_the_last(self) -> None:
        """Wait for the loop behind blocking code, which nobody closes; the program ends."""
        for loop, feeds in self._feeds.all_here():
            if not loop.is_running() or not any(feed.task for feed in list(feeds.values())):
                continue
            told = asyncio.run_coroutine_threadsafe(self.drain(self._patience), loop)
            with suppress(TimeoutError):
                told.result(self._patience)

    def _here(self) -> "list[Feed]":
        return list(self._feeds.here().values())


_with_feeds: Final[weakref.WeakSet[Listeners]] = weakref.WeakSet()


@atexit.register
def _tell_the_last() -> None:
    for listeners in list(_with_feeds):
        listeners.tell_the_last()


@dataclass(frozen=True, slots=True)
class Audience:
    """All who want to know what a node has done."""

    listeners: Listeners
    outlets: Mapping[str, Outlet] = field(default_factory=dict)
    """The sinks that this program can deliver to, by name."""
    alerted: Sequence[str] = ()
    """Those of them that hear of failures of a new kind."""


class Feed:
    """What one listener is told on one event loop, in order."""

    def __init__(self, runtime: Runtime, bus: Bus, listener: Listen, buffer: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None
        self._runtime = runtime
        self._bus = bus
        self._listener = listener
        self._name: str = getattr(listener, "__qualname__", type(listener).__qualname__)
        self._waiting: deque[object] = deque()
        self._buffer = buffer
        self._dropped = 0
        self._overflowing = False
        call = getattr(listener, "__call__", None)  # noqa: B004  an object may be a listener
        self._is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)

    def put(self, event: object) -> None:
        """Add an event; a full queue loses its oldest."""
        if len(self._waiting) >= self._buffer:
            self._waiting.popleft()
            self._dropped += 1
            if not self._overflowing:
                # At once, since a listener that hangs never comes back to tell.
                self._overflowing = True
                self._tell_dropped()
        self._waiting.append(event)
        if self.task is None:
            # In a context of its own: what a listener does is not done in a job, nor in the name
            # of whoever that job is for.
            spawn = contextvars.Context().run
            self.task = spawn(self._runtime.spawn, self._run(), "detent-listener")

    async def _run(self) -> None:
        """Tell until nothing waits; the next event begins anew."""
        try:
            while self._waiting:
                if self._is_async:
                    await self._finish(self._listener(self._waiting.popleft()))
                else:
                    await self._call_on_thread()
                self._overflowing = len(self._waiting) >= self._buffer
                self._tell_dropped()
        except asyncio.CancelledError:
            # The end of the app, or of the program: what has not been told is lost.
            self._dropped += len(self._waiting)
            self._waiting.clear()
            self._tell_dropped()
            raise
        finally:
            self.task = None

    async def _finish(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except BaseException as error:
            # The user's function: whatever it is, the next event is told.
            if isinstance(error, asyncio.CancelledError) and self.task and self.task.cancelling():
                raise  # not something that it awaited, but we ourselves are to end
            self._failed(error)

    async def _call_on_thread(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        answers = await self._runtime.blocking(
            lambda: [self._try(event) for event in batch], "detent-listener"
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                self._failed(answer)
            elif inspect.isawaitable(answer):
                # A `lambda` around an async function.
                await self._finish(answer)

    def _try(self, event: object) -> object:
        try:
            return self._listener(event)
        except BaseException as error:  # noqa: BLE001  the user's function: the next event is told
            return error

    def _failed(self, error: BaseException) -> None:
        self._bus.emit(HookFailed(self._name, describe(error)))

    def _tell_dropped(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._bus.emit(ListenerOverflow(self._name, dropped))
