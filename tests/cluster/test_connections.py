"""If these fail, a node takes more connections than it says, or never lets them go."""

import asyncio

import asyncpg
import pytest

from detent import App
from detent.config import Config, StoreConfig
from detent.stores.postgres import pool

SIZE = 4
# For the heartbeat, to listen, to lead.
BESIDE = 3
SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


async def test_a_node_has_as_many_connections_as_it_says(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE", 0.3)
    app = App(config=Config(store=StoreConfig(url=postgres_url, pool_size=SIZE)))

    @app.task(name="shop.look")
    async def look(number: int) -> None:
        await app.jobs.list(limit=1)

    most = 0
    watcher = await asyncpg.connect(postgres_url)
    async with app, app.node(concurrency=50):
        jobs = await app.enqueue_many([look.bind(number) for number in range(300)])
        working = asyncio.gather(*(job.result(timeout=60) for job in jobs))
        while not working.done():
            most = max(most, await watcher.fetchval(SESSIONS))
        await working
        assert SIZE < most <= SIZE + BESIDE
        async with asyncio.timeout(30):
            # One for statements stays; a poll may need it at any time.
            while await watcher.fetchval(SESSIONS) > 1 + BESIDE:
                await watcher.execute("SELECT pg_sleep(0.05)")
    await watcher.close()
