"""What the tests of `within=` share: an app, its task, and the caller's own table."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from detent import App, Task
from detent.config import PollingConfig
from detent.model.job import JobInfo

HOUR = timedelta(hours=1)
#: For nodes that only a wake-up can make look.
NEVER = PollingConfig(burst=HOUR, burst_polls=0, minimum=HOUR, maximum=HOUR, deep_idle=HOUR)
ORDERS = "CREATE TABLE orders (note text PRIMARY KEY)"


@dataclass
class Shop:
    """A program whose orders and jobs live in one database."""

    url: str
    app: App
    send: Task[..., Any]
    ask: Callable[..., Awaitable[Any]]
    """Looks into the database from outside of every transaction."""

    async def orders(self) -> list[str]:
        return [row[0] for row in await self.ask("SELECT note FROM orders ORDER BY note")]

    async def jobs(self) -> list[JobInfo]:
        return sorted(await self.app.jobs.list(), key=lambda info: info.id)

    async def ids(self) -> list[Any]:
        return [info.id for info in await self.jobs()]


def declare(app: App) -> Task[..., Any]:
    async def send(to: str, body: Any = None) -> str:
        return to

    task: Task[..., Any] = app.task(name="send")(send)
    return task


@pytest.fixture
async def shop(postgres_url: str) -> AsyncIterator[Shop]:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(ORDERS)
    async with App(postgres_url) as app:
        yield Shop(postgres_url, app, declare(app), connection.fetch)
    await connection.close()


@asynccontextmanager
async def lite_shop(path: Path) -> AsyncIterator[Shop]:
    """The same on SQLite."""

    async def ask(sql: str) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(sql).fetchall()

    url = f"sqlite:///{path}"
    async with App(url) as app:
        await ask(ORDERS)
        yield Shop(url, app, declare(app), ask)


@pytest.fixture
async def woken(shop: Shop) -> AsyncIterator[asyncio.Queue[Any]]:
    """What a node would be told."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    notifier = shop.app.node_parts(shop.app.config).notifier
    assert notifier is not None

    def receive(wakes: Sequence[Any]) -> None:
        for wake in wakes or ["listening"]:
            queue.put_nowait(wake)

    task = asyncio.create_task(notifier.listen(receive))
    assert await asyncio.wait_for(queue.get(), 10) == "listening"
    yield queue
    task.cancel()
    await asyncio.wait([task])


async def on_a_thread(work: Callable[[], Any]) -> Any:
    """Run blocking code as a web server does: on a thread without an event loop."""
    return await asyncio.to_thread(work)
