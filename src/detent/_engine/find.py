"""Finds lanes of jobs that need capabilities, beside the hot path."""

from collections.abc import Sequence
from typing import Final

from detent._engine.claim import Claimer
from detent._engine.look import rest_after
from detent._engine.service import Service
from detent.events import Bus
from detent.spi.notifier import Wake
from detent.spi.runtime import Runtime
from detent.spi.store import ClaimStore

# Hints tell of lanes; these looks are for hints that were lost, and for lanes that are empty now.
LOOK: Final = 10.0
ALONE: Final = 2.0
FOREVER: Final = 3_600.0


class LaneFinder(Service):
    """Looks from time to time which lanes hold jobs that need something."""

    name = "lanes"

    def __init__(self, runtime: Runtime, bus: Bus, store: ClaimStore, claimer: Claimer) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._claimer = claimer
        self._alone = False

    def rely_on_wakeups(self, hears: bool) -> None:
        """Know whether hints reach this node."""
        self._alone = not hears
        self.wake()

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups; nothing in them means that some may be missing."""
        if not wakes:
            self.wake()

    async def run_once(self) -> float:
        """Look once, if the node offers anything."""
        if not self._claimer.served.may_grow:
            return self.unasked(FOREVER)
        before = self.runtime.monotonic()
        await self.look()
        pause = (ALONE if self._alone else LOOK) * self.runtime.uniform(0.8, 1.0)
        return max(pause, rest_after(self.runtime.monotonic() - before))

    async def look(self) -> None:
        """Learn which lanes there are; asked before the first claim, and then again and again."""
        claimer = self._claimer
        if claimer.served.may_grow:
            claimer.served.begin_look()
            claimer.learn_lanes(await self._store.needy_lanes(list(claimer.served.by_queue)))
