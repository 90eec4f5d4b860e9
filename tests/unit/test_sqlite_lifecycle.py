"""If these fail, scripts, servers that fork, and programs with several loops lose jobs or hang."""

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from detent import App
from detent.notifiers.wire import decode
from detent.spi.notifier import Hint, token_of
from detent.stores.sqlite import SqliteStore, connection
from detent.testing.conformance.builders import new_job
from detent.testing.conformance.steps import joined


def count(path: Path) -> int:
    other = sqlite3.connect(path)
    try:
        found: int = other.execute("SELECT count(*) FROM detent_job").fetchone()[0]
        return found
    finally:
        other.close()


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "sqlite" in thread.name]


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    SqliteStore(str(tmp_path / "jobs.db"))
    assert files_in(tmp_path) == []
    assert threads() == []


def test_one_loop_after_the_other(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))

    async def enqueue(*, close: bool) -> None:
        await store.enqueue_jobs([new_job()])
        if close:
            await store.close()

    for close in (True, False, False, True):
        asyncio.run(enqueue(close=close))
    assert count(tmp_path / "jobs.db") == 4
    assert threads() == [], "loops that are gone keep nothing open"


def test_the_last_loop_to_close_gives_everything_back(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))

    async def elsewhere() -> None:
        await joined(store)
        await store.close()

    async def main() -> None:
        await store.enqueue_jobs([new_job()])
        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
        assert threads(), "a heartbeat's loop that closes does not close ours"
        await store.enqueue_jobs([new_job()])
        await store.close()
        assert threads() == []
        await store.close()

    asyncio.run(main())
    # Who leaves last writes the log back, and takes it away.
    assert files_in(tmp_path) == ["jobs.db", "jobs.db-seen"]


def test_a_store_that_nobody_closes_ends_its_threads(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    asyncio.run(store.open())
    (thread,) = [each for each in threading.enumerate() if each.name == "detent-sqlite"]
    del store
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_script_that_ends_at_once_has_told_the_nodes(tmp_path: Path) -> None:
    script = (
        "from detent import App\n"
        f"app = App('sqlite:///{tmp_path}/jobs.db')\n"
        "@app.task(name='send')\n"
        "def send() -> None: ...\n"
        "print(send.enqueue_sync().id)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    other = sqlite3.connect(tmp_path / "jobs.db")
    wakes = [decode(payload) for (payload,) in other.execute("SELECT payload FROM detent_wake")]
    other.close()
    assert count(tmp_path / "jobs.db") == 1
    assert wakes == [[Hint("default", token=token_of(UUID(done.stdout.strip())))]]


def in_child(work: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  nothing may escape into the parent's stack
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_shares_nothing(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="send")
    def send() -> None: ...

    def enqueue() -> None:
        for _ in range(5):
            send.enqueue_sync()

    def children() -> None:
        enqueue()
        in_child(enqueue)

    enqueue()
    for _ in range(3):
        in_child(children)
        enqueue()
    assert count(tmp_path / "jobs.db") == 5 + 3 * (5 + 5 + 5)
    other = sqlite3.connect(tmp_path / "jobs.db")
    assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    other.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
async def test_a_fork_beside_a_running_loop_disturbs_neither(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    jobs = [new_job() for _ in range(1000)]
    writing = asyncio.create_task(store.enqueue_jobs(jobs))
    await asyncio.sleep(0)

    def child() -> None:
        done: list[bool] = []
        # A thread of its own: the child still believes to be inside the parent's loop.
        thread = threading.Thread(
            target=lambda: done.append(asyncio.run(store.enqueue_jobs([new_job()])))
        )
        thread.start()
        thread.join()
        gc.collect()
        assert done == [False]

    await asyncio.to_thread(in_child, child)
    await writing
    await store.enqueue_jobs([new_job()])
    await store.close()
    assert count(tmp_path / "jobs.db") == 1002


async def test_an_old_sqlite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST", (99, 1, 0))
    store = SqliteStore(str(tmp_path / "jobs.db"))
    with pytest.raises(Exception, match=r"99\.1\.0 or later is needed; use another Python"):
        await store.open()
    await store.close()
    assert files_in(tmp_path) == []
