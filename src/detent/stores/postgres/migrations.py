"""Brings a database to the schema that this code knows, one numbered step at a time.

Each step is one transaction that takes an advisory lock, looks again whether it is still to be
done, does it and records it. So several processes may migrate at once, and a step that was killed
half-way is simply run again.

A step never stops a working cluster. A statement that waits for a table lock makes every later
statement on that table wait behind it; so a step gives up after a second, and tries again later. A
step whose file begins with `-- concurrently` builds indexes: it runs outside a transaction, and
writes go on meanwhile.
"""

import asyncio
import random
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import asyncpg

from detent.config import redact
from detent.errors import SchemaMismatch, StoreBusy
from detent.spi.migrations import Migration, migrations_of, untaken
from detent.stores.postgres.blockers import Blocker, BlockerWatch
from detent.stores.postgres.database import Address, Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.stores.postgres.hosts import Hosts
from detent.stores.postgres.statements import check_schema_name, qualify

CONNECT: Final = 30.0
# How long a step waits for a lock while others wait behind it.
LOCK_TIMEOUT: Final = 1.0
# Pauses between two tries grow from the first of these to the second.
PAUSES: Final = (0.5, 10.0)
PATIENCE: Final = 600.0
# How often to ask whether another process that migrates is done.
ASK_AGAIN: Final = 0.1
CONCURRENTLY: Final = "-- concurrently\n"

Told = Callable[[str, Sequence[Blocker]], None]
"""Hears the label of a step that has to wait, and for which sessions."""

_UNDEFINED: Final = ("42P01", "3F000")

# Even IF NOT EXISTS needs the right to create one, which not everybody has who may fill it.
_IS_MISSING: Final = "SELECT NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"
# Indexes whose build was broken off.
_INVALID: Final = """
SELECT class.relname
FROM pg_index AS index
JOIN pg_class AS class ON class.oid = index.indexrelid
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE NOT index.indisvalid AND namespace.nspname = $1
"""
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
        parts.append(
            f"BEGIN;\n{qualify(_in_transaction(step), schema)}\n{qualify(record, schema)}\nCOMMIT;"
        )
    return "\n".join(parts)


async def pending(url: str, schema: str = "detent") -> list[str]:
    """Return the labels of the steps that `migrate` would take. Changes nothing."""
    async with _connected(url) as connection:
        return [step.label for step in await _untaken(connection, schema)]


async def migrate(
    url: str, schema: str = "detent", *, patience: float = PATIENCE, told: Told | None = None
) -> list[str]:
    """Take all steps that are still to be taken; return their labels.

    A step that cannot have its locks is tried again for `patience` seconds. Then `StoreBusy` names
    the sessions that hold them; the steps before it stay taken.
    """
    async with _connected(url) as connection:
        steps = await _untaken(connection, schema)
        # The tables of a new schema are used by no one yet.
        is_new = len(steps) == len(known_migrations())
        taking = _Taking(url, connection, schema, patience, told or (lambda label, blockers: None))
        return [step.label for step in steps if await taking.take(step, is_new)]


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


class _Taking:
    """Takes steps on one connection, and waits for others without being in their way."""

    def __init__(
        self, url: str, connection: Connection, schema: str, patience: float, told: Told
    ) -> None:
        self._url = url
        self._connection = connection
        self._schema = schema
        self._patience = patience
        self._told = told

    async def take(self, step: Migration, is_new: bool) -> bool:
        """Take one step unless another process has; return whether this one did."""
        watch = BlockerWatch(self._url, partial(self._told, step.label))
        pause = PAUSES[0]
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        return await self._try(step, is_new, watch)
                    except asyncpg.LockNotAvailableError:
                        # Not at the same moment as another process that waits for the same lock.
                        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                        pause = min(pause * 2, PAUSES[1])
        except TimeoutError as error:
            raise StoreBusy(_refusal(step, watch.seen)) from error

    async def _try(self, step: Migration, is_new: bool, watch: BlockerWatch) -> bool:
        pid = await self._connection.fetchval("SELECT pg_backend_pid()")
        async with watch.watching(pid):
            if is_concurrent(step) and not is_new:
                return await self._build(step)
            return await self._take(step)

    async def _take(self, step: Migration) -> bool:
        """Take a step in one transaction."""
        async with self._locked(self._connection):
            if step.version in await _applied(self._connection, self._schema):
                return False
            if await self._connection.fetchval(_IS_MISSING, self._schema):
                await self._connection.execute(_schema_sql(self._schema))
            await self._limit_waiting()
            await self._execute(_RECORDS)
            await self._execute(_in_transaction(step))
            await self._record(step)
        return True

    async def _build(self, step: Migration) -> bool:
        """Build the indexes of a step while others write.

        PostgreSQL waits for all older transactions before such an index is valid, but holds no lock
        that a write needs. A build that was broken off leaves an invalid index, which is dropped.
        """
        # Another connection holds the lock of the step: a build cannot run in a transaction.
        guard: Any = await Hosts(self._url).connect(CONNECT, statement_cache_size=0)
        try:
            async with self._locked(guard):
                if step.version in await _applied(guard, self._schema):
                    return False
                for name in await self._connection.fetch(_INVALID, self._schema):
                    await self._execute(f'DROP INDEX CONCURRENTLY detent."{name["relname"]}"')
                for statement in _statements(step):
                    await self._execute(statement)
                await self._record(step)
        finally:
            await guard.close()
        return True

    @asynccontextmanager
    async def _locked(self, connection: Any) -> AsyncIterator[None]:
        """Hold the lock of this schema's steps during the block, which is one transaction."""
        # A lock of the transaction works behind a pooler too. A process that cannot have it ends
        # its transaction before it asks again: a build waits for the snapshot of every open one.
        query = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))"
        transaction = connection.transaction()
        await transaction.start()
        while not await connection.fetchval(query, f"detent migrate {self._schema}"):
            await transaction.rollback()
            await asyncio.sleep(ASK_AGAIN)
            transaction = connection.transaction()
            await transaction.start()
        try:
            yield
        except BaseException:
            await transaction.rollback()
            raise
        await transaction.commit()

    async def _limit_waiting(self) -> None:
        await self._connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT * 1000:.0f}")

    async def _execute(self, text: str) -> None:
        await self._connection.execute(qualify(text, self._schema))

    async def _record(self, step: Migration) -> None:
        await self._connection.execute(
            qualify(
                "INSERT INTO detent.detent_schema_version (version, name, checksum)"
                " VALUES ($1, $2, $3)",
                self._schema,
            ),
            step.version,
            step.name,
            step.checksum,
        )


def is_concurrent(step: Migration) -> bool:
    """Tell whether a step builds indexes beside writers."""
    return step.text.startswith(CONCURRENTLY)


def _in_transaction(step: Migration) -> str:
    """Return the text of a step as it runs in a transaction, on tables that no one uses yet."""
    if is_concurrent(step):
        return step.text.replace("CREATE INDEX CONCURRENTLY", "CREATE INDEX")
    return step.text


def _statements(step: Migration) -> list[str]:
    """Return the statements of a step that builds indexes, without the comments."""
    lines = (line for line in step.text.splitlines() if not line.startswith("--"))
    return [text for text in "\n".join(lines).split(";") if text.strip()]


def _refusal(step: Migration, blockers: Sequence[Blocker]) -> str:
    who = ", ".join(map(str, blockers)) or "another transaction"
    return (
        f"{step.label} was not taken: {who} holds a lock that it needs; end that transaction, "
        "for example with pg_terminate_backend(pid), and run detent migrate again"
    )


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
