"""The store for SQLite, on the driver of the standard library."""

from detent.stores.sqlite.store import SqliteStore
from detent.stores.sqlite.transaction import SqliteConnection, SqliteCursor

__all__ = ["SqliteConnection", "SqliteCursor", "SqliteStore"]
