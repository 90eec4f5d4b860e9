"""If these fail, what a task did and the end of its job come apart, or one task blocks the file."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextvars import Context
from pathlib import Path
from uuid import UUID

import pytest

from detent import App, JobContext, State
from detent.errors import StoreError
from detent.model.job import Claim
from detent.stores.sqlite import SqliteConnection, SqliteStore, visit
from detent.testing.conformance.builders import completion, new_job
from detent.testing.conformance.context import pending
from detent.testing.conformance.steps import Held, held, state_of


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    await store.database.write(
        lambda session: session.change(
            "CREATE TABLE effect (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"
        )
    )
    yield store
    await store.close()


async def names(store: SqliteStore) -> list[str]:
    rows = await store.database.read(
        lambda session: session.rows("SELECT name FROM effect ORDER BY id")
    )
    return [row["name"] for row in rows]


async def test_a_task_works_with_it_as_with_sqlite3(store: SqliteStore) -> None:
    node, claim = await held(store)
    async with store.transaction(node, claim, pending()) as connection:
        assert isinstance(connection, SqliteConnection)
        one = await connection.execute("INSERT INTO effect (name) VALUES (?)", ("one",))
        assert (one.rowcount, one.lastrowid) == (1, 1)
        many = await connection.executemany(
            "INSERT INTO effect (name) VALUES (:name)", [{"name": "two"}, {"name": "three"}]
        )
        assert many.rowcount == 2
        found = await connection.execute("SELECT id, name FROM effect WHERE id > ?", (1,))
        first = found.fetchone()
        assert first is not None
        assert (first["name"], first[0]) == ("two", 2)
        assert [tuple(row) for row in found] == [(3, "three")]
        assert found.fetchone() is None
        assert await names(store) == [], "nobody else sees it yet"
    assert await names(store) == ["one", "two", "three"]
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_an_error_of_a_statement_is_the_drivers_and_may_be_survived(
    store: SqliteStore,
) -> None:
    node, claim = await held(store)
    async with store.transaction(node, claim, pending()) as connection:
        await connection.execute("INSERT INTO effect (name) VALUES ('one')")
        with pytest.raises(sqlite3.IntegrityError):
            await connection.execute("INSERT INTO effect (name) VALUES ('one')")
        with pytest.raises(sqlite3.OperationalError):
            await connection.execute("SELECT nonsense")
        await connection.execute("SAVEPOINT mine")
        await connection.execute("INSERT INTO effect (name) VALUES ('two')")
        await connection.execute("ROLLBACK TO mine")
        await connection.execute("INSERT INTO effect (name) VALUES ('three')")
    assert await names(store) == ["one", "three"]


@pytest.mark.parametrize("word", ["COMMIT", "rollback", "  Begin", "END TRANSACTION"])
async def test_the_block_alone_ends_the_transaction(store: SqliteStore, word: str) -> None:
    node, claim = await held(store)
    async with store.transaction(node, claim, pending()) as connection:
        with pytest.raises(StoreError, match="begins and ends with its block"):
            await connection.execute(word)
        await connection.execute("INSERT INTO effect (name) VALUES ('one')")
    assert await names(store) == ["one"]


async def test_a_statement_that_undoes_everything_leaves_the_job_unfinished(
    store: SqliteStore,
) -> None:
    holding = await held(store)
    with pytest.raises(StoreError, match="ended by one of its statements"):
        await self_undone(store, holding)
    assert await names(store) == []
    assert await state_of(store, holding.claim.id) is State.RUNNING


async def self_undone(store: SqliteStore, holding: Held) -> None:
    async with store.transaction(*holding, pending()) as connection:
        await connection.execute("INSERT INTO effect (name) VALUES ('one')")
        with pytest.raises(sqlite3.IntegrityError):
            await connection.execute("INSERT OR ROLLBACK INTO effect (name) VALUES ('one')")


async def test_a_transaction_that_lasts_too_long_is_undone(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "LONGEST", 0.05)
    node, claim = await held(store)
    with pytest.raises(StoreError, match="held the file's only write lock"):
        await too_long(store, node, claim)
    assert await names(store) == []
    assert await store.finish_jobs(node, [completion(claim)]) == [claim.id], "still ours to end"


async def too_long(store: SqliteStore, node: UUID, claim: Claim) -> None:
    async with store.transaction(node, claim, pending()) as connection:
        await connection.execute("INSERT INTO effect (name) VALUES ('one')")
        # Others get to write as soon as it has been ended: a task of its own, which holds nothing.
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: asyncio.run(write_elsewhere(store.database.path))
        )
        with pytest.raises(StoreError, match="do what is slow before the block"):
            await connection.execute("INSERT INTO effect (name) VALUES ('two')")


async def write_elsewhere(path: str) -> None:
    other = SqliteStore(path)
    await other.enqueue_jobs([new_job("elsewhere")])
    await other.close()


async def test_a_task_that_is_canceled_while_it_waits_to_enter_holds_nothing(
    store: SqliteStore,
) -> None:
    one, two = await held(store), await held(store, new_job("mail"))
    async with store.transaction(*one, pending()):
        # Not one that this task has begun: that would be told so at once.
        entering = asyncio.create_task(enter(store, two), context=Context())
        await store.queues()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
    await store.enqueue_jobs([new_job()])
    assert await state_of(store, two.claim.id) is State.RUNNING


async def enter(store: SqliteStore, holding: Held) -> None:
    async with store.transaction(*holding, pending()):
        pytest.fail("the other transaction is still open")


async def test_what_a_task_leaves_on_its_connection_is_not_ours(store: SqliteStore) -> None:
    """A temporary table hides one of ours, on the connection of tasks only."""
    node, claim = await held(store)
    async with store.transaction(node, claim, pending()) as connection:
        await connection.execute("CREATE TEMP TABLE detent_queue (name TEXT)")
    await store.pause_queue("mail")
    assert [queue.paused for queue in await store.queues()] == [True]


async def test_what_its_tables_declare_holds_for_a_task(store: SqliteStore) -> None:
    await store.database.write(
        lambda session: session.change("CREATE TABLE part (of INTEGER REFERENCES effect (id))")
    )
    node, claim = await held(store)
    async with store.transaction(node, claim, pending()) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
            await connection.execute("INSERT INTO part VALUES (99)")


async def test_tasks_use_it_through_their_context(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def follow(number: int) -> int:
        return number

    @app.task
    async def pay(ctx: JobContext, fail: bool) -> str:
        async with ctx.transaction() as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS paid (job BLOB)")
            await connection.execute("INSERT INTO paid VALUES (?)", (ctx.job_id.bytes,))
            await follow.options(within=connection).enqueue(7)
            ctx.set_result("paid")
            if fail:
                raise ValueError("after all not")
        return "too late to matter"

    async with app, app.node():
        job = await pay.enqueue(False)
        assert await job.result(timeout=10) == "paid"
        (following,) = await app.jobs.list(task=follow.name)
        assert await app.jobs.result(following.id, timeout=10) == 7
        store = app.store
        assert isinstance(store, SqliteStore)
        paid = await store.database.read(lambda session: session.rows("SELECT job FROM paid"))
        assert [row[0] for row in paid] == [job.id.bytes]
