"""If these fail, writers wait for each other, harm each other, or are told of what is not there."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from detent.errors import ConstraintViolated, StoreError
from detent.model.job import JobFilter
from detent.stores.sqlite import SqliteStore, writer
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.orders import AfterCommit
from detent.stores.sqlite.session import Session
from detent.testing.conformance.builders import new_job
from detent.testing.conformance.steps import joined


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(str(tmp_path / "jobs.db"))
    await database.write(
        lambda session: session.change("CREATE TABLE effect (n INTEGER PRIMARY KEY)")
    )
    yield database
    await database.close()


class Gate:
    """Keeps the writing thread busy until it is opened, so that others gather behind it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self, session: Session) -> None:
        self.reached.set()
        assert self._opened.wait(10)

    def open(self) -> None:
        self._opened.set()


async def gathered(database: Database, *orders: Any) -> list[Any]:
    """Let orders gather while the thread is busy; return what came of each."""
    gate = Gate()
    first = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.reached.wait, 10)
    waiting = [asyncio.create_task(database.write(order)) for order in orders]
    await asyncio.sleep(0)
    gate.open()
    await first
    return await asyncio.gather(*waiting, return_exceptions=True)


def insert(number: int) -> Any:
    return lambda session: session.change("INSERT INTO effect VALUES (?)", number)


async def numbers(database: Database) -> list[int]:
    rows = await database.read(lambda session: session.rows("SELECT n FROM effect ORDER BY n"))
    return [row[0] for row in rows]


async def test_those_who_wait_together_share_a_transaction(database: Database) -> None:
    seen: list[int] = []

    def work(session: Session) -> None:
        # Sees what others of the same transaction have written, which nobody else can.
        seen.append(session.value("SELECT count(*) FROM effect"))
        session.change("INSERT INTO effect (n) VALUES (NULL)")

    traced = await statements(database)
    await gathered(database, *[work] * 20)
    assert seen == list(range(20))
    # That of the trace itself, the gate's, and one for all of them.
    assert traced.count("COMMIT") == 3


async def statements(database: Database) -> list[str]:
    """Return a list that grows with every statement of the writing connection."""
    seen: list[str] = []
    await database.write(lambda session: session.connection.set_trace_callback(seen.append))
    return seen


async def test_a_bad_one_harms_nobody_else(database: Database) -> None:
    def half(session: Session) -> None:
        session.change("INSERT INTO effect VALUES (100)")
        session.change("INSERT INTO effect VALUES (1)")

    def broken(session: Session) -> None:
        session.change("INSERT INTO effect VALUES (200)")
        raise ZeroDivisionError

    answers = await gathered(database, insert(1), half, insert(2), broken, insert(3))
    assert answers[::2] == [1, 1, 1]
    assert isinstance(answers[1], ConstraintViolated)
    assert isinstance(answers[1].__cause__, sqlite3.IntegrityError)
    assert isinstance(answers[3], ZeroDivisionError), "a bug of ours is not dressed up"
    assert await numbers(database) == [1, 2, 3], "nothing of the bad ones is left"


async def test_when_everything_is_undone_the_innocent_start_again(database: Database) -> None:
    def ends_it_all(session: Session) -> None:
        session.change("INSERT INTO effect VALUES (100)")
        session.connection.execute("ROLLBACK")
        raise StoreError("the disk was full")

    answers = await gathered(database, insert(1), insert(2), ends_it_all, insert(3))
    assert [answers[n] for n in (0, 1, 3)] == [1, 1, 1]
    assert isinstance(answers[2], StoreError)
    assert await numbers(database) == [1, 2, 3]


async def test_nobody_is_answered_before_it_is_durable(database: Database) -> None:
    """Whoever is told looks from outside, and finds it there."""
    other = sqlite3.connect(database.path)

    async def write(number: int) -> None:
        await database.write(insert(number))
        assert other.execute("SELECT 1 FROM effect WHERE n = ?", (number,)).fetchone() is not None

    await asyncio.gather(*(write(number) for number in range(50)))
    other.close()


