"""If these fail, jobs are stored where no node looks, or a caller sees errors he cannot read."""

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as alchemy

from detent import App, StoreUnavailable
from detent.errors import StoreError, WrongConnection
from detent.stores.memory import MemoryStore
from detent.testing.postgres import TemporaryPostgres
from tests.within.conftest import Shop, declare, on_a_thread
from tests.within.django_databases import django_connection
from tests.within.kinds import POSTGRES, with_driver

each_kind = pytest.mark.parametrize("kind", POSTGRES)


# Elsewhere


@each_kind
async def test_another_database_is_refused_with_both_names(
    shop: Shop, kind: str, empty_postgres_url: str
) -> None:
    theirs, ours = (url.rpartition("/")[2] for url in (empty_postgres_url, shop.url))
    async with POSTGRES[kind](empty_postgres_url) as caller:
        await caller.execute("CREATE TABLE mine (note text)")
        with pytest.raises(WrongConnection, match=f"{theirs}.* live in .*{ours}"):
            await caller.enqueue(shop.send, "ada")
        # It only looked: the caller's transaction goes on.
        await caller.execute("INSERT INTO mine VALUES ('tea')")
        await caller.commit()
    assert await shop.ids() == []


@pytest.fixture(scope="module")
def socket_server() -> Iterator[TemporaryPostgres]:
    """Another server, which can also be reached by a local socket."""
    with tempfile.TemporaryDirectory(prefix="detent-socket-") as folder:
        Path(folder).chmod(0o777)
        settings = {"unix_socket_directories": folder}
        with TemporaryPostgres(settings=settings) as server:
            server.socket_folder = folder  # type: ignore[attr-defined]
            yield server


@pytest.mark.parametrize("kind", ["asyncpg", "psycopg", "psycopg2"])
async def test_a_database_of_the_same_name_on_another_server_is_refused(
    shop: Shop, kind: str, socket_server: TemporaryPostgres
) -> None:
    name = shop.url.rpartition("/")[2]
    url = socket_server.create_database(name)
    port = socket_server.port
    async with POSTGRES[kind](url) as caller:
        with pytest.raises(WrongConnection, match=rf"{name}' on 127\.0\.0\.1:{port}; .*{name}' on"):
            await caller.enqueue(shop.send, "ada")


async def test_the_way_to_a_server_does_not_matter(socket_server: TemporaryPostgres) -> None:
    from detent.stores.postgres.migrations import migrate

    url = socket_server.create_database("shop")
    await migrate(url)
    folder = socket_server.socket_folder  # type: ignore[attr-defined]
    local = f"host={folder} port={socket_server.port} user=postgres dbname=shop"
    async with App(url) as app:
        task = declare(app)
        with psycopg.connect(local) as connection:
            job = await on_a_thread(lambda: task.options(within=connection).enqueue_sync("ada"))
        assert [info.id for info in await app.jobs.list()] == [job.id]
        with psycopg.connect(local.replace("shop", "postgres")) as connection:
            words = "'postgres' on a local socket; .* in 'shop' on 127"
            with pytest.raises(WrongConnection, match=words):
                await on_a_thread(lambda: task.options(within=connection).enqueue_sync("ada"))


async def test_a_connection_is_asked_once(shop: Shop) -> None:
    connection = await asyncpg.connect(shop.url)
    asked: list[str] = []
    connection.add_query_logger(lambda query: asked.append(query.query))
    for _ in range(3):
        async with connection.transaction():
            await shop.send.options(within=connection).enqueue("ada")
    assert len([query for query in asked if "pg_postmaster_start_time" in query]) == 1
    await connection.close()


async def test_a_restarted_server_is_recognised(socket_server: TemporaryPostgres) -> None:
    from detent.stores.postgres.migrations import migrate

    url = socket_server.create_database("restarted")
    await migrate(url)
    app = App(url)
    task = declare(app)

    def enqueue() -> Any:
        with psycopg.connect(url) as connection:
            return task.options(within=connection).enqueue_sync("ada").id

    ids = [await on_a_thread(enqueue)]
    await asyncio.to_thread(socket_server.restart)
    ids.append(await on_a_thread(enqueue))
    async with app:
        assert sorted(info.id for info in await app.jobs.list()) == ids


# The wrong face


async def test_a_blocking_connection_is_not_awaited(shop: Shop) -> None:
    engine = sqlalchemy.create_engine(with_driver(shop.url, "psycopg"))
    with (
        psycopg.connect(shop.url) as modern,
        psycopg2.connect(shop.url) as older,
        engine.connect() as connection,
        orm.Session(engine) as session,
        django_connection(shop.url) as django,
        django_connection(shop.url, "orders") as alias,
        sqlite3.connect(":memory:") as lite,
    ):
        scoped = orm.scoped_session(orm.sessionmaker(engine))
        for blocking in (modern, older, connection, session, scoped, django, alias, lite):
            with pytest.raises(WrongConnection, match=r"blocking connection, .* enqueue_sync\(\)"):
                await shop.send.options(within=blocking).enqueue("ada")
            with pytest.raises(WrongConnection, match=r"enqueue_sync\(\)"):
                await shop.app.enqueue_many([shop.send.bind("ada")], within=blocking)
    lite.close()
    older.close()
    engine.dispose()


