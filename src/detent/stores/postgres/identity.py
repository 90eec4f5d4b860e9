"""Tells whether a caller's connection leads to the database of this store.

Without it `within=` could store jobs where no node ever looks. Names and addresses do not tell:
the same server is reached by socket, TCP and poolers, and a copy of a database has all its
contents. So both sides ask the server when it was started, to the microsecond, and for the name of
the database. A connection that was accepted is remembered as long as it lives.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from detent.errors import StoreUnavailable, WrongConnection
from detent.lazy import FirstUse, PerLoop
from detent.stores.postgres.database import Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.stores.postgres.foreign import Caller

# Not among the files: it touches no table, so there is no plan to look after. All of it is text, so
# that no session's settings for times and no caller's type codecs matter.
IDENTIFY: Final = """
SELECT to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS') AS started,
    current_database()::text AS name,
    coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket') AS address
"""


class Identity(NamedTuple):
    """One database of one running server."""

    started: str
    name: str
    address: str

    def is_same(self, other: "Identity | None") -> bool:
        """Whether both are one database, whatever the way there."""
        return other is not None and (self.started, self.name) == (other.started, other.name)

    def __str__(self) -> str:
        return f"{self.name!r} on {self.address}"


class Home:
    """The database of the store, and the callers' connections that lead there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Identity | None = None
        self._accepted: WeakSet[Any] = WeakSet()
        self._first_use = FirstUse()
        self._turns = PerLoop(asyncio.Lock)

    async def check(self, caller: Caller) -> None:
        """Raise `WrongConnection` unless the connection leads to this database."""
        if caller.key in self._accepted:
            return
        (row,) = await caller.fetch(IDENTIFY, ())
        theirs = Identity(**row)
        if not theirs.is_same(self._known):
            # Not asked yet; or the server was started again since then.
            await self._ask_unless_same(theirs, blocking=caller.blocking)
        if not theirs.is_same(self._known):
            raise WrongConnection(
                f"within= was given a connection to the database {theirs}; "
                f"the jobs of this app live in {self._known}"
            )
        self._accepted.add(caller.key)

    async def _ask_unless_same(self, theirs: Identity, *, blocking: bool) -> None:
        """Ask the store's database, one caller after the other: the first answer serves all."""
        if blocking:
            with self._first_use.lock:
                if not theirs.is_same(self._known):
                    self._known = self._ask_now()
            return
        async with self._turns.here():
            if not theirs.is_same(self._known):
                self._known = await self._ask()

    async def _ask(self) -> Identity:
        # Not from the pool: a blocking caller has no event loop that would keep one.
        try:
            connection = await self._database.connect()
            try:
                return Identity(*await connection.fetchrow(IDENTIFY))
            finally:
                await connection.close()
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def _ask_now(self) -> Identity:
        """Ask from blocking code, on a thread of its own: this one may have a running loop."""
        try:
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(lambda: asyncio.run(self._ask())).result()
        except RuntimeError as error:
            # Threads, and the lookup of host names, end with the main thread.
            raise StoreUnavailable(f"cannot ask the database which one it is: {error}") from error
