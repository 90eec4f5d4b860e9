"""Spreads work on large values over turns of the event loop.

Encoding or decoding a value of the largest size allowed takes a few milliseconds, or some tens for
deeply nested ones. The loop can bear one of them in a turn, but not the hundred that a hundred
tasks bring at once. A thread would not help: the work holds the interpreter's lock.
"""

import asyncio
from collections import deque
from typing import Final

# So many bytes are worked on in one turn; the value that exceeds it is still taken.
TURN: Final = 1 << 20
# Smaller values are not worth counting.
LARGE: Final = 1 << 16


class Pace:
    """Counts the bytes of large values in the current turn of one event loop."""

    __slots__ = ("_planned", "_waiting", "spent")

    def __init__(self) -> None:
        self.spent = 0
        """The bytes of this turn; while it is 0, no call of `turn` is needed."""
        self._planned = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def spend(self, size: int) -> None:
        """Count a large value that was worked on."""
        self.spent += size
        self._plan()

    async def turn(self) -> None:
        """Wait for a turn in which not too much was done yet."""
        if self.spent >= TURN:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self._plan()
            await waiter

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._planned = False
        self.spent = 0
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        if self._waiting:
            # Those that come now are not to overtake all that wait.
            self.spent = TURN
            self._plan()
