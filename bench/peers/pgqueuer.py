"""pgqueuer on one asyncpg connection, large batches: the fastest peer, so the one to beat."""

# The peer lives in its own environment, out of sight of the type checker.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench import probe
from bench.adapter import database_url

BATCH = 1000


async def install() -> None:
    connection = await asyncpg.connect(database_url())
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


class Producer:
    async def open(self, callers: int, *, wake: bool) -> None:
        self.pool = await asyncpg.create_pool(database_url(), min_size=10, max_size=20)
        self.queries = Queries(AsyncpgPoolDriver(self.pool))

    async def one(self, number: int) -> None:
        await self.queries.enqueue("noop", str(number).encode(), 0)

    async def many(self, numbers: Sequence[int]) -> None:
        payloads = [str(number).encode() for number in numbers]
        await self.queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))

    async def close(self) -> None:
        await self.pool.close()


async def work() -> None:
    connection = await asyncpg.connect(database_url())
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def noop(job: Any) -> None:
        probe.hit(int(job.payload))

    await queue.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=5))
