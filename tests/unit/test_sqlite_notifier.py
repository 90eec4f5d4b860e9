"""If these fail, a job waits for a poll although a node could have been told of it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from detent.spi.notifier import Heard, Hint, LeaderHint, LockHint, SignalHint, Wake
from detent.stores.sqlite import SqliteStore, poller
from detent.stores.sqlite.wakes import MOST, News, decode, encode
from detent.testing.conformance.builders import new_id, new_job

MOMENT = datetime(2030, 1, 1, 12, 0, 0, 123457, tzinfo=UTC)
PATIENCE = 10.0


class Ears:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.looks = 0
        self._changed = asyncio.Event()

    def __call__(self, wakes: Sequence[Heard]) -> None:
        self.heard += wakes
        self.looks += not wakes
        self._changed.set()

    async def until(self, *wanted: Heard, looks: int = 0) -> None:
        async with asyncio.timeout(PATIENCE):
            while not set(wanted) <= set(self.heard) or self.looks < looks:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def listening(store: SqliteStore) -> AsyncIterator[Ears]:
    ears = Ears()
    listener = asyncio.create_task(store.notifier.listen(ears))
    await ears.until(looks=1)
    try:
        yield ears
    finally:
        listener.cancel()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    yield store
    await store.close()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """What another process would have: a store of its own on the same file."""
    store = SqliteStore(str(tmp_path / "jobs.db"))
    yield store
    await store.close()


ALL: list[Wake] = [
    Hint("mail"),
    Hint("mail+gpu", 3),
    Hint("größe", 2, MOMENT, new_id()),
    SignalHint(new_id()),
    LeaderHint("scheduler"),
    LockHint("nightly"),
]


def test_what_is_written_can_be_read_again() -> None:
    assert decode(encode(ALL)) == ALL
    assert decode(encode([Hint(f"lane-{number}") for number in range(MOST + 1)])) == []


@pytest.mark.parametrize("payload", ["", "null", "7", "{", '[["x"]]', '[[1,2],["a"]]', "[[]]"])
def test_what_cannot_be_read_is_left_out(payload: str) -> None:
    assert decode(payload) == []


def test_of_positions_in_one_lane_the_lowest_is_told() -> None:
    first, second = sorted([new_id(), new_id()])
    news = News()
    news.add([Hint("mail", 2, MOMENT, second), Hint("mail"), Hint("mail", 2, MOMENT, first)])
    news.add([Hint("mail"), Hint("mail", 3, MOMENT, second)])
    assert news.take() == [
        Hint("mail", 2, MOMENT, first),
        Hint("mail"),
        Hint("mail", 3, MOMENT, second),
    ]
    assert not news


async def test_listeners_of_this_process_are_told_at_once(store: SqliteStore) -> None:
    async with listening(store) as one, listening(store) as two:
        store.notifier.publish(ALL)
        await asyncio.gather(one.until(*ALL), two.until(*ALL))
        await store.notifier.flush()
        await store.enqueue_jobs([new_job()])
        assert len(one.heard) == len(ALL), "and only once"


async def test_listeners_of_other_processes_are_told(
    store: SqliteStore, other: SqliteStore
) -> None:
    async with listening(store) as ears:
        other.notifier.publish(ALL[:3])
        await ears.until(*ALL[:3])
        other.notifier.publish(ALL[3:])
        await ears.until(*ALL)


async def test_wake_ups_wait_for_nobody_and_nobody_for_them(
    store: SqliteStore, other: SqliteStore, tmp_path: Path
) -> None:
    async with listening(store) as ears:
        holder = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        for number in range(100):
            other.notifier.publish([Hint(f"lane-{number}")])
        holder.execute("COMMIT")
        holder.close()
        await ears.until(*(Hint(f"lane-{number}") for number in range(100)))


async def test_what_somebody_else_wrote_is_looked_for(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody with the sqlite3 shell, or a producer that was killed before it could tell."""
    monkeypatch.setattr(poller, "LOOK", 0.05)
    async with listening(store) as ears:
        shell = sqlite3.connect(tmp_path / "jobs.db")
        with shell:
            shell.execute("UPDATE detent_ready SET due_at = 0")
        shell.close()
        with sqlite3.connect(tmp_path / "jobs.db") as shell:
            shell.execute("INSERT INTO detent_queue (name) VALUES ('mail')")
        shell.close()
        await ears.until(looks=2)


async def test_who_missed_something_looks_for_himself(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "LOOK", 1000.0)
    async with listening(store) as ears:
        shell = sqlite3.connect(tmp_path / "jobs.db")
        with shell:
            shell.executemany("INSERT INTO detent_wake (payload) VALUES (?)", [("[]",)] * 5)
            shell.execute("DELETE FROM detent_wake WHERE number < 4")
        shell.close()
        await ears.until(looks=2)


async def test_the_table_of_wake_ups_stays_small(store: SqliteStore) -> None:
    for number in range(300):
        store.notifier.publish([SignalHint(UUID(int=number))])
        await store.notifier.flush()
    kept = await store.database.read(
        lambda session: session.value("SELECT count(*) FROM detent_wake")
    )
    assert 250 < kept <= 256


async def test_a_file_that_cannot_be_written_does_not_stop_a_publisher(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "nowhere" / "jobs.db"))
    store.notifier.publish([Hint("mail")])
    await store.notifier.flush()
    await store.close()
