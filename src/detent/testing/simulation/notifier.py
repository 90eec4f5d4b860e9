"""Wake-ups that get lost, come twice and come late; polling alone has to be correct."""

import asyncio
import contextvars
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from detent.spi.notifier import Heard, Receive, Silence, Wake
from detent.testing.simulation.network import BOTH, REPLIES, REQUESTS, later
from detent.testing.simulation.process import Process, who
from detent.testing.virtual import running_loop

# How long a listener needs to connect again, at most.
RECONNECT: Final = 5.0
# The share of listeners that notice at once that they hear nothing.
NOTICED: Final = 0.6


@dataclass(frozen=True, slots=True, eq=False)
class _Listener:
    process: Process
    receive: Receive
    context: contextvars.Context


class SeededNotifier:
    """Carries wake-ups between processes, more or less."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{seed} notifier")
        self._listeners: list[_Listener] = []
        self.loses = 0.0
        """The share of wake-ups that never arrive."""
        self.repeats = 0.0
        self.down = False
        self.lost = 0
        self.repeated = 0

    def publish(self, wakes: Sequence[Wake]) -> None:
        """See `Notifier.publish`."""
        if not wakes:
            return
        if self.down or who().cut in (BOTH, REQUESTS):
            self.lost += 1
            return
        for listener in self._listeners:
            chance = self._random.random()
            if chance < self.loses or listener.process.cut in (BOTH, REPLIES):
                self.lost += 1
                continue
            self._deliver(listener, wakes, self._random.uniform(0.000_2, 0.003))
            if chance > 1 - self.repeats:
                self.repeated += 1
                self._deliver(listener, wakes, self._random.uniform(0.0, 2.0))

    async def listen(self, receive: Receive) -> None:
        """See `Notifier.listen`."""
        listener = _Listener(who(), receive, contextvars.copy_context())
        self._listeners.append(listener)
        try:
            receive(())
            await running_loop().create_future()
        finally:
            if listener in self._listeners:
                self._listeners.remove(listener)

    async def flush(self) -> None:
        """See `Notifier.flush`."""
        await asyncio.sleep(0)

    async def close(self) -> None:
        """See `Notifier.close`."""

    def forget(self, process: Process) -> None:
        """Let the connection of a dead process go."""
        self._listeners = [each for each in self._listeners if each.process is not process]

    def disconnect(self, process: Process | None = None) -> None:
        """The connection of a process broke, or those of all; some notice it."""
        for listener in self._listeners:
            if process in (None, listener.process) and self._random.random() < NOTICED:
                self._deliver(listener, (Silence("no connection"),), self._random.uniform(0.0, 3.0))

    def reconnect(self, process: Process | None = None) -> None:
        """There is a connection again: each listener looks for itself."""
        for listener in self._listeners:
            if process in (None, listener.process):
                self._deliver(listener, (), self._random.uniform(0.0, RECONNECT))

    def _deliver(self, listener: _Listener, wakes: Sequence[Heard], seconds: float) -> None:
        loop = running_loop()

        def arrive() -> None:
            # From here on it is on the listener's own strand, which may be stopped.
            if listener in self._listeners:
                loop.call_soon(listener.receive, wakes, context=listener.context)

        later(seconds, arrive)
