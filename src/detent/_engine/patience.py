"""How long a node that ends waits for its store.

A store that answers gets its time. One that has kept the node waiting once gets little, and what
does not even end when it is canceled is left behind: a process that was told to end must end.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from detent.errors import StoreError
from detent.events import Bus, HookFailed
from detent.spi.runtime import Runtime

LAST_CALL: Final = 2.5
# What others would have to wait for takes several calls, and a slow store is not silent.
HAND_BACK: Final = 5.0
SHORT_CALL: Final = 0.5
NEEDED_CALL: Final = 1.0
HURRIED_CALL: Final = 0.3
# How long a canceled piece of work may take to end.
CANCELED: Final = 0.2


class Patience:
    """The waits of a node that ends."""

    def __init__(self, runtime: Runtime, bus: Bus) -> None:
        self._runtime = runtime
        self._bus = bus
        self._waits: dict[asyncio.Future[None], None] = {}
        self.hurried = False
        """Whether the node was told to end at once."""
        self.unanswered = False
        """Whether the store has kept the end waiting."""

    def hurry(self) -> None:
        """Wait for nothing long from now on, nor for what is being waited for."""
        if not self.hurried:
            self.hurried = True
            self._runtime.later(HURRIED_CALL, partial(_expire, *self._waits))

    def limit(self, usual: float) -> float:
        """Return how long to wait for what usually has so long."""
        if self.unanswered:
            return min(usual, HURRIED_CALL if self.hurried else SHORT_CALL)
        return min(usual, NEEDED_CALL) if self.hurried else usual

    async def attempt(self, work: Coroutine[Any, Any, Any], *, needed: bool = False) -> None:
        """Do something that may fail: other nodes will do it when the lease has ended.

        When the store does not answer, only what is `needed` is tried: without it others wait.
        """
        if self.unanswered and not needed:
            work.close()
            return
        usual = self.limit(HAND_BACK if needed else LAST_CALL)
        if needed and self.unanswered and not self.hurried:
            usual = NEEDED_CALL
        task = self._runtime.spawn(_refusal(work), "detent-last-call")
        if not await self._ended([task], usual):
            self._bus.emit(HookFailed("drain", f"no answer of the store within {usual:g} s"))
            await self._leave_behind([task])
        elif (refusal := await task) is not None:
            self._bus.emit(HookFailed("drain", str(refusal)))

    async def see_end(self, tasks: Sequence[Any], usual: float) -> None:
        """Wait for tasks that were told to end; leave those behind that do not."""
        if not await self._ended(tasks, self.limit(usual)):
            await self._leave_behind(tasks)

    async def _ended(self, tasks: Sequence[Any], limit: float) -> bool:
        """Wait until tasks have ended, for so long at most; return whether they have."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._runtime.later(limit, partial(_expire, over))
        self._waits[over] = None
        try:
            for task in tasks:
                while not task.done() and not over.done():
                    await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            del self._waits[over]
        return all(task.done() for task in tasks)

    async def _leave_behind(self, tasks: Sequence[Any]) -> None:
        """Cancel tasks, and go on without those that do not end soon."""
        self.unanswered = True
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.add_done_callback(_retrieve)
            task.cancel()
        await self._ended(left, CANCELED)


async def _refusal(work: Coroutine[Any, Any, Any]) -> StoreError | None:
    """Do something; return what the store said against it."""
    try:
        await work
    except StoreError as error:
        return error
    return None


def _expire(*waits: "asyncio.Future[None]") -> None:
    for over in waits:
        if not over.done():
            over.set_result(None)


def _retrieve(task: "asyncio.Future[Any]") -> None:
    """Take note of how a task ended that no one waits for, so that asyncio does not warn."""
    if not task.cancelled():
        task.exception()
