"""Callers' connections of any driver: without it `within=` would know asyncpg only.

Each driver becomes a `Caller` that runs one statement and says whether it may be used at all. No
driver is imported: whoever has a connection of one has loaded it himself. What the caller set on
his connection (row factories, cursor factories, adapters, codecs) is for his own statements; ours
use plain cursors, give every value as text whose type the server infers, and read nothing but ids.

The adapters of blocking drivers are coroutines that never wait, so that the steps of an enqueue
exist once; `run_now` runs them.
"""

import importlib
import re
import sys
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Final, Protocol, TypeVar
from uuid import UUID

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from detent.errors import WrongConnection
from detent.stores.postgres.failures import DRIVER_ERRORS

T = TypeVar("T")
Row = Mapping[str, Any]

TEXT_OID: Final = 25
UUID_OID: Final = 2950
# As libpq numbers them, and after it both generations of psycopg.
IDLE: Final = 0
IN_ERROR: Final = 3
UNKNOWN: Final = 4

ACCEPTED: Final = (
    "a connection of asyncpg, psycopg or psycopg2, or one of SQLAlchemy or Django on top of them"
)


class Caller(Protocol):
    """A connection that belongs to somebody else."""

    blocking: ClassVar[bool]
    errors: tuple[type[Exception], ...]
    """What its driver raises."""
    key: Any
    """The object that stands for the connection while it lives."""

    async def check(self) -> None:
        """Raise `WrongConnection` unless statements would be part of the caller's transaction."""

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """Run a statement and return its rows."""


def recognise(connection: object) -> Caller:
    """Return the connection as a `Caller`, or raise `WrongConnection`."""
    if isinstance(connection, (asyncpg.Connection, PoolConnectionProxy)):
        return AsyncpgCaller(connection)
    for module, name, kind in KINDS:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(connection, getattr(loaded, name)):
            caller: Caller = kind(connection)
            return caller
    raise WrongConnection(
        f"within= was given a {type(connection).__module__}.{type(connection).__qualname__}; "
        f"the jobs of this app live in PostgreSQL, so it takes {ACCEPTED}"
    )


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a blocking connection has nothing to wait for")


class AsyncpgCaller:
    """A connection of asyncpg, alone or lent by a pool."""

    blocking: ClassVar[bool] = False
    errors: tuple[type[Exception], ...] = DRIVER_ERRORS

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        # A pool lends the same connection in a new wrapper each time.
        self.key = getattr(connection, "_con", None) or connection

    async def check(self) -> None:
        """See `Caller.check`."""
        try:
            if self._connection.is_closed():
                raise _closed("asyncpg")
            open_now = self._connection.is_in_transaction()
        except asyncpg.InterfaceError as error:
            raise WrongConnection(f"within= was given an asyncpg connection: {error}") from error
        if not open_now:
            raise _no_transaction("asyncpg", "async with connection.transaction(): ...")

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """See `Caller.fetch`."""
        records = await self._connection.fetch(sql, *args, record_class=asyncpg.Record)
        # A codec that the caller has set may make something else of an id.
        return [{name: _read(name, value) for name, value in row.items()} for row in records]


class PsycopgCaller:
    """A blocking connection of psycopg 3."""

    blocking: ClassVar[bool] = True

    def __init__(self, connection: Any) -> None:
        self._connection = self.key = connection
        self.errors: tuple[type[Exception], ...] = (connection.Error,)

    async def check(self) -> None:
        """See `Caller.check`."""
        if self._connection.closed:
            raise _closed("psycopg")
        await self._settle()
        _check_status(
            "psycopg",
            self._connection.info.transaction_status,
            self._connection.autocommit,
            "with connection.transaction(): ...",
        )

    async def _settle(self) -> None:
        """Wait for what a pipeline has sent ahead: its answers are not there before."""
        if self._connection.pgconn.pipeline_status:
            with self._connection.pipeline() as pipeline:
                pipeline.sync()

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """See `Caller.fetch`."""
        with _psycopg_cursor("Cursor", self._connection) as cursor:
            cursor.execute(in_pyformat(sql), _texts(args))
            await self._settle()
            return _rows(cursor, cursor.fetchall() if cursor.description else [])


class AsyncPsycopgCaller(PsycopgCaller):
    """An awaitable connection of psycopg 3."""

    blocking: ClassVar[bool] = False

    async def _settle(self) -> None:
        if self._connection.pgconn.pipeline_status:
            async with self._connection.pipeline() as pipeline:
                await pipeline.sync()

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """See `Caller.fetch`."""
        async with _psycopg_cursor("AsyncCursor", self._connection) as cursor:
            await cursor.execute(in_pyformat(sql), _texts(args))
            await self._settle()
            return _rows(cursor, await cursor.fetchall() if cursor.description else [])


