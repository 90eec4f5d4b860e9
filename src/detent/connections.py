"""Finds the driver's connection in what a caller gives as `within=`, and hands it to the store.

Sessions and connections of SQLAlchemy and Django are opened up down to the driver, after their own
transaction was begun, so that their commit and their rollback decide. No library is imported for
it: whoever has an object of one has loaded it himself. Whatever is not known here goes to the
store as it is; the store knows its own drivers.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from detent.errors import StoreUnavailable, WrongConnection
from detent.model.job import Keys, NewJob, Placed
from detent.spi.store import EnqueueStore

T = TypeVar("T")

Kind = tuple[str, str]
Awaited = Callable[[Any], Awaitable[T]]
Blocking = Callable[[Any], T]
"""What is done with a driver's connection: one that is awaited, and one that blocks."""

ASYNC_SESSION: Final = ("sqlalchemy.ext.asyncio", "AsyncSession")
ASYNC_CONNECTION: Final = ("sqlalchemy.ext.asyncio", "AsyncConnection")
SESSION: Final = ("sqlalchemy.orm", "Session")
CONNECTION: Final = ("sqlalchemy.engine", "Connection")
SCOPED: Final = (
    ("sqlalchemy.orm", "scoped_session"),
    ("sqlalchemy.ext.asyncio", "async_scoped_session"),
)
DJANGO: Final = (
    ("django.db.backends.base.base", "BaseDatabaseWrapper"),
    ("django.utils.connection", "ConnectionProxy"),
)
ASYNCPG: Final = (("asyncpg", "Connection"), ("asyncpg.pool", "PoolConnectionProxy"))
AIOSQLITE: Final = ("aiosqlite", "Connection")
SQLITE: Final = ("sqlite3", "Connection")

BLOCKING: Final = (
    SESSION,
    CONNECTION,
    *DJANGO,
    ("psycopg", "Connection"),
    ("psycopg2.extensions", "connection"),
    SQLITE,
)
AWAITED: Final = (
    ASYNC_SESSION,
    ASYNC_CONNECTION,
    *ASYNCPG,
    ("psycopg", "AsyncConnection"),
    AIOSQLITE,
)
LOST: Final = (
    ("sqlalchemy.exc", "OperationalError"),
    ("sqlalchemy.exc", "InterfaceError"),
    ("django.db.utils", "OperationalError"),
    ("django.db.utils", "InterfaceError"),
)
REFUSED: Final = (
    ("sqlalchemy.exc", "SQLAlchemyError"),
    ("django.db.utils", "Error"),
    ("django.core.exceptions", "SynchronousOnlyOperation"),
)


async def enqueue_within(
    store: EnqueueStore, given: Any, jobs: Sequence[NewJob], keys: Keys | None
) -> list[Placed]:
    """Store jobs in the transaction of an awaitable connection."""
    return await join(
        given,
        lambda driver: store.enqueue_within(driver, jobs, keys),
        lambda driver: store.enqueue_within_sync(driver, jobs, keys),
    )


def enqueue_within_sync(
    store: EnqueueStore, given: Any, jobs: Sequence[NewJob], keys: Keys | None
) -> list[Placed]:
    """Store jobs in the transaction of a blocking connection, on this thread."""
    return join_sync(
        given,
        lambda driver: store.enqueue_within(driver, jobs, keys),
        lambda driver: store.enqueue_within_sync(driver, jobs, keys),
    )


async def join(given: Any, work: Awaited[T], blocking_work: Blocking[T]) -> T:
    """Do something in the transaction of an awaitable connection."""
    given = _of_this_scope(given)
    if _is_a(given, *BLOCKING):
        raise WrongConnection(
            f"within= was given {_name(given)}, a blocking connection, and await would stop the "
            "event loop; use enqueue_sync() on the thread that the connection belongs to"
        )
    with _their_errors():
        if _is_a(given, ASYNC_SESSION):
            given = await given.connection()
        if _is_a(given, ASYNC_CONNECTION):
            given = await _begun_driver(given)
    return await _on_driver(given, work, blocking_work)


def join_sync(given: Any, work: Awaited[T], blocking_work: Blocking[T]) -> T:
    """Do something in the transaction of a blocking connection, on this thread."""
    given = _of_this_scope(given)
    if _is_a(given, *AWAITED):
        raise WrongConnection(
            f"within= was given {_name(given)}, a connection of an event loop; "
            "use: await ...enqueue()"
        )
    with _their_errors():
        if _is_a(given, SESSION):
            _check_greenlet(given.get_bind())
            given = given.connection()
        if _is_a(given, CONNECTION):
            _check_greenlet(given)
            if given.dialect.is_async:
                return _join_in_greenlet(given, work, blocking_work)
            given = _begun_driver_sync(given)
        elif _is_a(given, *DJANGO):
            given = _django_driver(given)
    return blocking_work(given)


