"""Detent through its public API only: the same calls a user would write."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench import probe
from bench.adapter import database_url
from detent import App

SLOTS = 1000
app = App(database_url())


@app.task(name="bench.noop")
async def noop(number: int) -> None:
    probe.hit(number)


@app.task(name="bench.hold")
async def hold(number: int) -> None:
    """Runs until its node stops; a thousand of these show what a running job weighs."""
    probe.hit(number)
    await asyncio.Event().wait()


@app.task(name="bench.gpu", needs="gpu")
async def gpu(number: int) -> None:
    """Never runs here: a hundred thousand of these stand in front of what does."""
    probe.hit(number)


app.limit("bench", concurrency=100_000)


@app.task(name="bench.limited", resource="bench")
async def limited(number: int) -> None:
    """Under a limit that never binds."""
    probe.hit(number)


KEYS = int(os.environ.get("BENCH_KEYS", "1"))


@app.task(
    name="bench.keyed",
    concurrency=100_000,
    concurrency_key=lambda number, **_: str(number % KEYS),
    ordered=False,
)
async def keyed(number: int) -> None:
    """Under a limit for each key that never binds."""
    probe.hit(number)


# Some sections fill the store with jobs that stay.
task = {"hold": hold, "gpu": gpu, "limited": limited, "keyed": keyed}.get(
    os.environ.get("BENCH_TASK", ""), noop
)
QUEUES = int(os.environ.get("BENCH_QUEUES", "1"))
NEEDS = int(os.environ.get("BENCH_NEEDS", "0"))
WAITERS = int(os.environ.get("BENCH_WAITERS", "0"))


def turn_of(number: int) -> Any:
    """Return the task, with the queue and the needs whose turn it is."""
    if QUEUES > 1 and number % QUEUES:
        return task.options(queue=f"q{number % QUEUES}")
    if NEEDS and number % (NEEDS + 1):
        return task.options(needs=f"c{number % (NEEDS + 1) - 1}")
    return task


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "detent", *arguments]


async def install() -> None:
    argv = command("migrate", "--url", database_url())
    await asyncio.to_thread(subprocess.run, argv, check=True, stdout=subprocess.DEVNULL)


class Producer:
    async def open(self, callers: int, *, wake: bool) -> None:
        await app.__aenter__()
        self.waits: list[asyncio.Task[Any]] = []
        if WAITERS:
            # No node serves this queue: these wait to the end.
            call = hold.options(queue="unserved")
            jobs = await app.enqueue_many([call.bind(number) for number in range(WAITERS)])
            self.waits = [asyncio.ensure_future(job.result()) for job in jobs]
            await asyncio.sleep(2)

    async def one(self, number: int) -> None:
        await turn_of(number).enqueue(number)

    async def many(self, numbers: Sequence[int]) -> None:
        await app.enqueue_many([turn_of(number).bind(number) for number in numbers])

    async def close(self) -> None:
        for wait in self.waits:
            wait.cancel()
        await asyncio.gather(*self.waits, return_exceptions=True)
        await app.__aexit__(None, None, None)


async def work() -> None:
    raise NotImplementedError("a Detent node is started by its command line")
