"""How long an idle node waits before it looks again: pure arithmetic over what it saw."""

from collections import deque
from typing import Final

from detent.config import PollingConfig

BUSY: Final = 0.8
QUIET: Final = 0.2


class Polling:
    """Adapts the pause between polls to the work of the last ten.

    After a wake-up polls come in a burst until some of them were empty. Otherwise the pause
    doubles while polls come back nearly empty and halves while they come back nearly full,
    between the minimum and the maximum; a node that is busy anyway polls less. After a minute
    without work it waits longest: wake-ups still reach it. Where they do not, it is alone, and
    never waits longer than the maximum.
    """

    def __init__(self, config: PollingConfig, now: float) -> None:
        self._config = config
        self._shares: deque[float] = deque(maxlen=config.window)
        self._pause = config.minimum.total_seconds()
        self._burst_left = config.burst_polls
        self._last_work = now
        self._expects_one = False
        self.alone = False

    def woken(self, *, lone: bool = False) -> None:
        """A wake-up came: poll in a burst; for a `lone` job only if the next claim misses it."""
        if lone:
            self._expects_one = True
        else:
            self._burst_left = self._config.burst_polls

    def next_pause(
        self, taken: int, asked: int, load: float, now: float, *, lone: bool = False
    ) -> float:
        """Return the pause after a poll that took so many of the jobs it asked for.

        `load` is the share of this node's slots that are busy. What was taken was `lone` if hints
        told of each: no more of it is to be expected, and each node that polls in a burst for it
        would cost more than the job.
        """
        config = self._config
        if taken:
            self._last_work = now
        # A carrier may tell of a job before the transaction that holds it has ended.
        missed, self._expects_one = self._expects_one and not taken, False
        if missed or (taken and not lone):
            self._burst_left = config.burst_polls
        else:
            self._burst_left = max(self._burst_left - 1, 0)
        if self._burst_left:
            return config.burst.total_seconds()
        pause = self._pause
        self._shares.append(taken / asked if asked else 0.0)
        self._adapt()
        if not self.alone and now - self._last_work >= config.deep_idle_after.total_seconds():
            return config.deep_idle.total_seconds()
        return min(pause * (1.0 + load), config.maximum.total_seconds())

    def _adapt(self) -> None:
        average = sum(self._shares) / len(self._shares)
        low = self._config.minimum.total_seconds()
        high = self._config.maximum.total_seconds()
        if average > BUSY:
            self._pause = max(self._pause / 2, low)
        elif average < QUIET:
            self._pause = min(self._pause * 2, high)
