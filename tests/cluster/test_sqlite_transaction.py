"""If these fail, `ctx.transaction()` on a file has an effect twice, or half of one.

The node imports this module for its tasks.
"""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from detent import App, JobContext, State
from detent.stores.sqlite import SqliteStore
from detent.stores.sqlite.finish import Settling
from tests.cluster.database import until
from tests.cluster.processes import ROOT, NodeProcess

NOTHING_YET: Final = ["before entering", "after the lock", "after the effect", "before the commit"]
ALL_DONE: Final = ["after the block"]

app = App()


@app.task(name="pay")
async def pay(ctx: JobContext, step: str, killed: str) -> None:
    """Have an effect exactly once, and be killed at some step of it, the first time."""

    def kill(now: str) -> None:
        if now == step and not Path(killed).exists():
            Path(killed).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    trap(lambda: kill("before the commit"))
    kill("before entering")
    async with ctx.transaction() as connection:
        kill("after the lock")
        await connection.execute("INSERT INTO effect VALUES (?)", (ctx.job_id.bytes,))
        kill("after the effect")
        ctx.set_result("paid")
    kill("after the block")


def trap(spring: Any) -> None:
    """Spring when everything is written, on the thread that writes, and nothing is committed."""
    write = Settling.write_hooked

    def trapped(self: Settling, session: Any) -> Any:
        written = write(self, session)
        spring()
        return written

    Settling.write_hooked = trapped  # type: ignore[method-assign]


@app.task(name="spin")
async def spin(seconds: float) -> None:
    """Block the event loop: pure Python, without a pause."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass


@pytest.fixture
def nodes() -> Iterator[list[NodeProcess]]:
    started: list[NodeProcess] = []
    yield started
    for node in started:
        node.close()
        print(node.said()[-5000:])  # noqa: T201  for whoever looks


def node_on(path: Path, **environ: str) -> NodeProcess:
    name = "tests.cluster.test_sqlite_transaction:app"
    return NodeProcess(name, f"sqlite:///{path}", cwd=ROOT, **environ)


def count_effects(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        count: int = connection.execute("SELECT count(*) FROM effect").fetchone()[0]
        return count
    finally:
        connection.close()


@pytest.mark.parametrize("step", NOTHING_YET + ALL_DONE)
async def test_effect_and_completion_come_together_or_not_at_all(
    tmp_path: Path, nodes: list[NodeProcess], step: str
) -> None:
    path = tmp_path / "jobs.db"
    mine = App(f"sqlite:///{path}")
    task = mine.task(name="pay")(pay.function)
    async with mine:
        store = mine.store
        assert isinstance(store, SqliteStore)
        await store.database.write(lambda session: session.change("CREATE TABLE effect (job BLOB)"))
        job = await task.enqueue(step, str(tmp_path / "killed"))
        nodes.append(node_on(path))
        assert await asyncio.to_thread(nodes[0].ended) == -signal.SIGKILL
        effects = count_effects(path)
        assert effects == (step in ALL_DONE)
        state = (await mine.jobs.get(job.id)).state
        assert state is (State.SUCCEEDED if effects else State.RUNNING)
        claims = await store.claims_of(nodes[0].id)
        assert await store.release_claims(nodes[0].id, claims) == 1 - effects
        nodes.append(node_on(path))
        assert await job.result(timeout=30) == "paid"
        assert count_effects(path) == 1


@pytest.mark.slow
async def test_the_heart_beats_while_a_job_blocks_the_event_loop(
    tmp_path: Path, nodes: list[NodeProcess]
) -> None:
    """The thread that writes has to win Python's lock back from the job, step by step."""
    lease = 3.0
    mine = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    task = mine.task(name="spin")(spin.function)
    environ = {"DETENT_CLUSTER_LEASE": "3s", "DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s"}
    async with mine:
        nodes.append(node_on(tmp_path / "jobs.db", **environ))
        job = await task.enqueue(2 * lease)

        async def running() -> bool:
            return (await mine.jobs.get(job.id)).state is State.RUNNING

        await until(running, "the job to begin")
        while await running():
            (found,) = await mine.store.nodes()
            assert (found.incarnation, found.state) == (nodes[0].id, "active")
            beat = await mine.store.beat(job.id, found.lease_until - found.heartbeat_at)
            assert found.lease_until > beat.now, "the lease has run out"
            await asyncio.sleep(0.1)
        await job.result(timeout=10)
    assert "could not" not in nodes[0].said()
