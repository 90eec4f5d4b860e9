"""A right that runs out unless it is confirmed: what locks and leaderships have in common."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from detent.errors import StoreError
from detent.spi.leadership import BELIEF
from detent.spi.runtime import Runtime

# Who could not confirm for this share of the time must assume that others will soon have it.
TRUST: Final = 2 / 3
CONFIRM: Final = 1 / 3
# After an attempt that failed the next follows after this share of the interval.
RETRY: Final = 0.1


class Holding:
    """Confirms a right in the background, on the event loop on which it began."""

    def __init__(
        self,
        runtime: Runtime,
        length: timedelta,
        confirm: Callable[[], Awaitable[bool]],
        on_lost: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._length = length.total_seconds()
        self._confirm = confirm
        self._on_lost = on_lost
        self._confirmed = self._until = runtime.monotonic()
        self._doubted = -math.inf
        self._resting: asyncio.Event | None = None
        self._task: asyncio.Task[Any] | None = None
        self.loop = asyncio.get_running_loop()
        self.lost = asyncio.Event()
        self.reason = "it was released"

    def begin(self, asked_at: float, name: str) -> None:
        """Hold it from when the store was asked: its time began no sooner."""
        self._believe(asked_at)
        self._task = self._runtime.spawn(self._keep(), name)

    def _believe(self, asked_at: float) -> None:
        self._confirmed = asked_at
        self._until = asked_at + self._length * TRUST
        if self._doubted > asked_at:
            self._until = min(self._until, self._doubted + BELIEF.total_seconds())

    def doubt(self) -> None:
        """Confirm it at once, or believe in it for `BELIEF` at most: see `Candidate.on_doubt`."""
        self._doubted = self._runtime.monotonic()
        self._until = min(self._until, self._doubted + BELIEF.total_seconds())
        if self._resting is not None:
            self._resting.set()

    @property
    def is_held(self) -> bool:
        """Whether it may be believed in at this moment; on any thread."""
        return self._task is not None and not self.lost.is_set() and self._left > 0

    @property
    def _left(self) -> float:
        return self._until - self._runtime.monotonic()

    async def end(self) -> None:
        """Confirm it no more."""
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])

    async def _keep(self) -> None:
        interval = self._length * CONFIRM
        pause = interval
        while True:
            await self._rest(min(pause * self._runtime.uniform(0.9, 1.0), self._left))
            if self._left <= 0:
                silent = self._runtime.monotonic() - self._confirmed
                self._lose(f"it could not be renewed for {silent:.1f} s")
                return
            asked_at = self._runtime.monotonic()
            try:
                async with asyncio.timeout(self._left):
                    held = await self._confirm()
            except (StoreError, TimeoutError):
                # In doubt there is time for a few tries, all of them soon.
                in_doubt = self._doubted >= self._confirmed
                pause = BELIEF.total_seconds() * RETRY if in_doubt else interval * RETRY
                continue
            if not held:
                self._lose("it was taken away, or ran out and went to somebody else")
                return
            self._believe(asked_at)
            pause = interval

    async def _rest(self, seconds: float) -> None:
        """Wait, or until there is doubt."""
        resting = self._resting = asyncio.Event()
        timer = self._runtime.later(max(seconds, 0.0), resting.set)
        try:
            await resting.wait()
        finally:
            self._resting = None
            timer.cancel()

    def lose(self, reason: str) -> None:
        """Hold it no longer, and say so; to be called before others can have it."""
        if self._task is not None and not self.lost.is_set():
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        self.reason = reason
        self.lost.set()
        self._on_lost(reason)
