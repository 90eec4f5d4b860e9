"""A clock that moves when a test says so: without it, a test of a timeout would sit it out."""

import asyncio
from collections.abc import Callable

from detent.clock import SystemRuntime
from detent.spi.runtime import Cancelable


class Timer:
    """Something to be done, once, when its time has come or is let come."""

    def __init__(self, due: float, seconds: float, action: Callable[[], None]) -> None:
        self.due = due
        self._action: Callable[[], None] | None = action
        self.loop = asyncio.get_running_loop()
        self._handle = self.loop.call_later(seconds, self.fire)

    def cancel(self) -> None:
        self._action = None
        self._handle.cancel()

    def fire(self) -> None:
        action = self._action
        self.cancel()
        if action is not None:
            action()


class HaltedClock(SystemRuntime):
    """The real world, in which nothing takes any time, however busy the machine is."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[Timer] = []
        self.monotonic = lambda: self._now

    def later(self, seconds: float, action: Callable[[], None]) -> Cancelable:
        """See `Runtime.later`."""
        timer = Timer(self._now + seconds, seconds, action)
        self._timers.append(timer)
        return timer

    def go_on(self, seconds: float) -> None:
        """Let time pass at once, and with it the timers of this event loop."""
        self._now += seconds
        due = [timer for timer in self._timers if timer.due <= self._now]
        self._timers = [timer for timer in self._timers if timer.due > self._now]
        for timer in due:
            if timer.loop is asyncio.get_running_loop():
                timer.fire()
