"""A connection of their own for leaders: when their process dies, the server notices at once.

Each role has an advisory lock, which the server frees with the session that holds it. It tells
others sooner than a lease could that a leader may be gone: its lease is shortened. A session can
end while its process lives, so the leader is told as well. Who leads is said by the row alone.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from detent.lazy import PerLoop
from detent.spi.leadership import SETTLING, Bid, Candidate
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate

NO_TERM: Final = 0
CLOSING: Final = 2.0

# Not among the files: they touch no table, and no other database has anything like it.
UNLOCK: Final = "SELECT pg_advisory_unlock(key) FROM unnest($1::bigint[]) AS key"
# Only sessions of our own kind: somebody else may use a lock of the same number.
END_ZOMBIES: Final = """
SELECT pg_terminate_backend(held.pid)
FROM unnest($1::bigint[]) AS wanted (key), pg_locks AS held, pg_stat_activity AS session
WHERE held.locktype = 'advisory'
    AND held.granted
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND held.classid = ((wanted.key >> 32) & 4294967295)::oid
    AND held.objid = (wanted.key & 4294967295)::oid
    AND held.objsubid = 1
    AND held.pid <> pg_backend_pid()
    AND session.pid = held.pid
    AND session.application_name IN ('detent', current_setting('application_name'))
"""


def key_of(schema: str, role: str) -> int:
    """Return the number of a role's advisory lock."""
    digest = hashlib.blake2b(f"detent leader {schema} {role}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def election(
    candidate: Candidate,
    bids: Sequence[Bid],
    lease: timedelta,
    keys: Sequence[int],
    *,
    tried: Sequence[bool],
    held: Sequence[bool],
) -> tuple[Any, ...]:
    """Return the arguments of the statement that elects."""
    return (
        candidate.id,
        candidate.name,
        lease.total_seconds(),
        [bid.role for bid in bids],
        [bid.term or NO_TERM for bid in bids],
        keys,
        tried,
        held,
        SETTLING.total_seconds(),
    )


class LeaderSession:
    """The session of one event loop, and the locks in it."""

    def __init__(self, database: Database) -> None:
        self.loop = asyncio.get_running_loop()
        self._database = database
        self._connection: Connection | None = None
        # A session can take a lock twice, so it must know for whom it has it.
        self._locks: dict[str, Candidate] = {}
        self._turn = asyncio.Lock()

    async def elect(
        self, candidate: Candidate, bids: Sequence[Bid], lease: timedelta
    ) -> list[asyncpg.Record]:
        """Elect, with the locks of this session."""
        async with self._turn:
            try:
                connection = await self._connected()
                rows = await connection.fetch(
                    self._database.sql("elect_leaders"),
                    *election(
                        candidate,
                        bids,
                        lease,
                        [self._key(bid.role) for bid in bids],
                        tried=[bid.role not in self._locks for bid in bids],
                        held=[self._holds(candidate.id, bid.role) for bid in bids],
                    ),
                )
                await self._settle(connection, candidate, rows)
            except BaseException as error:
                # Which locks it holds is unknown now; with the connection all of them are free.
                self._drop()
                if isinstance(error, DRIVER_ERRORS):
                    raise translate(error) from error
                raise
            return list(rows)

    async def _settle(self, connection: Connection, candidate: Candidate, rows: list[Any]) -> None:
        """Keep the locks of the roles that are led; let go of those that were got for nothing."""
        useless = []
        for row in rows:
            role = row["role"]
            if row["locked"] and row["is_mine"]:
                self._locks[role] = candidate
            elif row["locked"]:
                self._locks.pop(role, None)
                useless.append(self._key(role))
        if useless:
            await connection.fetch(UNLOCK, useless)
        zombies = [self._key(row["role"]) for row in rows if row["over_zombie"]]
        if zombies:
            try:
                await connection.fetch(END_ZOMBIES, zombies)
            except asyncpg.InsufficientPrivilegeError:
                return  # it leads nothing any more, whatever lock it holds

    async def let_go(self, candidate: UUID, roles: Sequence[str]) -> None:
        """Free the locks of roles that were given up; close a connection that serves nothing."""
        async with self._turn:
            mine = [role for role in roles if self._holds(candidate, role)]
            try:
                if mine and self._connection is not None:
                    keys = [self._key(role) for role in mine]
                    await self._connection.fetch(UNLOCK, keys)
            except DRIVER_ERRORS:
                self._drop()
            for role in mine:
                self._locks.pop(role, None)
            if not self._locks:
                await self._close()

    async def close(self) -> None:
        """Close the connection; the server frees its locks."""
        async with self._turn:
            await self._close()

    def _key(self, role: str) -> int:
        return key_of(self._database.address.schema, role)

    def _holds(self, candidate: UUID, role: str) -> bool:
        holder = self._locks.get(role)
        return holder is not None and holder.id == candidate

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._drop()
            self._connection = await self._database.connect()
            self._connection.add_termination_listener(self._ended)
        return self._connection

    def _ended(self, connection: Connection) -> None:
        """The server, or the way there, has ended a session."""
        if connection is self._connection:
            self._drop()

    def _drop(self) -> None:
        connection = self._forget()
        if connection is not None:
            connection.terminate()

    def _forget(self) -> Connection | None:
        """Let the connection be used no more; tell those for whom it held locks."""
        connection, self._connection = self._connection, None
        holders = {holder.id: holder for holder in self._locks.values()}
        self._locks.clear()
        for holder in holders.values():
            holder.on_doubt()
        return connection

    async def _close(self) -> None:
        connection = self._forget()
        if connection is not None:
            try:
                await connection.close(timeout=CLOSING)
            except DRIVER_ERRORS:
                connection.terminate()


class LeaderSessions:
    """The sessions of a store: one for each process and event loop that has candidates."""

    def __init__(self, database: Database) -> None:
        self._sessions = PerLoop(lambda: LeaderSession(database))

    def here(self) -> LeaderSession:
        """Return the one of this process and event loop."""
        return self._sessions.here()

    async def close(self) -> None:
        """Close the one of this process and event loop."""
        session = self._sessions.take()
        if session is not None:
            await session.close()
