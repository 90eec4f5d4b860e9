"""The way to the store: slow, sometimes very slow, and not to be relied upon."""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from detent.errors import StoreUnavailable
from detent.testing.simulation.store import Call


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad a line is; shares are of all passages, there or back."""

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


class SeededLine:
    """A line whose trouble follows from a seed; single processes can be cut off from it."""

    def __init__(self, seed: str, weather: Weather) -> None:
        self._random = random.Random(seed)
        self.weather = weather
        self._cut_off: dict[str, asyncio.Event] = {}

    def cut(self, who: str) -> None:
        """Let nothing of a process through."""
        self._cut_off[who] = asyncio.Event()

    def heal(self, who: str) -> None:
        """Let it through again, and with it what was only held up."""
        self._cut_off.pop(who).set()

    async def carry(self, call: Call) -> None:
        """See `Line.carry`."""
        await asyncio.sleep(self._time())
        if (healed := self._cut_off.get(call.who)) is not None:
            if self._random.random() < HELD_UP:
                await healed.wait()
                return
            await asyncio.sleep(self._random.uniform(0.0, 2.0))
            raise StoreUnavailable("cut off")
        if self._random.random() < self.weather.loses:
            raise StoreUnavailable("the reply was lost" if call.done else "the request was lost")

    def _time(self) -> float:
        chance, weather = self._random.random(), self.weather
        if chance < weather.stalls:
            return self._random.uniform(5.0, 30.0)
        if chance < weather.stalls + weather.dawdles:
            return self._random.uniform(0.01, 1.0)
        return self._random.uniform(0.000_2, 0.004)
