"""If these fail, a job comes without its caller's commit, or his own statements suffer."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from detent import App, KeyTaken
from detent.errors import SchemaMismatch, StoreUnavailable, WrongConnection
from detent.model.job import Keys
from detent.model.state import State
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job, prepared, unique
from detent.testing.conformance.steps import held, joined, state_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(path))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def connection(store: SqliteStore, path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


def orders(path: Path) -> int:
    other = sqlite3.connect(path)
    try:
        count: int = other.execute("SELECT count(*) FROM orders").fetchone()[0]
        return count
    finally:
        other.close()


async def test_with_connection_commits_both(
    store: SqliteStore, connection: sqlite3.Connection, path: Path
) -> None:
    before, after = new_job(), new_job()
    with connection:
        # Nothing has begun yet: it does with the first write, be it his or ours.
        store.enqueue_within_sync(connection, [before], None)
        connection.execute("INSERT INTO orders VALUES (1)")
        store.enqueue_within_sync(connection, [after], None)
        assert orders(path) == 0
        assert await store.get_jobs([before.id, after.id]) == []
    assert orders(path) == 1
    assert len(await store.get_jobs([before.id, after.id])) == 2


async def test_an_exception_undoes_both(
    store: SqliteStore, connection: sqlite3.Connection, path: Path
) -> None:
    job = new_job()
    with pytest.raises(ZeroDivisionError), connection:  # noqa: PT012  the error has to come last
        connection.execute("INSERT INTO orders VALUES (1)")
        store.enqueue_within_sync(connection, [job], None)
        raise ZeroDivisionError
    assert orders(path) == 0
    assert await store.get_jobs([job.id]) == []


async def test_in_autocommit_mode_he_has_to_begin(store: SqliteStore, path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    job = new_job()
    with pytest.raises(WrongConnection, match="BEGIN IMMEDIATE"):
        store.enqueue_within_sync(connection, [job], None)
    assert await store.get_jobs([job.id]) == []
    connection.execute("BEGIN")
    store.enqueue_within_sync(connection, [job], None)
    connection.execute("COMMIT")
    assert await state_of(store, job.id) is State.PENDING
    connection.close()


async def test_what_he_set_on_his_connection_is_for_his_own_statements(
    store: SqliteStore, path: Path
) -> None:
    sqlite3.register_converter("BLOB", lambda data: "converted")
    sqlite3.register_converter("INTEGER", lambda data: "converted")
    try:
        connection = sqlite3.connect(
            path, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES
        )
        connection.row_factory = lambda cursor, row: {"only": "this"}
        connection.text_factory = lambda data: 1 / 0
        connection.execute("PRAGMA recursive_triggers = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        holder = await held(store, keys=unique("user-1"))
        new, third = new_job(tags=["größe"]), new_job()
        with connection:
            for each in (new, third):
                keys = unique("user-1", "replace")
                (placed,) = store.enqueue_within_sync(connection, [prepared(each, keys)], keys)
                assert placed.created
            many = [new_job(), new_job(tags=["vip"])]
            store.enqueue_within_sync(connection, many, None)
        assert connection.execute("SELECT 1").fetchone() == {"only": "this"}, "and stays as it was"
        connection.close()
    finally:
        sqlite3.converters.pop("BLOB")
        sqlite3.converters.pop("INTEGER")
    states = [await state_of(store, job.id) for job in (new, third, *many)]
    assert states == [State.CANCELED, State.WAITING, State.PENDING, State.PENDING]
    assert await state_of(store, holder.claim.id) is State.RUNNING


async def test_a_taken_key_leaves_his_transaction_as_it_was(
    store: SqliteStore, connection: sqlite3.Connection, path: Path
) -> None:
    keys = unique("user-1")
    first, second = new_job(), new_job()
    await store.enqueue_keyed(prepared(first, keys), keys)
    with connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        (placed,) = store.enqueue_within_sync(connection, [prepared(second, keys)], keys)
        assert (placed.id, placed.taken_key) == (first.id, "user-1")
        connection.execute("INSERT INTO orders VALUES (2)")
    assert orders(path) == 2
    assert await store.get_jobs([second.id]) == []


async def test_another_file_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    for name, words in ((str(tmp_path / "other.db"), "other.db"), (":memory:", "in memory")):
        other = sqlite3.connect(name)
        with pytest.raises(WrongConnection, match=f"{words}.*live in .*jobs.db"):
            store.enqueue_within_sync(other, [new_job()], None)
        other.close()


async def test_the_same_file_by_another_name_is_accepted(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    connection = sqlite3.connect(link)
    job = new_job()
    with connection:
        store.enqueue_within_sync(connection, [job], None)
    connection.close()
    assert await state_of(store, job.id) is State.PENDING


async def test_a_blocking_connection_is_not_awaited(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    with pytest.raises(WrongConnection, match=r"use enqueue_sync\(\)"):
        await store.enqueue_within(connection, [new_job()], None)


@pytest.mark.parametrize("given", [None, "jobs.db", object()], ids=["none", "text", "object"])
async def test_what_is_no_connection_is_called_by_its_name(store: SqliteStore, given: Any) -> None:
    with pytest.raises(WrongConnection, match=type(given).__name__):
        store.enqueue_within_sync(given, [new_job()], None)
    with pytest.raises(WrongConnection, match=r"a sqlite3\.Connection to"):
        await store.enqueue_within(given, [new_job()], None)


async def test_a_closed_connection_and_one_of_another_thread_are_refused(
    store: SqliteStore, connection: sqlite3.Connection, path: Path
) -> None:
    closed = sqlite3.connect(path)
    closed.close()
    with pytest.raises(WrongConnection, match="closed"):
        store.enqueue_within_sync(closed, [new_job()], None)
    told: list[Exception] = []

    def elsewhere() -> None:
        try:
            store.enqueue_within_sync(connection, [new_job()], None)
        except WrongConnection as error:
            told.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "thread" in str(told[0])


async def test_a_transaction_that_has_read_too_early_says_so(
    store: SqliteStore, path: Path
) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM detent_job").fetchone()
    await store.enqueue_jobs([new_job()])
    for keys in (None, Keys(idempotency="order-1")):
        with pytest.raises(WrongConnection, match=r"roll it back, and open it with: .*IMMEDIATE"):
            store.enqueue_within_sync(connection, [new_job()], keys)
    connection.execute("ROLLBACK")
    connection.close()


async def test_a_lock_that_somebody_else_holds_is_told(
    store: SqliteStore, connection: sqlite3.Connection, path: Path
) -> None:
    impatient = sqlite3.connect(path, timeout=0)
    with connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(StoreUnavailable, match="is locked"):
            store.enqueue_within_sync(impatient, [new_job()], None)
    impatient.close()


async def test_a_file_without_our_tables_says_what_to_run(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "my jobs.db"))
    connection = sqlite3.connect(tmp_path / "my jobs.db")
    connection.execute("CREATE TABLE orders (number INTEGER)")
    url = f"sqlite:///{tmp_path}/my%20jobs.db"
    with pytest.raises(SchemaMismatch, match=f"run: detent migrate --url {url}$"):
        store.enqueue_within_sync(connection, [new_job()], None)
    connection.close()


async def test_nodes_hear_of_it_with_his_commit(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    count = "SELECT count(*) FROM detent_wake"
    before = await store.database.read(lambda session: session.value(count))
    with connection:
        store.enqueue_within_sync(connection, [new_job(), new_job(), new_job("mail")], None)
        assert await store.database.read(lambda session: session.value(count)) == before
    assert await store.database.read(lambda session: session.value(count)) == before + 1


def test_blocking_programs_use_it_through_their_app(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def send(to: str) -> None: ...

    send.enqueue_sync("nobody")  # makes the file
    connection = sqlite3.connect(tmp_path / "jobs.db")
    with connection:
        job = send.options(within=connection, unique="ada").enqueue_sync("ada")
    with pytest.raises(KeyTaken), connection:
        send.options(within=connection, unique="ada").enqueue_sync("ada")
    rows = connection.execute("SELECT id FROM detent_jobs ORDER BY enqueued_at").fetchall()
    assert [row[0] for row in rows][1:] == [str(job.id)]
    connection.close()


async def test_nothing_to_enqueue_begins_nothing(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    assert store.enqueue_within_sync(connection, [], None) == []
    assert not connection.in_transaction
    await joined(store)
