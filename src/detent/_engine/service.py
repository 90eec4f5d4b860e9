"""The one loop that every background service runs in.

A service writes `run_once`, which does one bounded piece of work and returns how long to wait
before the next; being woken cuts the wait short. Trouble with the store is told once, waited out
with growing pauses, and told again when it is over.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from detent._engine.wakeup import Wakeup
from detent.events import Bus, StoreRecovered, StoreTrouble
from detent.spi.runtime import Runtime

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0


class Service(ABC):
    """Something that goes on in the background of a node."""

    name = "service"

    def __init__(self, runtime: Runtime, bus: Bus) -> None:
        self.runtime = runtime
        self.bus = bus
        self._wakeup = Wakeup(runtime)
        self._answered = Wakeup(runtime)
        self._pause = 0.0
        self._has_asked_store = True
        self._stopping = False
        self.woken = True
        """Whether the last wait was cut short, and not simply over."""
        self.recoveries = 0
        """How often the store answered again after trouble."""

    def wake(self) -> None:
        """Run as soon as possible instead of after the wait."""
        self._wakeup.set()

    def store_answers(self) -> None:
        """Cut the pause after trouble short: another part of the node has had an answer."""
        if self._pause:
            self._answered.set()

    def stop(self) -> None:
        """End after the piece of work that is being done."""
        self._stopping = True
        self._wakeup.set()

    async def run(self) -> None:
        """Work until stopped."""
        while not self._stopping:
            delay = await self._run_guarded()
            if delay > 0 and not self._stopping:
                self.woken = await self._wakeup.wait(delay)
            elif self._pause:
                await self.runtime.sleep(0)

    async def _run_guarded(self) -> float:
        self._has_asked_store = True
        try:
            delay = await self.run_once()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  a service must outlive any trouble
            self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            pause = self._pause * self.runtime.uniform(0.5, 1.0)
            if self._pause in (FIRST_PAUSE, LONGEST_PAUSE):
                self.bus.emit(StoreTrouble(self.name, f"{type(error).__name__}: {error}", pause))
            self.on_trouble(error)
            await self._answered.wait(pause)
            return 0.0
        if self._pause and self._has_asked_store:
            self._pause = 0.0
            self.recoveries += 1
            self.bus.emit(StoreRecovered(self.name))
        return delay

    def unasked(self, delay: float) -> float:
        """Return the delay of a `run_once` that has asked the store nothing.

        It says nothing about a store that did not answer before.
        """
        self._has_asked_store = False
        return delay

    def on_trouble(self, error: Exception) -> None:  # noqa: B027  most have nothing to add
        """Be told that `run_once` raised; the loop goes on by itself."""

    @abstractmethod
    async def run_once(self) -> float:
        """Do one bounded piece of work; return the seconds to wait before the next."""
