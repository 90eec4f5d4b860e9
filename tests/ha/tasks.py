"""What the nodes of the trial run: jobs with effects, some of them limited, and one daemon."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from detent import DaemonContext, JobContext
from tests.chaos.tasks import BEGIN, END, FOLDER, Effect, app, note

LEFT: Final = "left"
"""Noted by a limited job at its very end, however it ends."""
PERMITS: Final = 5
PULSE: Final = 0.02

app.limit("five", concurrency=PERMITS)


@app.task(name="limited", resource="five")
async def limited(ctx: JobContext, seconds: float) -> None:
    """Begin, take a while, end; never more than five at once."""
    note(BEGIN, ctx)
    try:
        await asyncio.sleep(seconds)
        note(END, ctx)
    finally:
        note(LEFT, ctx)


@app.daemon(name="lonely")
async def lonely(ctx: DaemonContext) -> None:
    """Write down without end that it runs."""
    run = uuid4()
    with (Path(os.environ[FOLDER]) / f"{os.getpid()}.daemon").open("a", buffering=1) as file:
        while not ctx.should_stop:
            file.write(f"{run} {time.time()}\n")
            await asyncio.sleep(PULSE)


class Stretch(NamedTuple):
    """One run of the daemon, from its first to its last sign of life."""

    began: float
    ended: float
    pid: int


def stretches(folder: Path) -> list[Stretch]:
    """Return all runs of the daemon, in order of time."""
    found = []
    for path in folder.glob("*.daemon"):
        runs: dict[str, list[float]] = {}
        for line in path.read_text().splitlines():
            run, _, at = line.partition(" ")
            runs.setdefault(run, []).append(float(at))
        found += [Stretch(min(at), max(at), int(path.stem)) for at in runs.values()]
    return sorted(found)


def overlaps(found: Sequence[Stretch]) -> list[str]:
    """Return when the daemon ran on two nodes at once."""
    return [
        f"for {min(one.ended, other.ended) - other.began:.2f} s (processes {one.pid}, {other.pid})"
        for number, one in enumerate(found)
        for other in found[number + 1 :]
        if other.began < one.ended and other.pid != one.pid
    ]


def most_at_once(effects: Sequence[Effect], jobs: set[UUID]) -> int:
    """Return how many of these jobs ran at the same time, at most."""
    most = running = 0
    for effect in effects:
        if effect.job in jobs and effect.what in (BEGIN, LEFT):
            running += 1 if effect.what == BEGIN else -1
            most = max(most, running)
    return most
