"""Hears wake-ups for a node: without it nobody would know that none arrive any more."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from detent.events import Bus, WakeupsLost, WakeupsRestored
from detent.model.failure import describe
from detent.spi.notifier import Heard, Notifier, Silence, Wake
from detent.spi.runtime import Runtime

PAUSES: Final = (0.5, 30.0)
# A try to listen again is given at least this time.
TRY: Final = 3.0


class Listener:
    """Passes wake-ups on, and tells when they come no more and when they come again."""

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        notifier: Notifier,
        receive: Callable[[Sequence[Wake]], None],
    ) -> None:
        self._runtime = runtime
        self._bus = bus
        self._notifier = notifier
        self._receive = receive
        self._deaf = False
        self._task: asyncio.Task[Any] | None = None
        self._hurried = False
        self._hurried_at = -math.inf
        self.on_change: Callable[[bool], None] = lambda _hears: None
        """Called with whether wake-ups arrive, when that changes."""

    async def run(self) -> None:
        """Listen until canceled; whatever a notifier does, it is asked again."""
        self._task = asyncio.current_task()
        pause = PAUSES[0]
        while True:
            try:
                await self._listen(pause)
            except asyncio.CancelledError:
                if not self._ends_hurry():
                    raise
                pause = PAUSES[0]
            else:
                pause = min(pause * 2, PAUSES[1])

    async def _listen(self, pause: float) -> None:
        """Listen until the notifier gives up, and rest."""
        try:
            await self._notifier.listen(self._hear)
            reason = "the notifier has ended"
        except Exception as error:  # noqa: BLE001  it may be an application's own
            reason = describe(error)
        self._lost(reason)
        await self._runtime.sleep(pause * self._runtime.uniform(0.5, 1.0))

    def store_answers(self) -> None:
        """Listen anew if no wake-ups arrive: what kept them away may be over.

        The pauses between tries have grown meanwhile, and so have those between polls.
        """
        now = self._runtime.monotonic()
        if self._deaf and self._task is not None and now - self._hurried_at >= TRY:
            self._hurried, self._hurried_at = True, now
            self._task.cancel()

    def _ends_hurry(self) -> bool:
        """Return whether a cancellation was ours, and only ours."""
        hurried, self._hurried = self._hurried, False
        return hurried and self._task is not None and self._task.uncancel() == 0

    def _hear(self, heard: Sequence[Heard]) -> None:
        wakes = []
        for each in heard:
            if isinstance(each, Silence):
                self._lost(each.reason)
            else:
                wakes.append(each)
        if wakes or not heard:
            self._found()
            self._receive(wakes)

    def _lost(self, reason: str) -> None:
        if not self._deaf:
            self._deaf = True
            self.on_change(False)
            self._bus.emit(WakeupsLost(reason))

    def _found(self) -> None:
        if self._deaf:
            self._deaf = False
            self.on_change(True)
            self._bus.emit(WakeupsRestored())
