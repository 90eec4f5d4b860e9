"""What `ctx.transaction()` gives to a task: a connection of sqlite3 that can be awaited."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from detent.errors import StoreError, WrongConnection
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.visit import Visit

T = TypeVar("T")
Parameters = Sequence[Any] | Mapping[str, Any]

_ENDS: Final = re.compile(r"\s*(BEGIN|COMMIT|END|ROLLBACK(?!\s+(TRANSACTION\s+)?TO))\b", re.I)


class SqliteCursor:
    """What a statement came to; its rows are here already."""

    def __init__(self, rows: list[sqlite3.Row], rowcount: int, lastrowid: int | None) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount
        """How many rows the statement wrote; -1 if it only reads."""
        self.lastrowid = lastrowid

    def fetchone(self) -> sqlite3.Row | None:
        """Return the next row, by position and by name; None when there are no more."""
        return next(self._rows, None)

    def fetchall(self) -> list[sqlite3.Row]:
        """Return the rows that are left."""
        return list(self._rows)

    def __iter__(self) -> Iterator[sqlite3.Row]:
        return self._rows


class SqliteConnection:
    """The transaction of a task: `await connection.execute("INSERT ...", (...))`.

    Statements run on the store's writing thread, in order; the driver's errors are raised as they
    are. Nobody else writes to the file before the block ends, which must be soon. Beginning and
    ending the transaction is up to the block; savepoints may be used.
    """

    def __init__(self, visit: Visit, database: Database) -> None:
        self._visit = visit
        self._database = database

    async def execute(self, sql: str, parameters: Parameters = ()) -> SqliteCursor:
        """Run a statement and return its rows."""
        _refuse_ends(sql)

        def work(session: Session) -> SqliteCursor:
            cursor = session.connection.execute(sql, parameters)
            return SqliteCursor(cursor.fetchall(), cursor.rowcount, cursor.lastrowid)

        result: SqliteCursor = await self._visit.ask(work)
        return result

    async def executemany(self, sql: str, rows: Iterable[Parameters]) -> SqliteCursor:
        """Run a statement that writes once for each of some parameters."""
        _refuse_ends(sql)
        given = list(rows)

        def work(session: Session) -> SqliteCursor:
            cursor = session.connection.executemany(sql, given)
            return SqliteCursor([], cursor.rowcount, cursor.lastrowid)

        result: SqliteCursor = await self._visit.ask(work)
        return result

    async def have_done(self, database: Database, work: Callable[[Session], T]) -> T:
        """Let the store do something in this transaction, which must be on its own file."""
        if self._database is not database:
            raise WrongConnection("within= was given a transaction on another store")
        return await database.ask(self._visit, work)


def _refuse_ends(sql: str) -> None:
    if found := _ENDS.match(sql):
        raise StoreError(
            f"{found[1].upper()}: the transaction of ctx.transaction() begins and ends with its "
            "block; raise an exception to undo it"
        )