async def test_every_commit_waits_for_the_disk(database: Database) -> None:
    full = 2
    for _ in range(3):
        assert await database.write(lambda session: session.value("PRAGMA synchronous")) == full
        # Wake-ups are written without; nothing of that may be left behind.
        database.announce([])
        await database.announced()
    assert await database.write(lambda session: session.value("PRAGMA journal_mode")) == "wal"


async def test_an_answer_can_be_read_after_the_commit(database: Database) -> None:
    def work(session: Session) -> AfterCommit:
        session.change("INSERT INTO effect VALUES (7)")
        assert session.connection.in_transaction
        return AfterCommit(lambda session: (session.connection.in_transaction, 7))

    assert await database.write(work) == (False, 7)


async def test_an_answer_without_a_lock_does_not_wait_for_one(database: Database) -> None:
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await database.write(insert(1), first=lambda session: 42) == 42
    other.execute("COMMIT")
    other.close()
    assert await numbers(database) == []
    assert await database.write(insert(1), first=lambda session: None) == 1


async def test_an_order_whose_caller_went_away_is_not_begun(database: Database) -> None:
    gate = Gate()
    first = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.reached.wait, 10)
    unwanted = asyncio.create_task(database.write(insert(1)))
    wanted = asyncio.create_task(database.write(insert(2)))
    await asyncio.sleep(0)
    unwanted.cancel()
    gate.open()
    await asyncio.gather(first, wanted)
    assert await numbers(database) == [2]


async def test_a_heartbeat_goes_before_all_that_waits(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    node = await joined(store)
    order: list[str] = []
    gate = Gate()
    first = asyncio.create_task(store.database.write(gate))
    await asyncio.to_thread(gate.reached.wait, 10)

    async def enqueue() -> None:
        await store.enqueue_jobs([new_job() for _ in range(100)])
        order.append("jobs")

    async def beat() -> None:
        assert (await store.beat(node, timedelta(seconds=15))).alive
        order.append("beat")

    many = [asyncio.create_task(enqueue()) for _ in range(50)]
    await asyncio.sleep(0)
    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(first, beating, *many)
    assert order[0] == "beat"
    assert len(order) == 51
    await store.close()


async def test_a_batch_ends_when_it_has_taken_long_enough(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a stream of small writes would keep other processes out for good."""
    # Our own clock: on a busy machine, each of them may take as long as a whole batch may.
    now = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now, sleep=time.sleep)
    monkeypatch.setattr(writer, "time", clock)

    def slow(session: Session) -> None:
        nonlocal now
        session.change("INSERT INTO effect (n) VALUES (NULL)")
        now += writer.BUDGET * 0.3

    traced = await statements(database)
    await gathered(database, *[slow] * 20)
    assert traced.count("COMMIT") == 2 + 5, "four of them in each, and two orders before"


async def test_reads_wait_neither_for_writes_nor_for_each_other(database: Database) -> None:
    gate = Gate()
    writing = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.reached.wait, 10)
    slow = Gate()
    reading = asyncio.create_task(database.read(slow))
    await asyncio.to_thread(slow.reached.wait, 10)
    assert await numbers(database) == []
    slow.open()
    gate.open()
    await asyncio.gather(writing, reading)


async def test_a_read_sees_one_moment(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    await store.enqueue_jobs([new_job() for _ in range(3)])
    here, go_on = threading.Event(), threading.Event()

    def counts(session: Session) -> tuple[int, int]:
        first = session.value("SELECT count(*) FROM detent_job")
        here.set()
        assert go_on.wait(10)
        return first, session.value("SELECT count(*) FROM detent_job")

    reading = asyncio.create_task(store.database.read(counts))
    await asyncio.to_thread(here.wait, 10)
    await store.enqueue_jobs([new_job()])
    go_on.set()
    assert await reading == (3, 3)
    assert len(await store.list_jobs(JobFilter(), 10)) == 4
    await store.close()