async def _on_driver(driver: Any, work: Awaited[T], blocking_work: Blocking[T]) -> T:
    if not _is_a(driver, AIOSQLITE):
        return await work(driver)
    # It is a thread with a sqlite3 connection, and has no public way to run a function there.
    try:
        on_its_thread, connection = driver._execute, driver._conn  # noqa: SLF001  see above
    except AttributeError as error:
        raise WrongConnection(
            "within= cannot use this version of aiosqlite; "
            "use sqlite3 with enqueue_sync() on a thread instead"
        ) from error
    except ValueError as error:
        raise WrongConnection("within= was given an aiosqlite connection that is closed") from error
    done: T = await on_its_thread(blocking_work, connection)
    return done


# SQLAlchemy


async def _begun_driver(connection: Any) -> Any:
    """Return the driver's connection of an AsyncConnection whose transaction has begun."""
    if not connection.in_transaction():
        await connection.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    if _is_lazy(driver):
        await connection.exec_driver_sql("SELECT 1")
    return _with_transaction(driver)


def _begun_driver_sync(connection: Any) -> Any:
    """Return the driver's connection of a Connection whose transaction has begun."""
    if not connection.in_transaction():
        connection.begin()
    driver = connection.connection.driver_connection
    if _is_lazy(driver):
        connection.exec_driver_sql("SELECT 1")
    return _with_transaction(driver)


def _join_in_greenlet(connection: Any, work: Awaited[T], blocking_work: Blocking[T]) -> T:
    """Do it inside `run_sync` or an event of an AsyncSession: its driver must be awaited."""
    _begun_driver_sync(connection)
    done: T = connection.connection.dbapi_connection.run_async(
        lambda driver: _on_driver(driver, work, blocking_work)
    )
    return done


def _check_greenlet(bind: Any) -> None:
    """Refuse the blocking half of an awaitable session where nothing can await for it."""
    in_greenlet = getattr(sys.modules.get("sqlalchemy.util.concurrency"), "in_greenlet", None)
    if bind.dialect.is_async and in_greenlet is not None and not in_greenlet():
        raise WrongConnection(
            f"within= was given a SQLAlchemy connection with the awaitable driver "
            f"{bind.dialect.driver}, outside of run_sync(); "
            "use: await ...enqueue() with the AsyncSession or AsyncConnection"
        )


def _is_lazy(driver: Any) -> bool:
    """Whether SQLAlchemy has yet to send BEGIN: it does so before the first statement it sees."""
    return _is_a(driver, *ASYNCPG) and not driver.is_in_transaction()


def _with_transaction(driver: Any) -> Any:
    """Refuse a connection that commits by itself: only here its isolation level has a name."""
    by_itself = getattr(driver, "autocommit", False) is True or _is_lazy(driver)
    if _is_a(driver, SQLITE):
        by_itself = driver.isolation_level is None and not driver.in_transaction
    if by_itself:
        raise WrongConnection(
            "within= was given a SQLAlchemy connection with the isolation level AUTOCOMMIT, which "
            "has no transaction to join"
        )
    return driver


# Django


def _django_driver(wrapper: Any) -> Any:
    """Return the driver's connection of a Django connection that is in a transaction."""
    if wrapper.needs_rollback:
        raise WrongConnection(
            f"within= was given the Django connection {wrapper.alias!r} whose transaction has "
            "failed; leave its atomic() block"
        )
    if not wrapper.in_atomic_block and wrapper.get_autocommit():
        raise WrongConnection(
            f"within= was given the Django connection {wrapper.alias!r} outside of a transaction; "
            "use it inside: with transaction.atomic(): ..."
        )
    wrapper.ensure_connection()
    return wrapper.connection


# What things are


def _of_this_scope(given: Any) -> Any:
    """Return the session that a scoped one stands for."""
    return given() if _is_a(given, *SCOPED) else given


def _is_a(value: Any, *kinds: Kind) -> bool:
    """Whether a value is of one of these classes, as far as they are loaded."""
    return isinstance(value, _loaded(*kinds))


def _loaded(*kinds: Kind) -> tuple[type[Any], ...]:
    found = (getattr(sys.modules.get(module), name, None) for module, name in kinds)
    return tuple(kind for kind in found if isinstance(kind, type))


def _name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


@contextmanager
def _their_errors() -> Iterator[None]:
    """Turn the errors of SQLAlchemy and Django into ours, in one line."""
    try:
        yield
    except _loaded(*LOST) as error:
        raise StoreUnavailable(f"the connection given as within= broke: {_line(error)}") from error
    except _loaded(*REFUSED) as error:
        raise WrongConnection(f"within= cannot be used: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
