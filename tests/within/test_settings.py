"""If these fail, what a caller has set up for his own statements breaks ours, or ours break his."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import psycopg2.extras
import pytest
import sqlalchemy
from psycopg.adapt import Dumper, Loader
from psycopg.rows import dict_row
from sqlalchemy import event, orm
from sqlalchemy.ext import asyncio as alchemy

from detent import KeyTaken, State, StoreError
from detent.errors import WrongConnection
from tests.within.conftest import Shop
from tests.within.kinds import Blocking, Caller, Open, on_its_thread, with_driver


async def use(caller: Caller, shop: Shop) -> None:
    """Enqueue in all ways, with keys that are taken, passed on and waited for."""
    held = await shop.send.options(unique="größe").enqueue("ada")
    (claim,) = await _claimed(shop)
    assert claim == held.id
    plain = await caller.enqueue(shop.send, "ada", ["it's", "\\ %s"], tags=["it's", "\\x41"])
    with pytest.raises(KeyTaken) as taken:
        await caller.enqueue(shop.send, "bob", unique="größe")
    assert (taken.value.job_id, type(taken.value.job_id)) == (held.id, uuid.UUID)
    waiting = await caller.enqueue(shop.send, "bob", unique="größe", on_conflict="replace")
    newer = await caller.enqueue(shop.send, "bob", unique="größe", on_conflict="replace")
    same = await caller.enqueue(shop.send, "cy", unique="größe", on_conflict="return")
    assert (same.id, type(same.id)) == (newer.id, uuid.UUID)
    many = await caller.enqueue_many(shop.app, [shop.send.bind("dan"), shop.send.bind("eve")])
    await caller.commit()
    info = await plain.info()
    assert info.args == b'{"to":"ada","body":["it\'s","\\\\ %s"]}'
    assert info.tags == ("it's", "\\x41")
    states = [(await job.info()).state for job in (held, waiting, newer, *many)]
    assert states == [
        State.RUNNING,
        State.CANCELED,
        State.WAITING,
        State.PENDING,
        State.PENDING,
    ], "the first one is asked to stop, and the last one waits for that"
    assert (await held.info()).cancel_requested


async def _claimed(shop: Shop) -> list[Any]:
    from detent.testing.conformance.steps import claimed_ids, joined

    return await claimed_ids(shop.app.store, await joined(shop.app.store))


# psycopg


class Shouting(Loader):
    """Reads texts and ids as something else."""

    def load(self, data: Any) -> str:
        return bytes(data).decode().upper() + "!"


class Whispering(Dumper):
    """Writes texts as something else."""

    def dump(self, obj: str) -> bytes:
        return obj[::-1].encode()


def psycopg_with(**settings: Any) -> Open:
    @contextmanager
    def opened(url: str) -> Iterator[Blocking]:
        with psycopg.connect(url, **settings) as connection:
            yield Blocking(connection, connection.execute, connection.commit, connection.rollback)

    return on_its_thread(opened)


def psycopg_awaited_with(**settings: Any) -> Open:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        connection = await psycopg.AsyncConnection.connect(url, **settings)
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)
        await connection.close()

    return opened


@contextmanager
def psycopg_adapted(url: str) -> Iterator[Blocking]:
    with psycopg.connect(url) as connection:
        for name in ("uuid", "text"):
            connection.adapters.register_loader(name, Shouting)
        connection.adapters.register_dumper(str, Whispering)
        connection.adapters.register_dumper(uuid.UUID, Whispering)
        yield Blocking(connection, connection.execute, connection.commit, connection.rollback)


# psycopg2


def psycopg2_with(prepare: Callable[[Any], None] = lambda _: None, **settings: Any) -> Open:
    @contextmanager
    def opened(url: str) -> Iterator[Blocking]:
        connection = psycopg2.connect(url, **settings)
        prepare(connection)
        cursor = connection.cursor()
        yield Blocking(connection, cursor.execute, connection.commit, connection.rollback)
        connection.close()

    return on_its_thread(opened)


def shout(connection: Any) -> None:
    def cast(value: Any, _: Any) -> Any:
        return value and value.upper() + "!"

    loud = psycopg2.extensions.new_type((25, 2950), "LOUD", cast)
    psycopg2.extensions.register_type(loud, connection)


def with_ids(connection: Any) -> None:
    psycopg2.extras.register_uuid(conn_or_curs=connection)  # type: ignore[no-untyped-call]


# asyncpg


def asyncpg_with(prepare: Callable[[Any], Any] | None = None, **settings: Any) -> Open:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        connection = await asyncpg.connect(url, **settings)
        if prepare is not None:
            await prepare(connection)
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, connection.execute, transaction.commit, transaction.rollback)
        await connection.close()

    return opened


async def text_codecs(connection: Any) -> None:
    for name in ("uuid", "timestamptz", "json"):
        await connection.set_type_codec(name, encoder=str, decoder=str, schema="pg_catalog")


class Named(asyncpg.Record):  # type: ignore[misc]
    """Rows with attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


