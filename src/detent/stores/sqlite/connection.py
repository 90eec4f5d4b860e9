"""Opens connections to the file, each for the thread that will use it."""

import random
import sqlite3
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

from detent.errors import StoreError
from detent.stores.sqlite.failures import is_busy

T = TypeVar("T")

# STRICT tables; RETURNING and UPSERT are older.
OLDEST: Final = (3, 37, 0)
STATEMENTS: Final = 256
# A reader is hardly ever kept waiting: while a log is recovered, or when the last one leaves.
READER_PATIENCE: Final = 5.0

_COMMON: Final = """
PRAGMA temp_store = MEMORY;
"""
# FULL: a commit that was answered survives a loss of power. The log is written back after so many
# pages by whoever commits then, which is short and locks nobody out.
_WRITER: Final = """
PRAGMA synchronous = FULL;
PRAGMA secure_delete = OFF;
PRAGMA cache_size = -16384;
PRAGMA wal_autocheckpoint = 2000;
PRAGMA journal_size_limit = 67108864;
"""
_READER: Final = """
PRAGMA query_only = ON;
PRAGMA cache_size = -8192;
"""


def open_writer(path: str, patience: float) -> sqlite3.Connection:
    """Return a connection that writes. It never waits for a lock: its thread does that."""
    _check_version()
    connection = _connect(path, 0.0)
    try:
        patiently(lambda: _use_log(connection, path), patience)
        script = _COMMON + _WRITER + _temporary_tables()
        patiently(lambda: connection.executescript(script), patience)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: str) -> sqlite3.Connection:
    """Return a connection that only reads."""
    connection = _connect(path, READER_PATIENCE)
    connection.row_factory = sqlite3.Row
    try:
        connection.executescript(_COMMON + _READER)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: str, patience: float) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=patience,
        isolation_level=None,
        cached_statements=STATEMENTS,
        # Used by one thread at a time, and closed by whoever forks: see `Keeper`.
        check_same_thread=False,
    )


def patiently(action: Callable[[], T], patience: float) -> T:
    """Do something again and again while somebody holds a lock, for so many seconds."""
    ends_at = time.monotonic() + patience
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > ends_at:
                raise
        time.sleep(random.uniform(0.001, 0.005))


def _check_version() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise StoreError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and {oldest} or later is needed; "
            "use another Python, or PostgreSQL"
        )


def _use_log(connection: sqlite3.Connection, path: str) -> None:
    """Let readers and the writer stand side by side: a property of the file, set once."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(
            f"{path} is on a file system that cannot share memory between programs (SQLite stays "
            f"in mode {mode!r}); use a local disk"
        )


@cache
def _temporary_tables() -> str:
    return files(__package__).joinpath("temporary.sql").read_text(encoding="utf-8")
