"""oban-py, the Python sibling of Elixir's Oban; a high queue limit was its best."""

# The peer lives in its own environment, out of sight of the type checker.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
from oban import Oban, job
from oban.schema import install_sql

from bench import probe
from bench.adapter import database_url

LIMIT = 1000
POOL = 20


@job(queue="default")
async def noop(number: int) -> None:
    probe.hit(number)


async def install() -> None:
    connection = await psycopg.AsyncConnection.connect(database_url(), autocommit=True)
    async with connection:
        await connection.execute(install_sql())


class Producer:
    async def open(self, callers: int, *, wake: bool) -> None:
        self.pool = await Oban.create_pool(database_url(), min_size=4, max_size=POOL)
        self.oban = Oban(pool=self.pool)
        await self.oban.start()

    async def one(self, number: int) -> None:
        await self.oban.enqueue(noop.new(number))

    async def many(self, numbers: Sequence[int]) -> None:
        await self.oban.enqueue_many([noop.new(number) for number in numbers])

    async def close(self) -> None:
        await self.oban.stop()
        await self.pool.close()


async def work() -> None:
    pool = await Oban.create_pool(database_url(), min_size=4, max_size=POOL)
    async with Oban(pool=pool, queues={"default": LIMIT}):
        await asyncio.Event().wait()
