"""awa (awa-pg): a Rust core that calls Python handlers, on its queue-storage engine."""

# The peer lives in its own environment, out of sight of the type checker.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import awa
import psycopg

from bench import probe
from bench.adapter import database_url

QUEUE = "bench"
WORKERS = 1024
CLAIM_BATCH = 512
POOL = 20
POLL_MS = 200
DEADLINE_MS = 300_000
# One completion shard was the best of the settings tried on two cores.
os.environ.setdefault("AWA_COMPLETION_SHARDS", "1")


@dataclass
class Noop:
    number: int


async def install() -> None:
    """A fresh install, then what the first worker start would do: move to queue storage."""
    client = awa.Client(database_url())
    client.migrate()
    client.close()
    connection = await psycopg.AsyncConnection.connect(database_url(), autocommit=True)
    async with connection:
        await connection.execute("SELECT awa.storage_auto_finalize_if_fresh('awa')")


class Producer:
    async def open(self, callers: int, *, wake: bool) -> None:
        self.client = awa.AsyncClient(database_url(), max_connections=POOL)

    async def one(self, number: int) -> None:
        await self.client.insert(Noop(number), queue=QUEUE)

    async def many(self, numbers: Sequence[int]) -> None:
        await self.client.enqueue_many_copy([Noop(number) for number in numbers], queue=QUEUE)

    async def close(self) -> None:
        await self.client.close()


async def work() -> None:
    client = awa.AsyncClient(database_url(), max_connections=POOL)
    queue = awa.PartitionedQueue(QUEUE, 1)

    @client.task(Noop, queue=queue.physical_queues[0])
    async def noop(job: Any) -> None:
        probe.hit(job.args.number)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    configuration = queue.queue_configs(
        WORKERS, claimers=1, claim_batch_size=CLAIM_BATCH, deadline_duration_ms=DEADLINE_MS
    )
    await client.start(configuration, poll_interval_ms=POLL_MS)
    await stop.wait()
    await client.shutdown(timeout_ms=3000)
    await client.close()
