"""What lies between the processes and their store: slow, sometimes very slow, and often broken."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from detent.testing.simulation.process import WORLD, Process
from detent.testing.virtual import running_loop


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the lines are; shares are of all passages, there or back."""

    loses: float
    """The share of requests and replies that are lost."""
    dawdles: float
    """The share that takes up to a second."""
    stalls: float
    """The share that takes up to half a minute, longer than any lease."""


WEATHERS: Final = {
    "fair": Weather(loses=0.0, dawdles=0.0, stalls=0.0),
    "windy": Weather(loses=0.01, dawdles=0.02, stalls=0.001),
    "rough": Weather(loses=0.03, dawdles=0.05, stalls=0.003),
    "storm": Weather(loses=0.03, dawdles=0.08, stalls=0.02),
}
# The share of what a cut meets that is not lost but arrives after it, when nobody expects it.
HELD_UP: Final = 0.3
# A passage that takes longer counts as trouble.
LONG: Final = 0.25

BOTH: Final = "both ways"
REQUESTS: Final = "requests"
REPLIES: Final = "replies"
LOST: Final = "lost on the way"


class Network:
    """The lines of all processes; what goes wrong on them follows from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{seed} network")
        self._held_up: dict[Process, list[Callable[[], None]]] = {}
        self.weather = WEATHERS["fair"]
        self.lost = 0
        """How many requests and replies never arrived."""
        self.stalled = 0

    def cut(self, process: Process, ways: str = BOTH) -> None:
        """Let nothing of a process through, one way or both."""
        process.cut = ways

    def heal(self, process: Process) -> None:
        """Let it through again, and with it what was only held up."""
        process.cut = None
        process.suffers()
        for proceed in self._held_up.pop(process, ()):
            later(self._random.uniform(0.0, 0.5), proceed)

    def carry(
        self,
        process: Process,
        way: str,
        arrive: Callable[[], None],
        lose: Callable[[str], None],
    ) -> None:
        """Bring something of a process to its end, `REQUESTS` or `REPLIES`, or lose it on the way.

        Either of the two functions is called once, some time from now.
        """
        seconds = self._time()
        if seconds > LONG:
            process.suffers(seconds)
        if self._random.random() < self.weather.loses:
            self._lose(process, seconds, way, lose)
        elif process.cut is not None:
            later(seconds, lambda: self._meet_cut(process, way, arrive, lose))
        else:
            # What is on its way when the line is cut may still get through.
            later(seconds, arrive)

    def _meet_cut(
        self, process: Process, way: str, arrive: Callable[[], None], lose: Callable[[str], None]
    ) -> None:
        if process.cut is None or process.cut not in (BOTH, way):
            arrive()
        elif self._random.random() < HELD_UP:
            self._held_up.setdefault(process, []).append(arrive)
        else:
            self._lose(process, self._random.uniform(0.0, 2.0), way, lose)

    def _lose(
        self, process: Process, seconds: float, way: str, lose: Callable[[str], None]
    ) -> None:
        self.lost += 1
        process.suffers(seconds)
        later(seconds, lambda: lose(f"{way} of {process.name}: {LOST}"))

    def _time(self) -> float:
        chance, weather = self._random.random(), self.weather
        if chance < weather.stalls:
            self.stalled += 1
            return self._random.uniform(5.0, 30.0)
        if chance < weather.stalls + weather.dawdles:
            return self._random.uniform(0.01, 1.0)
        return self._random.uniform(0.000_2, 0.004)


def later(seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
    """Let something happen in the world, whatever becomes of the process that caused it."""
    return running_loop().call_later(seconds, action, context=WORLD)