async def test_an_awaitable_connection_is_not_blocked_on(shop: Shop) -> None:
    engine = alchemy.create_async_engine(with_driver(shop.url, "asyncpg"))
    async with (
        asyncpg.create_pool(shop.url, min_size=1) as pool,
        pool.acquire() as lent,
        await psycopg.AsyncConnection.connect(shop.url) as modern,
        engine.connect() as connection,
        alchemy.AsyncSession(engine) as session,
        aiosqlite.connect(":memory:") as lite,
    ):
        for awaitable in (lent, modern, connection, session, lite):
            with pytest.raises(WrongConnection, match=r"event loop; use: await \.\.\.enqueue\(\)"):
                shop.send.options(within=awaitable).enqueue_sync("ada")
            with pytest.raises(WrongConnection, match=r"use: await \.\.\.enqueue\(\)"):
                shop.app.enqueue_many_sync([shop.send.bind("ada")], within=awaitable)
        # Its blocking half can only be used inside run_sync.
        words = r"driver asyncpg, outside of run_sync\(\); use: await"
        with pytest.raises(WrongConnection, match=words):
            shop.send.options(within=session.sync_session).enqueue_sync("ada")
    await engine.dispose()


async def test_a_blocking_connection_may_be_used_beside_a_running_loop(shop: Shop) -> None:
    """Whoever blocks his loop with his own connection has no other way."""
    with psycopg.connect(shop.url) as connection:
        job = shop.send.options(within=connection).enqueue_sync("ada")
    assert await shop.ids() == [job.id]


# No connection, or not one of these


async def test_what_is_no_connection_is_named(shop: Shop) -> None:
    engine = sqlalchemy.create_engine(with_driver(shop.url, "psycopg"))
    pool = asyncpg.create_pool(shop.url)
    for wrong in ("default", object(), engine, pool, orm.sessionmaker(engine), shop.app):
        name = type(wrong).__qualname__
        with pytest.raises(WrongConnection, match=f"{name}; .*asyncpg, psycopg or psycopg2"):
            await shop.send.options(within=wrong).enqueue("ada")
        with pytest.raises(WrongConnection, match=f"{name}; .*SQLAlchemy or Django"):
            shop.send.options(within=wrong).enqueue_sync("ada")


async def test_sqlite_is_not_postgresql(shop: Shop) -> None:
    lite = sqlite3.connect(":memory:")
    with pytest.raises(WrongConnection, match=r"sqlite3\.Connection; the jobs .* PostgreSQL"):
        shop.send.options(within=lite).enqueue_sync("ada")
    lite.close()
    async with aiosqlite.connect(":memory:") as awaited:
        with pytest.raises(WrongConnection, match=r"PostgreSQL"):
            await shop.send.options(within=awaited).enqueue("ada")


async def test_an_app_in_memory_has_no_transactions_to_join(shop: Shop) -> None:
    app = App("memory://", store=MemoryStore())
    task = declare(app)
    words = r"live in memory; .* a Connection"
    with psycopg.connect(shop.url) as connection, pytest.raises(WrongConnection, match=words):
        task.options(within=connection).enqueue_sync("ada")
    with pytest.raises(WrongConnection, match="live in memory"):
        await task.options(within=object()).enqueue("ada")


# No transaction


async def test_without_a_transaction_nothing_is_stored(shop: Shop) -> None:
    connection = await asyncpg.connect(shop.url)
    with pytest.raises(WrongConnection, match=r"open one: async with connection\.transaction"):
        await shop.send.options(within=connection).enqueue("ada")
    await connection.close()
    with pytest.raises(WrongConnection, match="asyncpg connection that is closed"):
        await shop.send.options(within=connection).enqueue("ada")
    async with await psycopg.AsyncConnection.connect(shop.url, autocommit=True) as modern:
        with pytest.raises(WrongConnection, match=r"open one: with connection\.transaction"):
            await shop.send.options(within=modern).enqueue("ada")
        async with modern.pipeline():
            await modern.execute("SELECT 1")
            with pytest.raises(WrongConnection, match="without an open transaction"):
                await shop.send.options(within=modern).enqueue("ada")
    with pytest.raises(WrongConnection, match="psycopg connection that is closed"):
        await shop.send.options(within=modern).enqueue("ada")
    assert await shop.ids() == []


async def test_a_connection_that_went_back_to_its_pool_is_refused(shop: Shop) -> None:
    async with asyncpg.create_pool(shop.url, min_size=1) as pool:
        async with pool.acquire() as connection:
            pass
        with pytest.raises(WrongConnection, match="released back to the pool"):
            await shop.send.options(within=connection).enqueue("ada")


