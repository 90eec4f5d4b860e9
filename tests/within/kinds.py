"""Every kind of connection that `within=` takes, opened as its own documentation says.

A `Caller` is what a test needs of it: the object for `within=`, a way to run the caller's own
statements, his commit and his rollback. Blocking kinds live on one thread of their own and are
awaited from there, so that one test serves all of them.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as alchemy

from detent import App, Job, Task
from tests.within.django_databases import django_connection


@dataclass
class Caller:
    """A connection in the hands of a program."""

    within: Any
    execute: Callable[[str], Awaitable[Any]]
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]

    async def order(self, note: str) -> None:
        await self.execute(f"INSERT INTO orders VALUES ('{note}')")

    async def enqueue(
        self, task: Task[..., Any], to: str, body: Any = None, **options: Any
    ) -> Job[Any]:
        return await task.options(within=self.within, **options).enqueue(to, body=body)

    async def enqueue_many(self, app: App, calls: list[Any]) -> list[Job[Any]]:
        return await app.enqueue_many(calls, within=self.within)


@dataclass
class BlockingCaller(Caller):
    """One whose thread has to be used."""

    run: Callable[..., Awaitable[Any]]

    async def enqueue(
        self, task: Task[..., Any], to: str, body: Any = None, **options: Any
    ) -> Job[Any]:
        bound = task.options(within=self.within, **options)
        job: Job[Any] = await self.run(bound.enqueue_sync, to, body=body)
        return job

    async def enqueue_many(self, app: App, calls: list[Any]) -> list[Job[Any]]:
        jobs: list[Job[Any]] = await self.run(app.enqueue_many_sync, calls, within=self.within)
        return jobs


class Blocking(NamedTuple):
    """A blocking connection: the object, and the functions to run, commit and roll back."""

    within: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


Open = Callable[[str], AbstractAsyncContextManager[Caller]]
OpenBlocking = Callable[[str], AbstractContextManager[Blocking]]


def on_its_thread(open_blocking: OpenBlocking) -> Open:
    """Make a blocking kind awaitable for the test; its thread has no event loop."""

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        with ThreadPoolExecutor(1) as thread:

            async def run(work: Callable[..., Any], *args: Any, **more: Any) -> Any:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(thread, partial(work, *args, **more))

            manager = open_blocking(url)
            given = await run(manager.__enter__)
            execute, commit, rollback = (partial(run, action) for action in given[1:])
            try:
                yield BlockingCaller(given.within, execute, commit, rollback, run)
            finally:
                await run(manager.__exit__, None, None, None)

    return opened


def with_driver(url: str, driver: str) -> str:
    scheme, _, rest = url.partition(":")
    return f"{scheme}+{driver}:{rest}"


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


# Awaitable, PostgreSQL


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Caller(connection, connection.execute, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, connection.execute, transaction.commit, transaction.rollback)


@asynccontextmanager
async def psycopg_awaited(url: str) -> AsyncIterator[Caller]:
    connection = await psycopg.AsyncConnection.connect(url)
    yield Caller(connection, connection.execute, connection.commit, connection.rollback)
    await connection.close()


@asynccontextmanager
async def psycopg_awaited_autocommit(url: str) -> AsyncIterator[Caller]:
    """With a transaction that was begun by hand."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await connection.execute("BEGIN")
    yield Caller(connection, connection.execute, connection.commit, connection.rollback)
    await connection.close()


@asynccontextmanager
async def psycopg_awaited_pipeline(url: str) -> AsyncIterator[Caller]:
    connection = await psycopg.AsyncConnection.connect(url)
    async with connection.pipeline():
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)
    await connection.close()


# Awaitable, SQLite


@asynccontextmanager
async def aiosqlite_connection(url: str) -> AsyncIterator[Caller]:
    async with aiosqlite.connect(path_of(url)) as connection:
        await connection.execute("BEGIN")
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


# Awaitable, SQLAlchemy


def alchemy_connection(driver: str) -> Open:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = alchemy.create_async_engine(with_driver(url, driver))
        async with engine.connect() as connection:
            execute = connection.exec_driver_sql
            yield Caller(connection, execute, connection.commit, connection.rollback)
        await engine.dispose()

    return opened


def alchemy_session(driver: str) -> Open:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = alchemy.create_async_engine(with_driver(url, driver))
        async with alchemy.AsyncSession(engine) as session:
            execute = partial(_execute_text, session)
            yield Caller(session, execute, session.commit, session.rollback)
        await engine.dispose()

    return opened


@asynccontextmanager
async def alchemy_scoped(url: str) -> AsyncIterator[Caller]:
    engine = alchemy.create_async_engine(with_driver(url, "asyncpg"))
    session = alchemy.async_scoped_session(alchemy.async_sessionmaker(engine), lambda: None)
    yield Caller(session, partial(_execute_text, session), session.commit, session.rollback)
    await session.remove()
    await engine.dispose()


async def _execute_text(session: Any, sql: str) -> None:
    await session.execute(sqlalchemy.text(sql))


