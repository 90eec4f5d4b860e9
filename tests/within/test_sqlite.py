"""If these fail, an app on SQLite takes what it cannot use, or refuses what it can."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from django.db import transaction
from sqlalchemy import event, orm
from sqlalchemy.ext import asyncio as alchemy

from detent.errors import WrongConnection
from tests.within.conftest import Shop, lite_shop, on_a_thread
from tests.within.django_databases import django_connection
from tests.within.kinds import SQLITE, path_of, with_driver


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with lite_shop(tmp_path / "shop.db") as shop:
        yield shop


@pytest.mark.parametrize("kind", SQLITE)
async def test_another_file_is_refused_with_both_names(
    shop: Shop, tmp_path: Path, kind: str
) -> None:
    async with SQLITE[kind](f"sqlite:///{tmp_path / 'other.db'}") as caller:
        with pytest.raises(WrongConnection, match=r"other\.db; .* live in .*shop\.db"):
            await caller.enqueue(shop.send, "ada")
        await caller.rollback()
    assert await shop.ids() == []


async def test_postgresql_is_not_sqlite(shop: Shop, postgres_url: str) -> None:
    words = r"live in SQLite, so it takes a sqlite3\.Connection"
    with psycopg.connect(postgres_url) as connection, pytest.raises(WrongConnection, match=words):
        shop.send.options(within=connection).enqueue_sync("ada")
    awaited = await asyncpg.connect(postgres_url)
    async with awaited.transaction():
        with pytest.raises(WrongConnection, match=words):
            await shop.send.options(within=awaited).enqueue("ada")
    await awaited.close()
    for wrong in ("default", shop.app):
        with pytest.raises(WrongConnection, match=f"{type(wrong).__qualname__}; .*{words}"):
            shop.send.options(within=wrong).enqueue_sync("ada")


async def test_a_blocking_connection_is_not_awaited(shop: Shop) -> None:
    with (
        closing(sqlite3.connect(path_of(shop.url))) as connection,
        pytest.raises(WrongConnection, match=r"enqueue_sync\(\)"),
    ):
        await shop.send.options(within=connection).enqueue("ada")
    async with aiosqlite.connect(path_of(shop.url)) as awaited:
        with pytest.raises(WrongConnection, match=r"use: await \.\.\.enqueue\(\)"):
            shop.send.options(within=awaited).enqueue_sync("ada")
    with pytest.raises(WrongConnection, match="closed"):
        await shop.send.options(within=awaited).enqueue("ada")


async def test_without_a_transaction_nothing_is_stored(shop: Shop) -> None:
    path = path_of(shop.url)
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(WrongConnection, match="BEGIN IMMEDIATE"),
    ):
        shop.send.options(within=connection).enqueue_sync("ada")
    async with aiosqlite.connect(path, isolation_level=None) as awaited:
        with pytest.raises(WrongConnection, match="BEGIN IMMEDIATE"):
            await shop.send.options(within=awaited).enqueue("ada")
    engine = sqlalchemy.create_engine(shop.url, isolation_level="AUTOCOMMIT")
    with orm.Session(engine) as session, pytest.raises(WrongConnection, match="AUTOCOMMIT"):
        shop.send.options(within=session).enqueue_sync("ada")
    engine.dispose()
    later = alchemy.create_async_engine(with_driver(shop.url, "aiosqlite"))
    async with later.connect() as over:
        loose = await over.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(WrongConnection, match=r"(?i)autocommit"):
            await shop.send.options(within=loose).enqueue("ada")
    await later.dispose()

    def view() -> None:
        with (
            django_connection(shop.url) as connection,
            pytest.raises(WrongConnection, match=r"transaction\.atomic\(\)"),
        ):
            shop.send.options(within=connection).enqueue_sync("ada")

    await on_a_thread(view)
    assert await shop.ids() == []


async def test_a_block_of_django_brings_its_jobs(shop: Shop) -> None:
    def view() -> Any:
        with django_connection(shop.url) as connection:
            with transaction.atomic():
                job = shop.send.options(within=connection).enqueue_sync("ada")
            with transaction.atomic():
                shop.send.options(within=connection).enqueue_sync("bob")
                transaction.set_rollback(True)
        return job

    job = await on_a_thread(view)
    assert await shop.ids() == [job.id]


async def test_sqlalchemy_may_begin_by_itself(shop: Shop) -> None:
    """As its own documentation advises for SQLite: BEGIN in an event, none by the driver."""
    engine = sqlalchemy.create_engine(shop.url)

    @event.listens_for(engine, "connect")
    def connect(driver: Any, _record: Any) -> None:
        driver.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.connect() as connection:
        job = shop.send.options(within=connection).enqueue_sync("ada")
        connection.commit()
        shop.send.options(within=connection).enqueue_sync("bob")
        connection.rollback()
    engine.dispose()
    assert await shop.ids() == [job.id]
