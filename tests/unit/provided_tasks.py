"""Tasks of child processes that depend on something; the children import this module too."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

from detent import App, Depends, JobContext, Retry
from detent.stores.memory import MemoryNotifier, MemoryStore

app = App(store=MemoryStore(), notifier=MemoryNotifier())
app.pool("one", kind="process", size=1)
ONCE = Retry(max_attempts=1)


def note(word: str) -> None:
    """Write down what happened in this process."""
    path = os.environ.get("DETENT_TEST_NOTES")
    if path is not None:
        with Path(path).open("a") as file:
            file.write(f"{word} {os.getpid()}\n")


async def pool() -> AsyncIterator[asyncio.AbstractEventLoop]:
    note("+pool")
    yield asyncio.get_running_loop()
    note("-pool")


def session(
    ctx: JobContext, pool: asyncio.AbstractEventLoop = Depends(pool, scope="node")
) -> Iterator[str]:
    note("+session")
    yield f"session {ctx.attempt} {JobContext.current().job_id == ctx.job_id}"
    note("-session")


@app.task(executor="one")
async def on_its_loop(
    pool: asyncio.AbstractEventLoop = Depends(pool, scope="node"),
    session: str = Depends(session),
) -> list[object]:
    return [pool is asyncio.get_running_loop(), session, os.getpid()]


@app.task(executor="one", retry=ONCE)
def blocking(fails: bool, session: str = Depends(session)) -> list[object]:
    if fails:
        raise ValueError(f"failed with {session}")
    return [session, os.getpid()]


async def lenient() -> AsyncIterator[str]:
    with suppress(ValueError):
        yield "session"


@app.task(executor="one", retry=ONCE)
async def not_forgiven(session: str = Depends(lenient)) -> None:
    raise ValueError("bad on the loop")


@app.task(executor="one", retry=ONCE)
def not_forgiven_either(session: str = Depends(lenient)) -> None:
    raise ValueError("bad without one")


class Counter:
    def __init__(self, pool: asyncio.AbstractEventLoop = Depends(pool, scope="node")) -> None:
        self.count = 0

    @app.task(executor="one")
    def add(self, number: int) -> int:
        self.count += number
        return self.count
