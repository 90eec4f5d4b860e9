"""Wake-ups by LISTEN and NOTIFY.

Notifications are sent after the commit they tell of, from another connection: inside the
inserting transaction they take a lock that cuts concurrent enqueues to a third (measured). They
are coalesced per lane and sent at most every few milliseconds. Losing one costs time, never
correctness.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from detent.errors import StoreError
from detent.spi.notifier import Hint, SignalHint, Wake
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS

# A stream of wake-ups is thinned out: nodes that get work ask again by themselves.
PAUSE: Final = 0.005
LONG_PAUSE: Final = 0.020
STREAM: Final = 8
PING: Final = 10.0
RECONNECT: Final = (0.2, 10.0)
# A payload must stay below 8000 bytes; one of the longest hints takes about 350.
HINTS_PER_PAYLOAD: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def channel_of(schema: str) -> str:
    """Return the channel on which schedulers of one schema talk."""
    return f"{schema}_wake"


def encode(wakes: Sequence[Wake]) -> str:
    """Return wake-ups as a payload."""
    return json.dumps([_fields(wake) for wake in wakes], separators=(",", ":"))


def _fields(wake: Wake) -> list[Any]:
    if isinstance(wake, SignalHint):
        return [wake.node.hex]
    if wake.due_at is None or wake.id is None:
        return [wake.lane, wake.priority]
    micros = (wake.due_at - _EPOCH) // timedelta(microseconds=1)
    return [wake.lane, wake.priority, micros, wake.id.hex]


def decode(payload: str) -> list[Wake]:
    """Return the wake-ups in a payload; what this version cannot read is left out."""
    wakes: list[Wake] = []
    try:
        for fields in json.loads(payload):
            match fields:
                case [str(node)]:
                    wakes.append(SignalHint(UUID(node)))
                case [str(lane), int() | None as priority]:
                    wakes.append(Hint(lane, priority))
                case [str(lane), int(priority), int(micros), str(job)]:
                    due_at = _EPOCH + timedelta(microseconds=micros)
                    wakes.append(Hint(lane, priority, due_at, UUID(job)))
    except (ValueError, TypeError):
        return wakes
    return wakes


class PostgresNotifier:
    """The `Notifier` of the PostgreSQL store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = channel_of(database.address.schema)
        self._outboxes: dict[int, _Outbox] = {}

    def publish(self, wakes: Sequence[Wake]) -> None:
        """See `Notifier.publish`."""
        if wakes:
            self._outbox().add(wakes)

    async def flush(self) -> None:
        """See `Notifier.flush`."""
        await self._outbox().flushed()

    def _outbox(self) -> "_Outbox":
        loop = asyncio.get_running_loop()
        outbox = self._outboxes.get(id(loop))
        if outbox is None or outbox.loop is not loop:
            outbox = self._outboxes[id(loop)] = _Outbox(loop, self._send)
        return outbox

    async def _send(self, wakes: Sequence[Wake]) -> None:
        for start in range(0, len(wakes), HINTS_PER_PAYLOAD):
            payload = encode(wakes[start : start + HINTS_PER_PAYLOAD])
            try:
                await self._database.fetch("notify", self._channel, payload)
            except StoreError:
                return

    async def listen(self, receive: Callable[[Sequence[Wake]], None]) -> None:
        """See `Notifier.listen`."""
        pause = RECONNECT[0]
        while True:
            try:
                connection = await self._database.connect()
            except DRIVER_ERRORS:
                await asyncio.sleep(pause)
                pause = min(pause * 2, RECONNECT[1])
                continue
            try:
                await connection.add_listener(
                    self._channel, lambda _c, _p, _ch, payload: receive(decode(str(payload)))
                )
                pause = RECONNECT[0]
                # Only after LISTEN: what was sent before it has to be looked for.
                receive(())
                await self._watch(connection)
            except DRIVER_ERRORS:
                await asyncio.sleep(pause)
            finally:
                connection.terminate()

    async def _watch(self, connection: Connection) -> None:
        """Return when the connection has died; a half-open one is found by a ping."""
        died = asyncio.Event()
        connection.add_termination_listener(lambda _connection: died.set())
        while not connection.is_closed():
            try:
                await asyncio.wait_for(died.wait(), PING)
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=PING)


class _Outbox:
    """What one event loop still has to send; the newest news of a lane replace the older."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, send: Callable[[Sequence[Wake]], Any]
    ) -> None:
        self.loop = loop
        self._send = send
        self._waiting: dict[object, Wake] = {}
        self._task: asyncio.Task[None] | None = None
        self._added = 0

    def add(self, wakes: Sequence[Wake]) -> None:
        self._added += 1
        for wake in wakes:
            if isinstance(wake, SignalHint) or wake.due_at is None:
                self._waiting[wake] = wake
                continue
            # A position is news of its own: it lowers a floor, and the lowest one counts.
            key = (wake.lane, wake.priority)
            held = self._waiting.get(key)
            if held is None or wake < held:
                self._waiting[key] = wake
        if self._task is None:
            self._task = self.loop.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            wakes, self._waiting, self._added = list(self._waiting.values()), {}, 0
            await self._send(wakes)
            await asyncio.sleep(PAUSE)
            if self._added > STREAM:
                await asyncio.sleep(LONG_PAUSE - PAUSE)
        self._task = None

    async def flushed(self) -> None:
        while self._task is not None:
            await asyncio.shield(self._task)


async def notify_within(connection: Connection, database: Database, ids: Sequence[UUID]) -> None:
    """Announce new jobs when the caller's transaction commits, with their positions.

    By then their due times may lie far below the floor of a busy node.
    """
    channel = channel_of(database.address.schema)
    await connection.fetch(database.sql("notify_within"), channel, list(ids))