def alchemy_run_sync(driver: str) -> Open:
    """Blocking code inside an awaitable session, as its events are."""

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = alchemy.create_async_engine(with_driver(url, driver))
        async with alchemy.AsyncSession(engine) as session:

            async def run(work: Callable[..., Any], *args: Any, **more: Any) -> Any:
                return await session.run_sync(lambda _: work(*args, **more))

            yield BlockingCaller(
                session.sync_session,
                partial(_execute_text, session),
                session.commit,
                session.rollback,
                run,
            )
        await engine.dispose()

    return opened


# Blocking


@contextmanager
def psycopg_connection(url: str) -> Iterator[Blocking]:
    with psycopg.connect(url) as connection:
        yield Blocking(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def psycopg_pipeline(url: str) -> Iterator[Blocking]:
    with psycopg.connect(url) as connection, connection.pipeline():
        yield Blocking(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def psycopg2_connection(url: str) -> Iterator[Blocking]:
    connection = psycopg2.connect(url)
    cursor = connection.cursor()
    yield Blocking(connection, cursor.execute, connection.commit, connection.rollback)
    connection.close()


@contextmanager
def sqlite3_connection(url: str) -> Iterator[Blocking]:
    connection = sqlite3.connect(path_of(url))
    yield Blocking(connection, connection.execute, connection.commit, connection.rollback)
    connection.close()


def blocking_alchemy_connection(driver: str) -> OpenBlocking:
    @contextmanager
    def opened(url: str) -> Iterator[Blocking]:
        engine = sqlalchemy.create_engine(with_driver(url, driver))
        with engine.connect() as connection:
            execute = connection.exec_driver_sql
            yield Blocking(connection, execute, connection.commit, connection.rollback)
        engine.dispose()

    return opened


def blocking_alchemy_session(driver: str) -> OpenBlocking:
    @contextmanager
    def opened(url: str) -> Iterator[Blocking]:
        engine = sqlalchemy.create_engine(with_driver(url, driver))
        with orm.Session(engine) as session:

            def execute(sql: str) -> None:
                session.execute(sqlalchemy.text(sql))

            yield Blocking(session, execute, session.commit, session.rollback)
        engine.dispose()

    return opened


@contextmanager
def blocking_alchemy_scoped(url: str) -> Iterator[Blocking]:
    """As Flask-SQLAlchemy has it."""
    engine = sqlalchemy.create_engine(with_driver(url, "psycopg"))
    session = orm.scoped_session(orm.sessionmaker(engine))

    def execute(sql: str) -> None:
        session.execute(sqlalchemy.text(sql))

    yield Blocking(session, execute, session.commit, session.rollback)
    session.remove()
    engine.dispose()


def django(alias: str) -> OpenBlocking:
    """In its manual mode; test_django.py has `atomic()`."""

    @contextmanager
    def opened(url: str) -> Iterator[Blocking]:
        with django_connection(url, alias) as connection:
            connection.set_autocommit(False)

            def execute(sql: str) -> None:
                with connection.cursor() as cursor:
                    cursor.execute(sql)

            yield Blocking(connection, execute, connection.commit, connection.rollback)

    return opened


POSTGRES: Final[dict[str, Open]] = {
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "psycopg awaited": psycopg_awaited,
    "psycopg awaited, autocommit": psycopg_awaited_autocommit,
    "psycopg awaited, pipeline": psycopg_awaited_pipeline,
    "sqlalchemy awaited connection, asyncpg": alchemy_connection("asyncpg"),
    "sqlalchemy awaited connection, psycopg": alchemy_connection("psycopg"),
    "sqlalchemy awaited session, asyncpg": alchemy_session("asyncpg"),
    "sqlalchemy awaited session, psycopg": alchemy_session("psycopg"),
    "sqlalchemy awaited scoped session": alchemy_scoped,
    "sqlalchemy run_sync, asyncpg": alchemy_run_sync("asyncpg"),
    "sqlalchemy run_sync, psycopg": alchemy_run_sync("psycopg"),
    "psycopg": on_its_thread(psycopg_connection),
    "psycopg, pipeline": on_its_thread(psycopg_pipeline),
    "psycopg2": on_its_thread(psycopg2_connection),
    "sqlalchemy connection, psycopg": on_its_thread(blocking_alchemy_connection("psycopg")),
    "sqlalchemy connection, psycopg2": on_its_thread(blocking_alchemy_connection("psycopg2")),
    "sqlalchemy session, psycopg": on_its_thread(blocking_alchemy_session("psycopg")),
    "sqlalchemy session, psycopg2": on_its_thread(blocking_alchemy_session("psycopg2")),
    "sqlalchemy scoped session": on_its_thread(blocking_alchemy_scoped),
    "django": on_its_thread(django("default")),
    "django alias": on_its_thread(django("orders")),
}
SQLITE: Final[dict[str, Open]] = {
    "aiosqlite": aiosqlite_connection,
    "sqlalchemy awaited connection, aiosqlite": alchemy_connection("aiosqlite"),
    "sqlalchemy awaited session, aiosqlite": alchemy_session("aiosqlite"),
    "sqlalchemy run_sync, aiosqlite": alchemy_run_sync("aiosqlite"),
    "sqlite3": on_its_thread(sqlite3_connection),
    "sqlalchemy connection, pysqlite": on_its_thread(blocking_alchemy_connection("pysqlite")),
    "sqlalchemy session, pysqlite": on_its_thread(blocking_alchemy_session("pysqlite")),
    "django, sqlite": on_its_thread(django("default")),
}
