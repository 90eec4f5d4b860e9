"""If these fail, two files of the same version differ, or an interrupted migration breaks one."""

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest

import detent.stores.sqlite
from detent.errors import SchemaMismatch
from detent.model.job import Keys, Placed
from detent.stores.sqlite import SqliteStore, migrations
from detent.stores.sqlite.migrations import known_migrations, migrate, migration_sql, pending
from detent.testing.conformance.builders import new_job

LABELS = [step.label for step in known_migrations()]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


def execute(path: str, script: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()


def catalogue(path: str, *without: str) -> dict[str, str]:
    """Everything that was made, as it was made, but for spaces and comments."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    found = {name: plain(text) for name, text in rows if name not in without}
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        if table == "detent_fence":
            found["rows of it"] = str(connection.execute("SELECT * FROM detent_fence").fetchall())
    connection.close()
    return found


def plain(text: str) -> str:
    lines = [line.partition("--")[0] for line in text.splitlines()]
    # A column that was added later is written behind a space and a comma.
    return re.sub(r" ([,)])", r"\1", " ".join(" ".join(lines).split()))


def test_schema_sql_is_the_migrations_composed(path: str, tmp_path: Path) -> None:
    migrate(path)
    clean = str(tmp_path / "clean.db")
    text = files(detent.stores.sqlite).joinpath("schema.sql").read_text(encoding="utf-8")
    execute(clean, text)
    assert catalogue(clean) == catalogue(path, "detent_schema_version")
    assert len(catalogue(clean)) > 20, "a comparison that sees nothing finds everything equal"


def test_other_tools_can_run_the_migrations(path: str, tmp_path: Path) -> None:
    migrate(path)
    by_hand = str(tmp_path / "by_hand.db")
    execute(by_hand, migration_sql())
    assert catalogue(by_hand) == catalogue(path)
    assert migrate(by_hand) == []
    assert pending(by_hand) == []


def test_looking_at_what_is_pending_makes_no_file(path: str) -> None:
    assert pending(path) == LABELS
    assert not Path(path).exists()


def test_migrating_again_changes_nothing(path: str) -> None:
    assert migrate(path) == LABELS
    before = Path(path).read_bytes()
    assert migrate(path) == []
    assert Path(path).read_bytes() == before


def test_somebody_elses_tables_stay_as_they_are(path: str) -> None:
    execute(path, "CREATE TABLE orders (n); INSERT INTO orders VALUES (1); PRAGMA user_version = 7")
    migrate(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT n FROM orders").fetchall() == [(1,)]
    assert connection.execute("PRAGMA user_version").fetchall() == [(7,)]
    connection.close()


def test_several_processes_may_open_a_new_file_at_once(path: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from detent.stores.sqlite import SqliteStore\n"
        "from detent.testing.conformance.builders import new_job\n"
        "async def main():\n"
        "    store = SqliteStore(sys.argv[1])\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    await store.enqueue_jobs([new_job()])\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    connection = sqlite3.connect(path)
    steps = connection.execute("SELECT count(*) FROM detent_schema_version").fetchone()
    jobs = connection.execute("SELECT count(*) FROM detent_job").fetchone()
    connection.close()
    assert (steps, jobs) == ((len(LABELS),), (6,))


def test_one_killed_half_way_is_run_again(path: str) -> None:
    program = (
        "import os, signal, sys\n"
        "from detent.stores.sqlite import migrations\n"
        "statements = migrations._statements\n"
        "def some(script):\n"
        "    for number, statement in enumerate(statements(script)):\n"
        "        if number == 9:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        yield statement\n"
        "migrations._statements = some\n"
        "migrations.migrate(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert pending(path) == LABELS, "nothing half done"
    assert migrate(path) == LABELS


def test_who_cannot_wait_for_the_lock_any_longer_says_so(path: str) -> None:
    migrate(path)
    execute(path, "DELETE FROM detent_schema_version")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    before = time.monotonic()
    with pytest.raises(Exception, match="is locked"):
        migrate(path, patience=0.1)
    assert time.monotonic() - before < 5
    holder.execute("ROLLBACK")
    holder.close()


@pytest.mark.parametrize(
    "change, words",
    [
        ("UPDATE detent_schema_version SET checksum = 'another'", "is not the one in this package"),
        ("INSERT INTO detent_schema_version VALUES (999, 'x', 'y', 0)", "version 999.*upgrade"),
    ],
)
async def test_a_file_of_another_history_is_refused(path: str, change: str, words: str) -> None:
    migrate(path)
    execute(path, change)
    for refused in (migrate, pending):
        with pytest.raises(SchemaMismatch, match=words):
            refused(path)
    store = SqliteStore(path)
    with pytest.raises(SchemaMismatch, match=words):
        await store.open()
    await store.close()


async def test_people_with_the_shell_can_read_the_jobs(path: str) -> None:
    store = SqliteStore(path)
    job = new_job("mail", args=b'["ada"]', tags=["vip"])
    await store.enqueue_jobs([job])
    await store.close()
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    (row,) = connection.execute("SELECT * FROM detent_jobs").fetchall()
    connection.close()
    assert (row["id"], row["state"], row["queue"]) == (str(job.id), "pending", "mail")
    assert (row["args"], row["tags"]) == ('["ada"]', '["vip"]')
    assert row["enqueued_at"].startswith(time.strftime("%Y-", time.gmtime()))


async def test_the_file_is_asked_again_after_it_was_closed(path: str) -> None:
    """A file that was replaced between two uses has to be looked at anew."""
    store = SqliteStore(path)
    await store.open()
    await store.close()
    await asyncio.to_thread(Path(path).unlink)
    await store.enqueue_jobs([new_job()])
    await store.close()


async def test_keys_that_were_there_belong_to_the_tasks_of_their_jobs(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = known_migrations()
    before = [step.name for step in steps].index("scoped_keys")
    monkeypatch.setattr(migrations, "known_migrations", lambda: steps[:before])
    migrate(path)
    job = new_job(task="shop.mail")
    later = (time.time_ns() // 1_000) + 3_600_000_000
    execute(
        path,
        f"""
        INSERT INTO detent_job
            (id, task, queue, lane, priority, due_at, enqueued_at, args, codec, idempotency_key)
        VALUES (x'{job.id.hex}', 'shop.mail', 'default', 'default', 2, 1, 1, x'31', 'json', '42');
        INSERT INTO detent_key (kind, key, job, expires_at)
        VALUES ('idempotency', '42', x'{job.id.hex}', {later});
        """,
    )
    monkeypatch.undo()
    migrate(path)
    store = SqliteStore(path)
    try:
        again = await store.enqueue_keyed(new_job(task="shop.mail"), Keys(idempotency="42"))
        assert again == Placed(job.id, created=False)
        assert (await store.enqueue_keyed(new_job(task="shop.other"), Keys("42"))).created
    finally:
        await store.close()
