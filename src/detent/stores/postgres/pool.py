"""Connections of one event loop.

The pool is our own since ours can be simple: the statements of this package leave no session
state behind, so a returned connection needs no reset (the driver's pool sends one each time).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, TypeAlias

from detent.stores.postgres.failures import DRIVER_ERRORS

Connection: TypeAlias = Any  # asyncpg brings no types

# What tasks never hold: with all connections lent, one that waits for the store would wait for
# itself, and the node would neither claim nor finish.
KEPT: Final = 2
# How long a server may take to let a connection go.
CLOSING: Final = 2.0
# A statement that waits for so long is a reason to ask whether its server is still the right one.
SLOW: Final = 2.0
LOOK: Final = 1.0
# Connections that were not needed for so long are closed; the last one stays.
IDLE: Final = 60.0


class Pool:
    """Connections of one event loop; the one used last is used next, so that few stay warm."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        size: int,
        on_slow: Callable[[], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._connect = connect
        self._on_slow = on_slow
        lent = max(size - KEPT, 1)
        self._size = max(size, lent + 1)
        self.lending = asyncio.Semaphore(lent)
        """Whoever borrows a connection for longer than a statement waits here first."""
        self._open = 0
        self._idle: list[Connection] = []
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._spare = 0
        """The fewest that were idle at once since the last look."""
        self._trim: asyncio.TimerHandle | None = None
        self._closed = False
        self._since: dict[Connection, float] = {}
        self._look: asyncio.TimerHandle | None = None

    async def acquire(self) -> Connection:
        """Return a connection for statements of ours; `on_slow` is called if they take long."""
        connection = await self.borrow()
        self._since[connection] = self.loop.time()
        if self._look is None:
            self._look = self.loop.call_later(LOOK, self._look_for_slow)
        return connection

    def _look_for_slow(self) -> None:
        # One timer for all of them, and none while nothing is under way.
        self._look = None
        if self._since:
            self._look = self.loop.call_later(LOOK, self._look_for_slow)
            if self.waited(*self._since) >= SLOW:
                self._on_slow()

    def waited(self, *connections: Connection) -> float:
        """Return for how many seconds the longest of these has been in use."""
        began = (self._since.get(each) for each in connections)
        return self.loop.time() - min((at for at in began if at is not None), default=inf)

    async def borrow(self) -> Connection:
        """Return a connection that nobody else uses, for as long as the caller likes."""
        while True:
            while self._idle:
                connection = self._idle.pop()
                self._spare = min(self._spare, len(self._idle))
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < self._size:
                self._open += 1
                try:
                    return await self._connect()
                except BaseException:
                    self._open -= 1
                    self._wake()
                    raise
            waiter = self.loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # A wake-up that came with the cancellation belongs to somebody else.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise

    def release(self, connection: Connection) -> None:
        """Take a connection back; a broken one is dropped."""
        self._since.pop(connection, None)
        if connection.is_closed() or self._closed:
            connection.terminate()
            self._open -= 1
        else:
            self._idle.append(connection)
            if self._trim is None:
                self._spare = 0
                self._trim = self.loop.call_later(IDLE, self._close_spare)
        self._wake()

    def _close_spare(self) -> None:
        """Close what was not needed since the last look; the one returned last is used next."""
        # The last one stays open, or a lone statement would wait for a new connection.
        count = max(min(self._spare, self._open - 1), 0)
        spare, self._idle = self._idle[:count], self._idle[count:]
        self._open -= len(spare)
        for connection in spare:
            connection.terminate()
        self._spare = len(self._idle)
        self._trim = None
        if self._open > 1:
            self._trim = self.loop.call_later(IDLE, self._close_spare)

    def drop_idle(self) -> None:
        """Let go of what nobody uses: each would only fail in the same way."""
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        for connection in idle:
            connection.terminate()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def close(self) -> None:
        """Close what is idle now, and the rest when it comes back."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        if self._trim is not None:
            self._trim.cancel()
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        # All at once: each may belong to a server that does not answer.
        await asyncio.gather(*map(_close, idle))


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSING)
    except DRIVER_ERRORS:
        connection.terminate()