class Psycopg2Caller:
    """A connection of psycopg2."""

    blocking: ClassVar[bool] = True

    def __init__(self, connection: Any) -> None:
        self._connection = self.key = connection
        self.errors: tuple[type[Exception], ...] = (connection.Error,)

    async def check(self) -> None:
        """See `Caller.check`."""
        if self._connection.closed:
            raise _closed("psycopg2")
        if self._connection.async_:
            raise WrongConnection("within= was given a psycopg2 connection made with async_=True")
        _check_status(
            "psycopg2",
            self._connection.get_transaction_status(),
            self._connection.autocommit,
            "connection.autocommit = False",
        )

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """See `Caller.fetch`."""
        driver = importlib.import_module("psycopg2.extensions")
        # It puts values into the text; its own quoting follows the session's settings.
        values = {
            name: None if value is None else driver.QuotedString(value)
            for name, value in _texts(args).items()
        }
        with driver.cursor(self._connection) as cursor:
            plain = driver.new_type((TEXT_OID, UUID_OID), "DETENT", lambda value, _cursor: value)
            driver.register_type(plain, cursor)
            cursor.execute(in_pyformat(sql), values)
            return _rows(cursor, cursor.fetchall() if cursor.description else [])


def _psycopg_cursor(kind: str, connection: Any) -> Any:
    """Return a cursor that binds on the server and knows no adapters but the ones needed here."""
    driver = importlib.import_module("psycopg")
    cursor = getattr(driver, kind)(connection, row_factory=driver.rows.tuple_row)
    strings = importlib.import_module("psycopg.types.string")
    cursor.adapters.register_dumper(str, strings.StrDumperUnknown)
    for oid in (TEXT_OID, UUID_OID):
        cursor.adapters.register_loader(oid, strings.TextLoader)
    return cursor


def _check_status(driver: str, status: int, autocommit: bool, advice: str) -> None:
    if status == IDLE and autocommit:
        raise _no_transaction(driver, advice)
    if status == IN_ERROR:
        raise failed_transaction(driver)
    if status == UNKNOWN:
        raise _closed(driver)


def _closed(driver: str) -> WrongConnection:
    return WrongConnection(f"within= was given a {driver} connection that is closed")


def _no_transaction(driver: str, advice: str) -> WrongConnection:
    return WrongConnection(
        f"within= was given a {driver} connection without an open transaction; open one: {advice}"
    )


def failed_transaction(driver: str) -> WrongConnection:
    """Return what to say when an earlier error has spoiled the caller's transaction."""
    return WrongConnection(
        f"within= was given a {driver} connection whose transaction has failed; roll it back"
    )


def _rows(cursor: Any, values: Sequence[Sequence[Any]]) -> list[Row]:
    if not values:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, map(_read, names, row), strict=True)) for row in values]


def _read(name: str, value: Any) -> Any:
    """Return a value that may have come as text, or as bytes of a database without encoding."""
    if isinstance(value, bytes):
        value = value.decode()
    return UUID(str(value)) if value and name in _IDS else value


@cache
def in_pyformat(sql: str) -> str:
    """Return a statement with `%(p1)s` where it says `$1`."""
    return _PARAMETER.sub(r"%(p\1)s", sql.replace("%", "%%"))


def _texts(args: Sequence[Any]) -> dict[str, str | None]:
    return {f"p{number}": as_text(value) for number, value in enumerate(args, 1)}


def as_text(value: Any) -> str | None:
    """Return a value as PostgreSQL reads it, whatever the session's settings are."""
    match value:
        case None | str():
            return value
        case bytes():
            return f"\\x{value.hex()}"
        case datetime():
            return value.isoformat()
        case int():
            return str(int(value))
        case list() | tuple():
            return "{" + ",".join(map(_element, value)) + "}"
        case _:
            return str(value)


def _element(value: Any) -> str:
    text = as_text(value)
    return "NULL" if text is None else '"' + _SPECIAL.sub(r"\\\g<0>", text) + '"'


_IDS: Final = ("id", "job", "waits_for")
_PARAMETER: Final = re.compile(r"\$(\d+)")
_SPECIAL: Final = re.compile(r'["\\]')

KINDS: Final[tuple[tuple[str, str, type[Any]], ...]] = (
    ("psycopg", "AsyncConnection", AsyncPsycopgCaller),
    ("psycopg", "Connection", PsycopgCaller),
    ("psycopg2.extensions", "connection", Psycopg2Caller),
)
