"""The connections of the writing thread: its own, and one for tasks, who may leave traces."""

import sqlite3
from contextlib import suppress
from typing import Final

from detent.errors import StoreError
from detent.stores.sqlite.connection import open_writer
from detent.stores.sqlite.keeper import Keeper
from detent.stores.sqlite.statements import sql
from detent.stores.sqlite.wakes import News, encode

# Listeners that are further behind look for themselves.
KEEP: Final = 256


class Desk(Keeper):
    """Opens connections when they are needed, on the thread that needs them."""

    def __init__(self, path: str, patience: float, origin: bytes) -> None:
        super().__init__(path)
        self._patience = patience
        self._origin = origin
        self._is_synced = True

    def own(self) -> sqlite3.Connection:
        """Return the connection of the store itself."""
        return self.connection("own", self._open_own)

    def guest(self) -> sqlite3.Connection:
        """Return the connection that is lent to tasks."""
        return self.connection("guest", self._open_guest)

    def synced(self) -> sqlite3.Connection:
        """Return the store's connection, whose commits wait for the disk."""
        connection = self.own()
        if not self._is_synced:
            connection.execute("PRAGMA synchronous = FULL")
            self._is_synced = True
        return connection

    def unsynced(self) -> sqlite3.Connection:
        """Return the store's connection, whose commits do not wait: nobody needs them that much."""
        connection = self.own()
        if self._is_synced:
            self._is_synced = False
            connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def announce(self, news: News) -> None:
        """Write wake-ups in the transaction that has begun for them, and end it."""
        connection = self.own()
        self.add_news(news)
        if connection.in_transaction:
            connection.execute("COMMIT")

    def add_news(self, news: News) -> None:
        """Write wake-ups, if there are any, in the transaction that has begun; never fails it."""
        connection = self.own()
        if not news or not connection.in_transaction:
            return
        with suppress(sqlite3.Error, StoreError):
            connection.execute(sql("notify", "wake"), (self._origin, encode(news.take())))
            connection.execute(sql("notify", "prune"), (KEEP,))

    def _open_own(self) -> sqlite3.Connection:
        self._is_synced = True
        return open_writer(self.path, self._patience)

    def _open_guest(self) -> sqlite3.Connection:
        connection = open_writer(self.path, self._patience)
        connection.row_factory = sqlite3.Row
        # What a task's tables declare holds for it; it could not ask for it inside a transaction.
        connection.execute("PRAGMA foreign_keys = ON")
        return connection
