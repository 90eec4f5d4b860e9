"""Finds out that the database is a copy, and lets its numbers begin above those of the original.

After a promotion, or a recovery of a base backup, the timeline says so (`detent_epoch`). A dump has
no timeline: what it restores has the numbers of the moment when the dump was made.
"""

from typing import Final

import asyncpg

from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.stores.postgres.statements import qualify

# Not among the files: there is one row, so there is no plan to look after. Without any row the
# tables were emptied, and all is as if they were new.
IS_COPY: Final = """
SELECT NOT pg_is_in_recovery()
    AND NOT current_setting('transaction_read_only')::boolean
    AND EXISTS (
        SELECT 1 FROM detent.detent_history WHERE written_by & 4294967295 <> xmin::text::bigint
    )
"""
# One at a time, for the length of the transaction.
TURN: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
HIGHEST: Final = """
SELECT detent.detent_epoch() + greatest(fence.last_value, lock.last_value)
FROM detent.detent_fence AS fence, detent.detent_lock_fence AS lock
"""
FORGET: Final = "DELETE FROM detent.detent_history"
REMEMBER: Final = "INSERT INTO detent.detent_history (written_by) VALUES (txid_current())"


class Remembering:
    """The part of the store that `NumberStore` describes."""

    database: Database

    async def raise_numbers(self, above: int) -> None:
        """See `NumberStore.raise_numbers`."""

        async def work(connection: Connection) -> None:
            await self._take_turn(connection)
            await connection.execute(self.database.sql("raise_numbers"), above)

        await self.database.transact(work)

    async def check_history(self) -> None:
        """Raise the numbers if this database was restored from a dump since the last look."""
        try:
            async with self.database.connection() as connection:
                is_copy = await connection.fetchval(self._sql(IS_COPY))
        except asyncpg.InsufficientPrivilegeError:
            return  # who may not look gets no numbers either
        except DRIVER_ERRORS as error:
            raise translate(error) from error
        if is_copy:
            await self.database.transact(self._begin_anew)

    async def _begin_anew(self, connection: Connection) -> None:
        await self._take_turn(connection)
        if await connection.fetchval(self._sql(IS_COPY)):
            highest = await connection.fetchval(self._sql(HIGHEST))
            await connection.execute(self.database.sql("raise_numbers"), highest)
            await connection.execute(self._sql(FORGET))
            await connection.execute(self._sql(REMEMBER))

    async def _take_turn(self, connection: Connection) -> None:
        await connection.execute(TURN, f"detent history {self.database.address.schema}")

    def _sql(self, text: str) -> str:
        return qualify(text, self.database.address.schema)
