"""Brings a database to the schema that this code knows, one numbered step at a time.

Each step is one transaction that takes an advisory lock, looks again whether it is still to be
done, does it and records it. So several may migrate at once, and one that was killed half-way is
simply run again.
"""

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from detent.config import redact
from detent.errors import SchemaMismatch
from detent.spi.migrations import Migration, migrations_of, untaken
from detent.stores.postgres.database import Address, Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.stores.postgres.hosts import Hosts
from detent.stores.postgres.statements import check_schema_name, qualify

CONNECT: Final = 30.0
_UNDEFINED: Final = ("42P01", "3F000")

# Even IF NOT EXISTS needs the right to create one, which not everybody has who may fill it.
_IS_MISSING: Final = "SELECT NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"
_SCHEMA: Final = 'CREATE SCHEMA IF NOT EXISTS "{schema}";'
_RECORDS: Final = """
CREATE TABLE IF NOT EXISTS detent.detent_schema_version (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""


def known_migrations() -> Sequence[Migration]:
    """Return the steps this code brings, in order."""
    return migrations_of(__package__)


def migration_sql(schema: str = "detent") -> str:
    """Return everything `migrate` would run on an empty database, for other tools."""
    parts = [_schema_sql(schema), qualify(_RECORDS, schema)]
    for step in known_migrations():
        record = (
            f"INSERT INTO detent.detent_schema_version (version, name, checksum)\n"
            f"VALUES ({step.version}, '{step.name}', '{step.checksum}');"
        )
        parts.append(f"BEGIN;\n{qualify(step.text, schema)}\n{qualify(record, schema)}\nCOMMIT;")
    return "\n".join(parts)


async def pending(url: str, schema: str = "detent") -> list[str]:
    """Return the labels of the steps that `migrate` would take. Changes nothing."""
    async with _connected(url) as connection:
        return [step.label for step in await _untaken(connection, schema)]


async def migrate(url: str, schema: str = "detent") -> list[str]:
    """Take all steps that are still to be taken; return their labels."""
    async with _connected(url) as connection:
        steps = await _untaken(connection, schema)
        return [step.label for step in steps if await _take(connection, schema, step)]


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    """Lend a connection on which a step may take as long as it needs, with our errors."""
    try:
        connection = await Hosts(url).connect(CONNECT, statement_cache_size=0)
        try:
            yield connection
        finally:
            await connection.close()
    except DRIVER_ERRORS as error:
        raise translate(error) from error


async def _untaken(connection: Connection, schema: str) -> list[Migration]:
    """Return the steps that this code knows and the database has not taken."""
    return untaken(known_migrations(), await _applied(connection, schema), "the database")


async def _take(connection: Connection, schema: str, step: Migration) -> bool:
    """Take one step unless somebody has taken it; return whether it was us."""
    async with connection.transaction():
        # For the length of the transaction, so that it works behind a pooler too.
        await connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"detent migrate {schema}"
        )
        if step.version in await _applied(connection, schema):
            return False
        if await connection.fetchval(_IS_MISSING, schema):
            await connection.execute(_schema_sql(schema))
        await connection.execute(qualify(_RECORDS, schema))
        await connection.execute(qualify(step.text, schema))
        await connection.execute(
            qualify(
                "INSERT INTO detent.detent_schema_version (version, name, checksum)"
                " VALUES ($1, $2, $3)",
                schema,
            ),
            step.version,
            step.name,
            step.checksum,
        )
    return True


def _schema_sql(schema: str) -> str:
    return _SCHEMA.format(schema=check_schema_name(schema))


async def _applied(connection: Any, schema: str) -> dict[int, str]:
    """Return version to checksum of the steps a database has taken; empty without a schema."""
    query = "SELECT version, checksum FROM detent.detent_schema_version"
    try:
        # A savepoint, since a missing table would abort the caller's transaction.
        async with connection.transaction():
            rows = await connection.fetch(qualify(query, schema))
    except asyncpg.PostgresError as error:
        if error.sqlstate in _UNDEFINED:
            return {}
        raise
    return {row["version"]: row["checksum"] for row in rows}


async def check_version(database: Database) -> None:
    """Raise `SchemaMismatch` unless the database has exactly the schema this code knows."""
    try:
        async with database.connection() as connection:
            missing = await _untaken(connection, database.address.schema)
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    if missing:
        labels = ", ".join(step.label for step in missing)
        whole = len(missing) == len(known_migrations())
        what = "has no Detent schema" if whole else f"lacks {labels}"
        raise SchemaMismatch(f"the database {what}; run: {_command(database.address)}")


def _command(address: Address) -> str:
    """Return the command for this very database: the URL may stand in a program alone."""
    words = ["detent", "migrate", "--url", redact(address.url)]
    if address.schema != "detent":
        words += ["--schema", address.schema]
    return shlex.join(words)


async def drop(url: str, schema: str) -> None:
    """Remove the schema and everything in it."""
    check_schema_name(schema)
    async with _connected(url) as connection:
        await connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
