"""If this fails, callers that replace one another's jobs see each other's races, or two jobs run.

24 callers of two apps replace the holders of 4 keys, every third in a transaction of its own,
while a node runs what is left.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Final
from uuid import UUID

import asyncpg

from detent import App, JobContext
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected, states, until_all_ended

CALLERS: Final = 24
KEYS: Final = 4
EACH: Final = 20


class Replacing:
    """An app with one task, and what its runs were seen to do."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = App(url)
        self.running: Counter[str] = Counter()
        self.side_by_side: list[str] = []

        @self.app.task(name="hold")
        async def hold(ctx: JobContext, key: str) -> None:
            self.running[key] += 1
            if self.running[key] > 1:
                self.side_by_side.append(key)
            try:
                await asyncio.sleep(0.005)
            finally:
                self.running[key] -= 1

        self.hold = hold

    async def call(self, number: int) -> list[UUID]:
        """Replace the holders of all keys in turn."""
        ids = []
        for turn in range(EACH):
            key = f"key-{(number + turn) % KEYS}"
            task = self.hold.options(unique=key, on_conflict="replace")
            ids.append((await task.enqueue(key)).id)
        return ids

    async def call_within(self, number: int) -> list[UUID]:
        """Do the same, each in a transaction of the caller's."""
        ids = []
        connection = await asyncpg.connect(self.url)
        try:
            for turn in range(EACH):
                key = f"key-{(number + turn) % KEYS}"
                async with connection.transaction():
                    task = self.hold.options(unique=key, on_conflict="replace", within=connection)
                    ids.append((await task.enqueue(key)).id)
        finally:
            await connection.close()
        return ids


async def test_many_callers_replace_without_seeing_each_other(
    postgres_server: TemporaryPostgres, postgres_url: str
) -> None:
    log = ServerLog(postgres_server)
    apps = [Replacing(postgres_url), Replacing(postgres_url)]
    async with AsyncExitStack() as stack:
        for each in apps:
            await stack.enter_async_context(each.app)
        await stack.enter_async_context(apps[0].app.node(queues={"default": 20}))
        connection = await stack.enter_async_context(connected(postgres_url))
        calls = [
            (apps[number % 2].call_within if number % 3 == 0 else apps[number % 2].call)(number)
            for number in range(CALLERS)
        ]
        ids = [job for called in await asyncio.gather(*calls) for job in called]
        assert len(dict.fromkeys(ids)) == CALLERS * EACH
        await until_all_ended(connection)
        assert await connection.fetchval("SELECT count(*) FROM detent.detent_key") == 0
        ended = await states(connection)
    assert ended["succeeded"] >= KEYS
    assert sum(ended.values()) == CALLERS * EACH
    assert apps[0].side_by_side == []
    assert "deadlock" not in log.text()
