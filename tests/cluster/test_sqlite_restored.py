"""If these fail, a SQLite file that was restored from a backup gives fences a second time."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from detent.model.numbers import EPOCH
from detent.spi.leadership import Bid, Candidate, Term
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_id, new_job
from detent.testing.conformance.steps import claimed, enqueued, joined

HOUR: Final = timedelta(hours=1)
Restore = Callable[[Path, Path], None]


def copy_over(backup: Path, path: Path) -> None:
    """As `cp backup jobs.db` does: the same file, with other contents."""
    shutil.copyfile(backup, path)


def put_in_place(backup: Path, path: Path) -> None:
    """As `mv`, `rsync` and `tar` do: another file of the same name."""
    fresh = path.with_suffix(".fresh")
    shutil.copyfile(backup, fresh)
    fresh.replace(path)


def lose_the_mark_too(backup: Path, path: Path) -> None:
    """On another machine there is nothing but the file."""
    path.with_name(path.name + "-seen").unlink()
    put_in_place(backup, path)


async def numbers(store: SqliteStore) -> tuple[int, ...]:
    """Draw a number of each kind."""
    await enqueued(store, new_job())
    (claim,) = await claimed(store, await joined(store), limit=1)
    lock = await store.acquire_lock(f"lock {new_id()}", new_id(), "host", HOUR)
    assert lock.fence is not None
    candidate = Candidate(new_id(), "host")
    (leader,) = await store.elect(candidate, [Bid("mine")], HOUR)
    await store.resign(candidate.id, [Term("mine", leader.term, candidate.id)])
    return claim.fence, lock.fence, leader.term


def above(given: tuple[int, ...], seen: tuple[int, ...]) -> bool:
    return all(now > before for now, before in zip(given, seen, strict=True))


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(str(path))
    await store.open()
    return store


def drop_logs(path: Path) -> None:
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


@pytest.mark.parametrize("restore", [copy_over, put_in_place, lose_the_mark_too])
async def test_a_file_that_was_restored_gives_higher_numbers(
    tmp_path: Path, restore: Restore
) -> None:
    path, backup = tmp_path / "jobs.db", tmp_path / "backup.db"
    store = await opened(path)
    await numbers(store)
    await store.close()
    await asyncio.to_thread(shutil.copyfile, path, backup)
    store = await opened(path)
    await numbers(store)
    seen = await numbers(store)
    await store.close()
    assert max(seen) < EPOCH, "they are small while nothing has happened"
    await asyncio.to_thread(restore, backup, path)
    store = await opened(path)
    given = await numbers(store)
    assert above(given, seen)
    await store.close()
    store = await opened(path)
    assert above(await numbers(store), given)
    assert max(await numbers(store)) < 2 * EPOCH, "they were raised once"
    await store.close()


async def test_a_file_that_stays_in_its_place_keeps_its_numbers_small(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    seen: tuple[int, ...] = (0, 0, 0)
    for _ in range(3):
        store, other = await opened(path), await opened(path)
        for each in (store, other):
            given = await numbers(each)
            assert above(given, seen)
            seen = given
        await store.close()
        await other.close()
    assert max(seen) < EPOCH


NODE: Final = """
import asyncio, sys
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job
from detent.testing.conformance.steps import claimed, enqueued, joined
from datetime import timedelta

async def main():
    store = SqliteStore(sys.argv[1])
    node = await joined(store)
    for _ in range(50):
        await enqueued(store, new_job())
        (claim,) = await claimed(store, node, limit=1)
    await store.beat(node, timedelta(hours=1))
    print(claim.fence, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_killed_node_has_told_with_its_heartbeat_how_far_numbers_had_come(
    tmp_path: Path,
) -> None:
    """The likeliest story: a machine fails, and last night's copy is put back."""
    path, backup = tmp_path / "jobs.db", tmp_path / "backup.db"
    store = await opened(path)
    await numbers(store)
    await store.close()
    await asyncio.to_thread(shutil.copyfile, path, backup)
    node = await asyncio.create_subprocess_exec(
        sys.executable, "-c", NODE, str(path), stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    assert node.stdout is not None
    fence = int(await asyncio.wait_for(node.stdout.readline(), 60))
    node.send_signal(signal.SIGKILL)
    await node.wait()
    await asyncio.to_thread(drop_logs, path)
    await asyncio.to_thread(copy_over, backup, path)
    store = await opened(path)
    assert (await numbers(store))[0] > max(fence, EPOCH)
    await store.close()
