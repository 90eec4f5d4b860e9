"""What the nodes of the trial run: jobs with effects, one daemon, and holders of one lock."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from detent import DaemonContext, JobContext
from detent.errors import LockLost, StoreError
from detent.events import JobDied, JobSucceeded, JobWasCanceled
from tests.chaos.tasks import BEGIN, END, FOLDER, app, note

LEFT: Final = "left"
"""Noted by limited and long jobs at their very end, however they end."""
PERMITS: Final = 5
PULSE: Final = 0.02
# A holder is believed for two thirds of this time: a failover of some seconds costs no lock, the
# loss of a host does.
TTL: Final = 9.0
HELD: Final = 3.0

app.limit("five", concurrency=PERMITS)


@app.task(name="limited", resource="five")
async def limited(ctx: JobContext, seconds: float) -> None:
    """Begin, take a while, end; never more than five at once."""
    await _work(ctx, seconds)


@app.task(name="long")
async def long(ctx: JobContext, seconds: float) -> None:
    """Begin, take a while, end; never on two nodes at once."""
    await _work(ctx, seconds)


async def _work(ctx: JobContext, seconds: float) -> None:
    note(BEGIN, ctx)
    try:
        await asyncio.sleep(seconds)
        note(END, ctx)
    finally:
        note(LEFT, ctx)


@app.listener(JobSucceeded, JobDied, JobWasCanceled)
def tell(event: JobSucceeded | JobDied | JobWasCanceled) -> None:
    """Write down that the end of a job was accepted: once for each job, in the whole trial."""
    with _file("told").open("a") as file:
        file.write(f"{event.job_id}\n")


@app.daemon(name="lonely")
async def lonely(ctx: DaemonContext) -> None:
    """Write down without end that it runs, and in which term."""
    run = uuid4()
    with _file("daemon").open("a", buffering=1) as file:
        while not ctx.should_stop:
            file.write(f"{run} {time.time()} {ctx.term}\n")
            await asyncio.sleep(PULSE)


@app.on_ready
def begin_to_lock() -> None:
    """Let this node compete for the lock; the event loop ends the task with the process."""
    begin_to_lock.task = asyncio.create_task(_lock_on())  # type: ignore[attr-defined]


@app.on_drain
async def lock_no_more() -> None:
    """Let this node compete no more."""
    task: asyncio.Task[None] = begin_to_lock.task  # type: ignore[attr-defined]
    task.cancel()
    await asyncio.wait([task])


async def _lock_on() -> None:
    """Hold the lock for a while, again and again, and write down as long as it is not lost."""
    with _file("lock").open("a", buffering=1) as file:
        while True:
            with suppress(StoreError, LockLost):
                async with app.lock("lonely", ttl=TTL) as lock:
                    run, ends_at = uuid4(), time.monotonic() + HELD
                    while not lock.lost.is_set() and time.monotonic() < ends_at:
                        file.write(f"{run} {time.time()} {lock.fence}\n")
                        await asyncio.sleep(PULSE)
            await asyncio.sleep(PULSE)


def _file(kind: str) -> Path:
    return Path(os.environ[FOLDER]) / f"{os.getpid()}.{kind}"