async def test_blocking_connections_without_a_transaction_are_refused(shop: Shop) -> None:
    with psycopg.connect(shop.url, autocommit=True) as modern:
        with pytest.raises(WrongConnection, match=r"open one: with connection\.transaction"):
            shop.send.options(within=modern).enqueue_sync("ada")
        with modern.transaction():
            job = shop.send.options(within=modern, unique="u").enqueue_sync("ada")
    older = psycopg2.connect(shop.url)
    older.autocommit = True
    with pytest.raises(WrongConnection, match=r"open one: connection\.autocommit = False"):
        shop.send.options(within=older).enqueue_sync("ada")
    older.close()
    for closed in (modern, older):
        with pytest.raises(WrongConnection, match="connection that is closed"):
            shop.send.options(within=closed).enqueue_sync("ada")
    assert await shop.ids() == [job.id]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2"])
async def test_autocommit_of_sqlalchemy_is_refused(shop: Shop, driver: str) -> None:
    url, words = with_driver(shop.url, driver), "isolation level AUTOCOMMIT"
    if driver != "asyncpg":
        engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
        with orm.Session(engine) as session, pytest.raises(WrongConnection, match=words):
            shop.send.options(within=session).enqueue_sync("ada")
        engine.dispose()
    if driver != "psycopg2":
        awaited = alchemy.create_async_engine(url)
        async with awaited.connect() as connection:
            loose = await connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(WrongConnection, match=words):
                await shop.send.options(within=loose).enqueue("ada")
        await awaited.dispose()
    assert await shop.ids() == []


#: Kinds whose next transaction would have to be begun by hand.
BY_HAND = ("asyncpg", "asyncpg pool", "psycopg awaited, autocommit")

#: In a pipeline, an error comes with whatever is asked next.
at_once = pytest.mark.parametrize("kind", [kind for kind in POSTGRES if "pipeline" not in kind])


@at_once
async def test_a_failed_transaction_is_refused(shop: Shop, kind: str) -> None:
    async with POSTGRES[kind](shop.url) as caller:
        await caller.order("tea")
        with pytest.raises(Exception, match="duplicate key"):
            await caller.order("tea")
        with pytest.raises(WrongConnection, match="has failed; roll it back"):
            await caller.enqueue(shop.send, "ada")
        with pytest.raises(WrongConnection, match="has failed; roll it back"):
            await caller.enqueue(shop.send, "ada", unique="u")
        await caller.rollback()
        if kind not in BY_HAND:
            await caller.enqueue(shop.send, "ada")
            await caller.commit()


@each_kind
async def test_a_read_only_transaction_is_refused(shop: Shop, kind: str) -> None:
    async with POSTGRES[kind](shop.url) as caller:
        await caller.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(WrongConnection, match="read-only transaction"):
            await caller.enqueue(shop.send, "ada")
        await caller.rollback()
    assert await shop.ids() == []


@at_once
async def test_a_connection_that_breaks_is_said_to_be_broken(shop: Shop, kind: str) -> None:
    async with POSTGRES[kind](shop.url) as caller:
        await caller.execute("SELECT 1")
        gone = await shop.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        assert gone, "there was one to break"
        with pytest.raises(StoreError) as told:
            await caller.enqueue(shop.send, "ada")
        # Whether the driver has heard of it already is a matter of luck.
        assert isinstance(told.value, (StoreUnavailable, WrongConnection))
        # Each has its own class for a rollback that nobody hears; some say nothing.
        with suppress(Exception):
            await caller.rollback()


async def test_a_session_that_cannot_begin_is_refused_in_one_line(shop: Shop) -> None:
    engine = sqlalchemy.create_engine(with_driver(shop.url, "psycopg"))
    with orm.Session(engine, autobegin=False) as session:
        with pytest.raises(WrongConnection, match="Autobegin is disabled") as told:
            shop.send.options(within=session).enqueue_sync("ada")
        assert "\n" not in str(told.value)
    with pytest.raises(WrongConnection, match="bind"):
        shop.send.options(within=orm.Session()).enqueue_sync("ada")
    with engine.connect() as connection:
        pass
    with pytest.raises(WrongConnection, match="closed"):
        shop.send.options(within=connection).enqueue_sync("ada")
    awaited = alchemy.create_async_engine(with_driver(shop.url, "asyncpg")).connect()
    with pytest.raises(WrongConnection, match="not been started"):
        await shop.send.options(within=awaited).enqueue("ada")
    engine.dispose()


async def test_a_role_without_rights_is_told_so(shop: Shop) -> None:
    await shop.ask("DROP ROLE IF EXISTS guest")
    await shop.ask("CREATE ROLE guest LOGIN")
    connection = await asyncpg.connect(shop.url.replace("postgres@", "guest@"))
    transaction = connection.transaction()
    await transaction.start()
    with pytest.raises(StoreError, match="permission denied"):
        await shop.send.options(within=connection).enqueue("ada")
    await transaction.rollback()
    await connection.close()
    await shop.ask("DROP ROLE guest")
