"""If these fail, jobs of many keys that a transaction brought wait for the next look at lanes."""

import asyncio
import time
from dataclasses import replace
from typing import Final

import asyncpg
import pytest

from detent import App
from detent.config import Config
from tests.within.conftest import NEVER

JOBS: Final = 100
# Looks come every 4 s at the earliest.
SOON: Final = 3.0


@pytest.mark.parametrize("keys", [JOBS, 70, 3, 1])
async def test_a_commit_of_many_jobs_with_keys_wakes_an_idle_node(
    postgres_url: str, keys: int
) -> None:
    begun = asyncio.Queue[float]()
    config = replace(Config.load(postgres_url), polling=NEVER)
    connection = await asyncpg.connect(postgres_url)
    async with App(config=config) as app:

        @app.task(name="work", concurrency=1, concurrency_key=lambda key: key)
        async def work(key: int) -> None:
            begun.put_nowait(time.monotonic())

        async with app.node():
            await (await work.enqueue(0)).result(timeout=30)
            await begun.get()
            # Twice: what was known of the family is forgotten when it is empty.
            for _ in range(2):
                async with connection.transaction():
                    calls = [work.bind(number % keys) for number in range(JOBS)]
                    jobs = await app.enqueue_many(calls, within=connection)
                committed = time.monotonic()
                first = await asyncio.wait_for(begun.get(), 30)
                assert first - committed < SOON
                for job in jobs:
                    await job.result(timeout=60)
                while not begun.empty():
                    begun.get_nowait()
    await connection.close()
