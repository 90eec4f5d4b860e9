"""Brings a file to the schema that this code knows, one numbered step at a time.

Each step is one transaction that locks the file, looks again whether it is still to be done, does
it and records it. So several may migrate at once, and one that was killed half-way is simply run
again. A store does it by itself when it opens a file: there is nobody else who would.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from detent.errors import StoreError
from detent.spi.migrations import Migration, migrations_of, untaken
from detent.stores.sqlite.connection import open_reader, open_writer, patiently
from detent.stores.sqlite.failures import DRIVER_ERRORS, translate

PATIENCE: Final = 30.0

_PREPARE: Final = """
CREATE TABLE IF NOT EXISTS detent_schema_version (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;
"""
_RECORD: Final = (
    "INSERT INTO detent_schema_version (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)"
)


def known_migrations() -> Sequence[Migration]:
    """Return the steps this code brings, in order."""
    return migrations_of(__package__)


def migration_sql() -> str:
    """Return everything `migrate` would run on an empty file, for other tools."""
    parts = [_PREPARE.strip()]
    for step in known_migrations():
        record = (
            f"INSERT INTO detent_schema_version (version, name, checksum, applied_at)\n"
            f"VALUES ({step.version}, '{step.name}', '{step.checksum}',"
            " CAST(strftime('%s', 'now') AS INTEGER) * 1000000);"
        )
        parts.append(f"BEGIN IMMEDIATE;\n{step.text}\n{record}\nCOMMIT;")
    return "\n".join(parts)


def pending(path: str) -> list[str]:
    """Return the labels of the steps that `migrate` would take. Changes nothing."""
    applied: dict[int, str] = {}
    if Path(path).exists():
        try:
            connection = open_reader(path)
            try:
                applied = _applied(connection)
            finally:
                connection.close()
        except DRIVER_ERRORS as error:
            raise translate(error, path) from error
    return [step.label for step in untaken(known_migrations(), applied, path)]


def migrate(path: str, patience: float = PATIENCE) -> list[str]:
    """Take all steps that are still to be taken; return their labels."""
    folder = Path(path).parent
    if not folder.is_dir():
        # SQLite only says that it was unable.
        raise StoreError(f"{path} cannot be made: there is no directory {folder}; make it first")
    try:
        connection = open_writer(path, patience)
        try:
            steps = untaken(known_migrations(), _applied(connection), path)
            return [step.label for step in steps if _take(connection, step, path, patience)]
        finally:
            connection.close()
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error


def _take(connection: sqlite3.Connection, step: Migration, path: str, patience: float) -> bool:
    """Take one step unless somebody has taken it; return whether it was us."""
    if step.version in _applied(connection):
        return False
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"), patience)
    try:
        if step not in untaken(known_migrations(), _applied(connection), path):
            connection.execute("ROLLBACK")
            return False
        for statement in _statements(_PREPARE + step.text):
            connection.execute(statement)
        now = time.time_ns() // 1000
        connection.execute(_RECORD, (step.version, step.name, step.checksum, now))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; the driver's own way to run one commits too early."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _applied(connection: sqlite3.Connection) -> dict[int, str]:
    """Return version to checksum of the steps a file has taken; empty without a schema."""
    known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'detent_schema_version'"
    if connection.execute(known).fetchone() is None:
        return {}
    rows = connection.execute("SELECT version, checksum FROM detent_schema_version")
    return dict(rows.fetchall())


def drop(path: str) -> None:
    """Remove Detent's tables from a file; what else is in it stays."""
    try:
        connection = open_writer(path, PATIENCE)
        try:
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), PATIENCE)
            for kind in ("view", "table"):
                names = connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = ? AND name GLOB 'detent_*'",
                    (kind,),
                ).fetchall()
                for (name,) in names:
                    connection.execute(f'DROP {kind.upper()} "{name}"')
            connection.execute("COMMIT")
        finally:
            connection.close()
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error
