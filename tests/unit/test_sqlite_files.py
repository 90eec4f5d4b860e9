"""If these fail, a bad file or a full disk costs jobs, or an afternoon of guessing."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from detent import App
from detent.errors import SchemaMismatch, StoreError, StoreUnavailable
from detent.model.state import State
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import completion, new_job
from detent.testing.conformance.steps import claimed, held_many, joined, states_of

QUICK = timedelta(seconds=1)
Attempt = Callable[[Path], str]


def line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    return text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(path))
    yield store
    await store.close()


async def test_a_file_of_another_kind_is_left_alone(store: SqliteStore, path: Path) -> None:
    content = b"no database at all, but somebody's notes\n" * 100
    await asyncio.to_thread(path.write_bytes, content)
    with pytest.raises(StoreError, match=r"is not a SQLite database .*; give another file") as told:
        await store.open()
    assert str(path) in line(told.value)
    assert await asyncio.to_thread(path.read_bytes) == content


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "nowhere" / "jobs.db"))
    with pytest.raises(
        StoreError, match=r"there is no directory .*/nowhere; make it first"
    ) as told:
        await store.open()
    line(told.value)
    await store.close()


async def test_a_newer_schema_is_left_alone(store: SqliteStore, path: Path) -> None:
    await store.open()
    await store.enqueue_jobs([new_job()])
    await store.close()
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO detent_schema_version VALUES (999, 'future', 'x', 0)")
    other.close()
    before = await asyncio.to_thread(path.read_bytes)
    for use in (store.open(), store.enqueue_jobs([new_job()]), store.queues()):
        with pytest.raises(SchemaMismatch, match=r"version 999.*pip install --upgrade") as told:
            await use
        line(told.value)
    await store.close()
    assert await asyncio.to_thread(path.read_bytes) == before


async def test_a_damaged_file_is_called_damaged(store: SqliteStore, path: Path) -> None:
    await store.open()
    await store.enqueue_jobs([new_job() for _ in range(500)])
    await store.close()
    damage(path)
    with pytest.raises(StoreError, match=r"damaged .*\.recover") as told:
        await claimed(store, await joined(store))
    line(told.value)


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


async def test_a_locked_file_is_waited_for_and_then_told(store: SqliteStore, path: Path) -> None:
    await store.open()
    impatient = SqliteStore(str(path), timeout=QUICK)
    await impatient.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    job = new_job()
    with pytest.raises(StoreUnavailable, match=r"is locked: .*within=") as told:
        await impatient.enqueue_jobs([job])
    line(told.value)
    assert await impatient.queues() == [], "reads do not mind"
    other.execute("ROLLBACK")
    other.close()
    await impatient.close()
    assert await store.get_jobs([job.id]) == [], "an order that was given up is not carried out"
    await store.enqueue_jobs([job])
    assert await states_of(store, [job.id]) == [State.PENDING]


async def test_a_lock_that_comes_free_in_time_is_not_even_noticed(
    store: SqliteStore, path: Path
) -> None:
    await store.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(store.enqueue_jobs([new_job()]))
    await store.queues()
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting


async def test_a_full_disk_costs_nothing_that_was_there(store: SqliteStore) -> None:
    node, claims = await held_many(store, 20)
    await grow_no_more(store)
    big = [new_job(args=b"x" * 100_000) for _ in range(20)]
    with pytest.raises(StoreUnavailable, match=r"cannot grow .*; free some space") as told:
        await store.enqueue_jobs(big)
    line(told.value)
    assert await store.get_jobs([job.id for job in big]) == [], "all of a batch, or none"
    await grow_again(store)
    assert len(await store.finish_jobs(node, [completion(claim) for claim in claims])) == 20
    await store.enqueue_jobs(big)


async def test_of_many_at_once_only_those_fail_that_do_not_fit(store: SqliteStore) -> None:
    await store.open()
    await grow_no_more(store)
    small = [new_job() for _ in range(10)]
    big = new_job(args=b"x" * 1_000_000)
    answers = await asyncio.gather(
        *(store.enqueue_jobs([job]) for job in [*small[:5], big, *small[5:]]),
        return_exceptions=True,
    )
    assert answers[:5] + answers[6:] == [False] * 10, "they are stored; the commits wake no node"
    assert isinstance(answers[5], StoreUnavailable)
    assert await states_of(store, [job.id for job in small]) == [State.PENDING] * 10
    assert await store.get_jobs([big.id]) == []


async def test_a_caller_whose_job_does_not_fit_is_told_after_a_few_tries(
    store: SqliteStore,
) -> None:
    app = App(store=store)

    @app.task(name="send")
    async def send(text: str) -> None: ...

    await store.open()
    await grow_no_more(store)
    async with asyncio.timeout(30):
        with pytest.raises(StoreUnavailable, match=r"cannot grow .*; free some space"):
            await send.enqueue("x" * 1_000_000)
    await send.enqueue("small")


async def grow_no_more(store: SqliteStore) -> None:
    """Leave a little room: some 30 pages."""
    await store.database.write(
        lambda session: session.connection.execute(
            f"PRAGMA max_page_count = {session.value('PRAGMA page_count') + 30}"
        ).fetchone()
    )


async def grow_again(store: SqliteStore) -> None:
    await store.database.write(
        lambda session: session.connection.execute("PRAGMA max_page_count = 1000000").fetchone()
    )


# What a user may not do; root may do everything, so the attempt is made as nobody.

ATTEMPT = """
import asyncio, os, sys
from detent.errors import DetentError
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job

async def attempt(path):
    store = SqliteStore(path)
    try:
        await store.open()
        await store.enqueue_jobs([new_job()])
    except DetentError as error:
        return f"{type(error).__name__} {error}"
    finally:
        await store.close()
    return "it worked"

# Once as ourselves: what is imported and read on the way may be out of nobody's reach.
assert asyncio.run(attempt(sys.argv[1])) == "it worked"
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(asyncio.run(attempt(sys.argv[2])))
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[[Path], str]:
    """Open a file and write to it as a user without special rights; return what came of it."""

    def attempt(path: Path) -> str:
        command = [sys.executable, "-c", ATTEMPT, str(tmp_path / "own.db"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert len(done.stdout.splitlines()) == 1, done
        return done.stdout

    return attempt


def test_the_attempt_itself_works(public: Path, attempt: Attempt) -> None:
    assert attempt(public / "jobs.db") == "it worked\n"


def test_a_read_only_directory_is_named(public: Path, attempt: Attempt) -> None:
    public.chmod(0o555)
    told = attempt(public / "jobs.db")
    public.chmod(0o777)
    assert told.startswith("StoreUnavailable "), told
    assert f"{public}/jobs.db cannot be opened" in told
    assert f"must be able to write to {public}" in told
    assert list(public.iterdir()) == []


def test_a_read_only_file_is_named(public: Path, attempt: Attempt) -> None:
    path = public / "jobs.db"
    store = SqliteStore(str(path))

    async def make() -> None:
        await store.open()
        await store.close()

    asyncio.run(make())
    path.chmod(0o444)
    before = path.read_bytes()
    told = attempt(path)
    assert told.startswith("StoreUnavailable "), told
    assert f"{path} is read-only" in told
    assert path.read_bytes() == before
