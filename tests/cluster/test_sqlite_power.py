"""If these fail, a loss of power takes jobs away whose enqueue was answered.

A program enqueues and writes down what was answered. At random moments it is stopped, wherever it
is in its work, and the files are copied as a machine without power would leave them: the database
and its log, not the shared memory. Nobody else writes, so the copies are of one moment.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import completion
from detent.testing.conformance.steps import claimed, joined

CRASHES: Final = 25
PATIENCE: Final = 30.0

# One line for each answer, in one write: the ids, and how long the log was then.
PRODUCER: Final = """
import asyncio, os, sys
from pathlib import Path
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job, unique, prepared

path, answers = sys.argv[1:]
log = Path(path + "-wal")
out = os.open(answers, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(*jobs):
    ids = " ".join(str(job.id) for job in jobs)
    os.write(out, f"{log.stat().st_size} {ids}\\n".encode())

async def produce(store, number):
    while True:
        kind = number % 3
        if kind == 0:
            jobs = [new_job(args=os.urandom(200)) for _ in range(50)]
            await store.enqueue_jobs(jobs)
        elif kind == 1:
            jobs = [new_job(args=os.urandom(5000))]
            await store.enqueue_jobs(jobs)
        else:
            keys = unique(os.urandom(8).hex())
            jobs = [prepared(new_job(), keys)]
            assert (await store.enqueue_keyed(jobs[0], keys)).created
        note(*jobs)

async def main():
    store = SqliteStore(path)
    await asyncio.gather(*(produce(store, number) for number in range(6)))

asyncio.run(main())
"""


class Producer:
    """A program that enqueues, and can be stopped at any moment."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.db"
        self._answers = folder / "answers"
        command = [sys.executable, "-c", PRODUCER, str(self.path), str(self._answers)]
        self._process = subprocess.Popen(command)

    def answered(self) -> list[tuple[int, list[UUID]]]:
        """What was answered until now, each with the length of the log at that time."""
        if not self._answers.exists():
            return []
        # The last line may be on its way: a write is not seen all at once.
        whole = self._answers.read_text().rpartition("\n")[0]
        lines = [line.split() for line in whole.splitlines()]
        return [(int(size), [UUID(text) for text in ids]) for size, *ids in lines]

    def run_until(self, count: int) -> None:
        ends_at = time.monotonic() + PATIENCE
        while len(self.answered()) < count:
            assert time.monotonic() < ends_at, "the producer produces nothing"
            assert self._process.poll() is None, "the producer has ended"
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop it wherever it is, and wait until it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def producer(tmp_path: Path) -> Iterator[Producer]:
    producer = Producer(tmp_path)
    yield producer
    producer.end()


def copied(producer: Producer, folder: Path) -> Path:
    """Copy what would be on the disk."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{producer.path}{suffix}", folder / f"jobs.db{suffix}")
    return folder / "jobs.db"


def stored(path: Path) -> set[UUID]:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        jobs = {UUID(bytes=row[0]) for row in connection.execute("SELECT id FROM detent_job")}
        ready = {UUID(bytes=row[0]) for row in connection.execute("SELECT id FROM detent_ready")}
        assert jobs == ready, "a job is there with its place in the queue, or not at all"
        return jobs
    finally:
        connection.close()


@pytest.fixture
def chance() -> random.Random:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  shown when the test fails
    return random.Random(seed)


def test_what_was_answered_survives_at_any_moment(
    producer: Producer, tmp_path: Path, chance: random.Random
) -> None:
    producer.run_until(20)
    sizes = []
    for number in range(CRASHES):
        time.sleep(chance.uniform(0.005, 0.15))
        producer.stop()
        answered = {job for _, jobs in producer.answered() for job in jobs}
        image = copied(producer, tmp_path / f"crash-{number}")
        found = stored(image)
        assert answered <= found, f"{len(answered - found)} of {len(answered)} are lost"
        sizes.append(len(answered))
        shutil.rmtree(image.parent)
        producer.go_on()
    assert sizes[-1] > sizes[0], "it went on producing meanwhile"
    assert producer.path.stat().st_size > 1 << 20, "the log was written back now and then"


def test_whatever_follows_the_last_answer_on_the_disk_may_be_torn(
    producer: Producer, tmp_path: Path, chance: random.Random
) -> None:
    """What was not waited for may be there in part, or as garbage, or not at all."""
    producer.run_until(20)
    producer.stop()
    answered = producer.answered()
    safe = max(size for size, _ in answered)
    wanted = {job for _, jobs in answered for job in jobs}
    for number, tear in enumerate((cut, garble)):
        image = copied(producer, tmp_path / f"torn-{number}")
        tear(Path(f"{image}-wal"), safe, chance)
        assert wanted <= stored(image)
    producer.go_on()


def cut(log: Path, safe: int, chance: random.Random) -> None:
    with log.open("r+b") as file:
        file.truncate(chance.randint(safe, log.stat().st_size))


def garble(log: Path, safe: int, chance: random.Random) -> None:
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.seek(chance.randint(safe, size))
        file.write(chance.randbytes(max(size - file.tell(), 0) + 8192))


async def test_work_goes_on_from_such_a_copy(
    producer: Producer, tmp_path: Path, chance: random.Random
) -> None:
    producer.run_until(30)
    time.sleep(chance.uniform(0.0, 0.2))  # noqa: ASYNC251  nothing else runs here
    producer.stop()
    answered = {job for _, jobs in producer.answered() for job in jobs}
    store = SqliteStore(str(copied(producer, tmp_path / "crash")))
    node = await joined(store)
    done = set()
    while claims := await claimed(store, node, limit=1000):
        plain = [claim for claim in claims if not claim.hooks]
        await store.finish_jobs(node, [completion(claim) for claim in plain])
        done |= {claim.id for claim in claims}
    await store.close()
    assert answered <= done
    producer.go_on()
