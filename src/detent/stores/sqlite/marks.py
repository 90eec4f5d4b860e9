"""Remembers how far the numbers of a file had come, so that an older copy of it is noticed.

The file itself cannot tell that it was restored from a backup. So two marks are kept. One stands
beside the file, in `<file>-seen`: the last numbers that were given, as of the last heartbeat, close
or open. A file whose numbers are lower has lost what was given since. The other stands in the file:
which file it is on its disk (its inode). A copy is another one, and may have been made at any time.

What neither notices: a disk, or a whole machine, that was set back.
"""

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from detent.errors import StoreError
from detent.model.numbers import raised
from detent.stores.sqlite.connection import open_writer, patiently
from detent.stores.sqlite.failures import DRIVER_ERRORS, translate
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

COUNTED: Final = ("claim", "lock")
INODE: Final = "inode"
_LARGEST: Final = (1 << 63) - 1


def check_marks(path: str, patience: float) -> None:
    """Raise the numbers of a file that is older than its marks, or another than it was."""
    try:
        connection = open_writer(path, patience)
        try:
            if _is_other(connection, path):
                patiently(lambda: connection.execute("BEGIN IMMEDIATE"), patience)
                _begin_anew(connection, path)
                connection.execute("COMMIT")
            keep_mark(path, _given(connection))
        finally:
            connection.close()
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error


def note_numbers(session: Session, path: str) -> None:
    """Write down beside the file how far its numbers have come."""
    keep_mark(path, _given(session.connection))


def keep_mark(path: str, given: Mapping[str, int]) -> None:
    """Write the mark beside the file; where that is not allowed there is none."""
    mark, fresh = Path(f"{path}-seen"), Path(f"{path}-seen.{os.getpid()}")
    with suppress(OSError):
        fresh.write_text(json.dumps({name: given[name] for name in COUNTED}), encoding="ascii")
        fresh.replace(mark)


def _is_other(connection: sqlite3.Connection, path: str) -> bool:
    given, seen = _given(connection), _seen(path)
    return given.get(INODE) != _inode(path) or any(given[name] < seen[name] for name in COUNTED)


def _begin_anew(connection: sqlite3.Connection, path: str) -> None:
    given, seen = _given(connection), _seen(path)
    is_older = any(given[name] < seen[name] for name in COUNTED)
    is_copy = INODE in given and given[INODE] != _inode(path)
    if is_older or is_copy:
        highest = max(*(given[name] for name in COUNTED), *seen.values())
        for name in COUNTED:
            change = sql("raise_numbers", "raised"), (name, raised(given[name], highest))
            connection.execute(*change)
    connection.execute(sql("raise_numbers", "kept"), (INODE, _inode(path)))


def _given(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the last numbers of a file, and its inode if that is known."""
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        return dict(cursor.execute(sql("raise_numbers", "all")).fetchall())
    finally:
        cursor.close()


def _seen(path: str) -> dict[str, int]:
    """Return the mark beside the file; zeros if there is none that can be read."""
    try:
        found = json.loads(Path(f"{path}-seen").read_text(encoding="ascii"))
        return {name: int(found[name]) for name in COUNTED}
    except (OSError, ValueError, KeyError, TypeError):
        return dict.fromkeys(COUNTED, 0)


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino & _LARGEST
    except OSError as error:
        raise StoreError(f"{path} was removed while it was opened: {error}") from error
