"""A connection inside a transaction: what every part of the store works with."""

import sqlite3
from typing import Any

from detent.stores.sqlite.columns import read


class Session:
    """Runs statements on a connection, at one moment of the store's clock.

    The connection may be the caller's own, so nothing here rests on its row factory, its text
    factory or its converters: what comes back from it is numbers and blobs that are expressions.
    """

    __slots__ = ("connection", "now")

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self.connection = connection
        self.now = now
        """Microseconds since 1970."""

    def change(self, text: str, *args: Any) -> int:
        """Run a statement that writes; return how many rows it wrote."""
        cursor = self.connection.execute(text, args)
        try:
            return cursor.rowcount
        finally:
            cursor.close()

    def value(self, text: str, *args: Any) -> Any:
        """Return the only value of the only row."""
        cursor = self.connection.cursor()
        try:
            cursor.row_factory = None
            return cursor.execute(text, args).fetchone()[0]
        finally:
            cursor.close()

    def table(self, text: str, *args: Any) -> list[Any]:
        """Return rows that the statement itself has put into one JSON array."""
        return read(self.value(text, *args))

    def rows(self, text: str, *args: Any) -> list[Any]:
        """Return all rows; for connections that only read, where nobody waits for the end."""
        return self.connection.execute(text, args).fetchall()
