"""If these fail, a lock on the file that no process can pass kills all jobs that run."""

import asyncio
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from detent import App
from detent.config import Config
from detent.events import NodeDied, NodeFenced

LEASE = timedelta(seconds=3)
PATIENCE = 60.0


async def test_a_locked_file_is_not_silence(tmp_path: Path) -> None:
    """Nobody can renew a lease meanwhile, and nobody can end one."""
    path = tmp_path / "jobs.db"
    config = Config.load(f"sqlite:///{path}", environ={})
    cluster = replace(config.cluster, lease=LEASE, heartbeat_interval=LEASE / 3)
    apps = [App(config=replace(config, cluster=cluster)) for _ in range(2)]
    trouble: list[object] = []
    begun, goes_on = asyncio.Semaphore(0), asyncio.Event()
    ran: list[int] = []
    for app in apps:
        app.bus.subscribe(NodeFenced, trouble.append)
        app.bus.subscribe(NodeDied, trouble.append)

        @app.task(name="work")
        async def work(number: int) -> int:
            ran.append(number)
            begun.release()
            await goes_on.wait()
            return number

    async with (
        asyncio.timeout(PATIENCE),
        apps[0],
        apps[1],
        apps[0].node(concurrency=1),
        apps[1].node(concurrency=1),
    ):
        task = apps[0].tasks.find("work")
        assert task is not None
        jobs = [await task.enqueue(number) for number in range(2)]
        for _ in jobs:
            await begun.acquire()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(2 * LEASE.total_seconds())
        other.execute("ROLLBACK")
        other.close()
        # Long enough for a node that was to be declared dead.
        await asyncio.sleep(2 * LEASE.total_seconds())
        assert not trouble
        goes_on.set()
        assert [await job.result() for job in jobs] == [0, 1]
        assert sorted(ran) == [0, 1]
