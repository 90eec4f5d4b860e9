"""A notifier on any server that carries messages: Redis and NATS differ in little but a client."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from detent.lazy import PerLoop
from detent.notifiers.endurance import listen_for_ever
from detent.notifiers.outbox import Outboxes
from detent.notifiers.wire import pass_on, payloads
from detent.spi.notifier import Receive, Wake

# How long a server may take to let us in, or to take a message.
PATIENCE: Final = 5.0
# Far below what any of these servers takes in one message.
MOST: Final = 100
LONGEST: Final = 100_000


class Line(Protocol):
    """A connection to the server, on a channel of its own."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; return when the server has them."""

    async def hear(self, receive: Callable[[bytes], None], connected: Callable[[], None]) -> None:
        """Call `receive` with every message from the call of `connected` on, until it breaks."""

    async def close(self) -> None:
        """Hang up, also on a server that does not answer."""


Connect = Callable[[], Awaitable[Line]]


class CarriedNotifier:
    """The `Notifier` on lines of one kind: one to send by for each event loop, one to listen."""

    def __init__(self, connect: Connect, errors: tuple[type[BaseException], ...]) -> None:
        self._connect = connect
        self._errors: tuple[type[BaseException], ...] = (*errors, OSError, TimeoutError)
        self._outboxes = Outboxes(self._send, self._send_alone)
        self._lines: PerLoop[list[Line]] = PerLoop(list)
        """The line of each loop, if it is connected."""

    def publish(self, wakes: Sequence[Wake]) -> None:
        """See `Notifier.publish`."""
        if wakes:
            self._outboxes.add(wakes)

    async def flush(self) -> None:
        """See `Notifier.flush`."""
        await self._outboxes.here().flushed()

    async def close(self) -> None:
        """See `Notifier.close`."""
        await self.flush()
        await self._hang_up()

    async def listen(self, receive: Receive) -> None:
        """See `Notifier.listen`."""

        async def session(connected: Callable[[], None]) -> None:
            line = await self._connected()
            try:
                await line.hear(lambda message: pass_on(message, receive), connected)
            finally:
                await self._close(line)

        await listen_for_ever(session, receive, self._errors)

    async def _send(self, wakes: Sequence[Wake]) -> None:
        """Send by the line of this loop; a hint that cannot be sent is not worth an error."""
        try:
            await self._send_by(await self._line(), wakes)
        except asyncio.CancelledError:
            # It is in the middle of something, and nobody else can use it.
            self._lines.take()
            raise
        except self._errors:
            await self._hang_up()

    async def _send_alone(self, wakes: Sequence[Wake]) -> None:
        """Do the same on a loop that has no line, and will have none."""
        with suppress(*self._errors):
            line = await self._connected()
            try:
                await self._send_by(line, wakes)
            finally:
                await self._close(line)

    async def _send_by(self, line: Line, wakes: Sequence[Wake]) -> None:
        messages = [payload.encode() for payload in payloads(wakes, MOST, LONGEST)]
        async with asyncio.timeout(PATIENCE):
            await line.send(messages)

    async def _line(self) -> Line:
        held = self._lines.here()
        if not held:
            held.append(await self._connected())
        return held[0]

    async def _connected(self) -> Line:
        async with asyncio.timeout(PATIENCE):
            return await self._connect()

    async def _hang_up(self) -> None:
        for line in self._lines.take() or ():
            await self._close(line)

    async def _close(self, line: Line) -> None:
        with suppress(*self._errors):
            async with asyncio.timeout(PATIENCE):
                await line.close()