KINDS: dict[str, Open] = {
    "psycopg rows as dicts": psycopg_with(row_factory=dict_row),
    "psycopg binding in the client": psycopg_with(cursor_factory=psycopg.ClientCursor),
    "psycopg raw cursors": psycopg_with(cursor_factory=psycopg.RawCursor),
    "psycopg never preparing": psycopg_with(prepare_threshold=None),
    "psycopg always preparing": psycopg_with(prepare_threshold=0),
    "psycopg adapters": on_its_thread(psycopg_adapted),
    "psycopg awaited, rows as dicts": psycopg_awaited_with(row_factory=dict_row),
    "psycopg awaited, client": psycopg_awaited_with(cursor_factory=psycopg.AsyncClientCursor),
    "psycopg2 rows as dicts": psycopg2_with(cursor_factory=psycopg2.extras.RealDictCursor),
    "psycopg2 named rows": psycopg2_with(cursor_factory=psycopg2.extras.NamedTupleCursor),
    "psycopg2 types": psycopg2_with(shout),
    "psycopg2 ids": psycopg2_with(with_ids),
    "asyncpg codecs": asyncpg_with(text_codecs),
    "asyncpg without statements": asyncpg_with(statement_cache_size=0),
    "asyncpg records": asyncpg_with(record_class=Named),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_driver_was_taught_does_not_matter(shop: Shop, kind: str) -> None:
    async with KINDS[kind](shop.url) as caller:
        await use(caller, shop)


DRIVERS: dict[str, Open] = {
    "psycopg": psycopg_with(),
    "psycopg2": psycopg2_with(),
    "asyncpg": asyncpg_with(),
}

SESSIONS = {
    "nothing on the path": "SET search_path = ''",
    "other tables on the path": "CREATE SCHEMA mine; CREATE TABLE mine.detent_job (id int);"
    " SET search_path = mine, public",
    "old times": "SET datestyle = 'SQL, DMY'; SET timezone = 'America/St_Johns'",
    "old strings": "SET standard_conforming_strings = off; SET escape_string_warning = off",
    "old bytes": "SET bytea_output = 'escape'; SET extra_float_digits = -15",
    "the strictest transactions": "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("session", SESSIONS)
async def test_what_a_session_was_set_to_does_not_matter(
    shop: Shop, driver: str, session: str
) -> None:
    async with DRIVERS[driver](shop.url) as caller:
        for statement in SESSIONS[session].split("; "):
            await caller.execute(statement)
        if "TRANSACTION" in SESSIONS[session]:
            await caller.enqueue(shop.send, "ada", unique="u")
            await caller.commit()
        else:
            await use(caller, shop)


WESTERN: dict[str, Open] = {
    "psycopg": psycopg_with(client_encoding="latin1"),
    "psycopg2": psycopg2_with(lambda connection: connection.set_client_encoding("latin1")),
}


@pytest.mark.parametrize("driver", WESTERN)
async def test_an_encoding_without_a_letter_is_named(shop: Shop, driver: str) -> None:
    async with WESTERN[driver](shop.url) as caller:
        await use(caller, shop)
        with pytest.raises(WrongConnection, match=r"encoding, .*, has no '🦉'"):
            await caller.enqueue(shop.send, "ada", key="owl 🦉")


async def test_settings_of_the_caller_are_left_as_they_are(shop: Shop) -> None:
    with psycopg.connect(shop.url, row_factory=dict_row) as connection:
        connection.adapters.register_loader("uuid", Shouting)
        shop.send.options(within=connection, unique="u").enqueue_sync("ada")
        (row,) = connection.execute("SELECT id FROM detent.detent_job").fetchall()
        assert row["id"].endswith("!")


# SQLAlchemy


async def test_events_of_sqlalchemy_see_none_of_ours(shop: Shop) -> None:
    engine = sqlalchemy.create_engine(with_driver(shop.url, "psycopg"))
    seen: list[str] = []

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def comment(*args: Any) -> tuple[str, Any]:
        seen.append(args[2])
        return args[2] + " -- %s", args[3]

    with orm.Session(engine) as session:
        job = shop.send.options(within=session, unique="u").enqueue_sync("ada")
        session.commit()
    engine.dispose()
    assert await shop.ids() == [job.id]
    assert not [sql for sql in seen if "detent" in sql]


async def test_a_job_may_be_enqueued_from_an_event_of_a_session(shop: Shop) -> None:
    base = orm.declarative_base()

    class Order(base):  # type: ignore[misc, valid-type]
        __tablename__ = "orders"
        note = sqlalchemy.Column(sqlalchemy.Text, primary_key=True)

    jobs: list[Any] = []

    def enqueue(_mapper: Any, connection: Any, order: Any) -> None:
        jobs.append(shop.send.options(within=connection).enqueue_sync(order.note))

    event.listen(Order, "after_insert", enqueue)
    engine = alchemy.create_async_engine(with_driver(shop.url, "asyncpg"))
    async with alchemy.AsyncSession(engine) as session:
        session.add_all([Order(note="tea"), Order(note="salt")])
        await session.flush()
        assert await shop.ids() == []
        await session.commit()
    await engine.dispose()
    assert await shop.ids() == [job.id for job in jobs]
    assert len(jobs) == 2
    assert await shop.orders() == ["salt", "tea"]


async def test_a_savepoint_of_a_session_takes_its_jobs_with_it(shop: Shop) -> None:
    engine = alchemy.create_async_engine(with_driver(shop.url, "asyncpg"))
    async with alchemy.AsyncSession(engine) as session, session.begin():
        first = await shop.send.options(within=session).enqueue("ada")
        inner = await session.begin_nested()
        await shop.send.options(within=session, unique="u").enqueue("bob")
        await inner.rollback()
        last = await shop.send.options(within=session, unique="u").enqueue("cy")
    await engine.dispose()
    assert await shop.ids() == [first.id, last.id]


async def test_a_lock_that_is_waited_for_in_vain_spares_the_transaction(shop: Shop) -> None:
    async with DRIVERS["asyncpg"](shop.url) as holder, DRIVERS["psycopg"](shop.url) as caller:
        await holder.enqueue(shop.send, "ada", unique="u")
        await caller.execute("SET lock_timeout = '50ms'")
        with pytest.raises(StoreError):
            await caller.enqueue(shop.send, "bob", unique="u")
        job = await caller.enqueue(shop.send, "bob")
        await caller.commit()
        await holder.rollback()
    assert await shop.ids() == [job.id]
