"""Wake-ups by LISTEN and NOTIFY.

Notifications are sent after the commit they tell of, from another connection: inside the
inserting transaction they take a lock that cuts concurrent enqueues to a third (measured). They
are coalesced per lane and sent at most every few milliseconds. Losing one costs time, never
correctness.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from detent.errors import StoreError
from detent.notifiers.endurance import PING, PONG, listen_for_ever
from detent.notifiers.outbox import Outboxes
from detent.notifiers.wire import pass_on, payloads
from detent.spi.notifier import Receive, Wake
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS

# A payload must stay below 8000 bytes; one of the longest hints takes about 350.
HINTS_PER_PAYLOAD: Final = 20
LONGEST: Final = 7999
# A server that takes longer to let a listener in is asked anew.
CONNECT: Final = 10.0

# Nothing is notified on a server that was the primary once, however well it answers.
_IS_STANDBY: Final = """
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
"""


class CannotListenError(Exception):
    """This server, or what stands before it, will never notify us."""


def channel_of(schema: str) -> str:
    """Return the channel on which schedulers of one schema talk."""
    return f"{schema}_wake"


class PostgresNotifier:
    """The `Notifier` of the PostgreSQL store.

    `direct` is a way to the same database past a pooler, through which nobody can listen.
    """

    def __init__(self, database: Database, direct: Database | None = None) -> None:
        self._database = database
        self._way = direct or database
        self._channel = channel_of(database.address.schema)
        self._outboxes = Outboxes(self._send, self._send_alone)

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

    async def _send(self, wakes: Sequence[Wake]) -> None:
        try:
            for payload in payloads(wakes, HINTS_PER_PAYLOAD, LONGEST):
                await self._database.fetch("notify", self._channel, payload)
        except StoreError:
            return

    async def _send_alone(self, wakes: Sequence[Wake]) -> None:
        """Do the same on a loop that has no pool, and will have none."""
        try:
            connection = await self._database.connect()
            try:
                for payload in payloads(wakes, HINTS_PER_PAYLOAD, LONGEST):
                    await connection.fetch(self._database.sql("notify"), self._channel, payload)
            finally:
                connection.terminate()
        except DRIVER_ERRORS:
            return

    async def listen(self, receive: Receive) -> None:
        """See `Notifier.listen`."""

        async def session(connected: Callable[[], None]) -> None:
            connection = await self._connect()
            try:
                async with asyncio.timeout(CONNECT):
                    await connection.add_listener(
                        self._channel, lambda _c, _p, _ch, payload: pass_on(payload, receive)
                    )
                await _check(connection)
                # Only after LISTEN: what was sent before it has to be looked for.
                connected()
                await _watch(connection)
            finally:
                connection.terminate()

        await listen_for_ever(session, receive, (*DRIVER_ERRORS, CannotListenError))

    async def _connect(self) -> Connection:
        async with asyncio.timeout(CONNECT):
            if await self._way.behind_pooler():
                raise CannotListenError(
                    "a pooler stands before the database, and LISTEN does not pass it; "
                    "name a way round it: [wakeup] url"
                )
            return await self._way.connect()


async def _watch(connection: Connection) -> None:
    """Return when the connection has died; a half-open one is found by asking it something."""
    died = asyncio.Event()
    connection.add_termination_listener(lambda _connection: died.set())
    while not connection.is_closed():
        try:
            async with asyncio.timeout(PING):
                await died.wait()
        except TimeoutError:
            await _check(connection)


async def _check(connection: Connection) -> None:
    """Raise unless the server answers, and is one that others write to."""
    if await connection.fetchval(_IS_STANDBY, timeout=PONG):
        raise CannotListenError("the server has become a standby")
