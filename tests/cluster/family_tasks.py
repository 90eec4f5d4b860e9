"""A task of which one job of each key runs at a time; it traces when it begins and when it ends."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from detent import App

app = App()


class Step(NamedTuple):
    """A beginning or an end of one job."""

    pid: int
    key: int
    number: int
    begins: bool


def write(trace: str, *step: int) -> None:
    """Add one line, whole, whoever else writes."""
    file = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (" ".join(map(str, step)) + "\n").encode())
    finally:
        os.close(file)


def steps(trace: Path) -> Iterator[Step]:
    """Return all steps in the order in which they were taken."""
    for line in trace.read_text().splitlines():
        pid, key, number, begins = map(int, line.split())
        yield Step(pid, key, number, bool(begins))


@app.task(name="turn", concurrency=1, concurrency_key=lambda key, **_: key)
async def turn(key: int, number: int, trace: str) -> None:
    """Take one's turn."""
    write(trace, os.getpid(), key, number, 1)
    await asyncio.sleep(0.002)
    write(trace, os.getpid(), key, number, 0)
