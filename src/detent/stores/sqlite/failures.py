"""Turns the driver's errors into ours: what is wrong, with which file, and what to do."""

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from detent.errors import ConstraintViolated, SchemaMismatch, StoreError, StoreUnavailable

# A value that SQLite cannot hold is refused before it gets there, in Python's own words.
# SQLITE_NOMEM comes as Python's own error as well.
DRIVER_ERRORS: Final = (sqlite3.Error, UnicodeEncodeError, OverflowError, MemoryError)

_CONSTRAINTS: Final = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: "unique",
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: "primary key",
    sqlite3.SQLITE_CONSTRAINT_ROWID: "primary key",
    sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: "foreign key",
    sqlite3.SQLITE_CONSTRAINT_CHECK: "check",
    sqlite3.SQLITE_CONSTRAINT_NOTNULL: "not null",
}
# Told from other errors by their text only: SQLite has one code for all that a parser can say.
_SCHEMA: Final = ("no such table: ", "no such column: ", "has no column named ")


def code_of(error: BaseException) -> int:
    """Return the primary result code of a driver's error; 0 when it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether somebody else holds a lock that may soon be free."""
    return code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def busy() -> sqlite3.OperationalError:
    """Return the driver's error for a lock that was not free in time."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def translate(error: BaseException, path: str) -> StoreError:
    """Return our error for one of `DRIVER_ERRORS`; the caller raises it from that one."""
    code = code_of(error)
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return StoreUnavailable(f"{path}: SQLite has no memory left for it; retry later")
    if code in _WORDS:
        kind, what = _WORDS[code]
        return kind(what.format(path=path, text=text, folder=Path(path).parent))
    if code == sqlite3.SQLITE_CONSTRAINT:
        extended = getattr(error, "sqlite_errorcode", 0)
        name = text.rpartition(": ")[2]
        return ConstraintViolated(_CONSTRAINTS.get(extended, "database"), name, text)
    if any(words in text for words in _SCHEMA):
        return SchemaMismatch(
            f"{path} has no Detent schema of this version ({text}); "
            f"run: detent migrate --url sqlite:///{quote(path)}"
        )
    return StoreError(f"{path}: SQLite refused: {text}")


_WORDS: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_BUSY: (
        StoreUnavailable,
        "{path} is locked: somebody keeps a write transaction open; end it or join it with within=",
    ),
    sqlite3.SQLITE_LOCKED: (StoreUnavailable, "{path} is locked by this program itself: {text}"),
    sqlite3.SQLITE_READONLY: (
        StoreUnavailable,
        "{path} is read-only ({text}); this user must be able to write to the file and to {folder}",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StoreUnavailable,
        "{path} cannot be opened ({text}); this user must be able to write to {folder}",
    ),
    sqlite3.SQLITE_PERM: (
        StoreUnavailable,
        "{path} may not be used by this user ({text}); check its permissions",
    ),
    sqlite3.SQLITE_FULL: (
        StoreUnavailable,
        "{path} cannot grow ({text}); free some space on the disk of {folder}",
    ),
    sqlite3.SQLITE_IOERR: (
        StoreUnavailable,
        "{path} cannot be read or written ({text}); check the disk of {folder}",
    ),
    sqlite3.SQLITE_NOTADB: (
        StoreError,
        "{path} is not a SQLite database ({text}); give another file, or move this one away",
    ),
    sqlite3.SQLITE_CORRUPT: (
        StoreError,
        "{path} is damaged ({text}); restore a copy, or save what is left: sqlite3 {path} .recover",
    ),
}
