"""If these fail, `ctx.transaction()` has an effect twice, or a completion without its effect."""

import asyncio
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from detent import State
from tests.cluster.database import connected, until
from tests.cluster.processes import Start
from tests.cluster.workload import Workload

NOTHING_YET = [
    "before entering",
    "after the lock",
    "after the effect",
    "before the commit",
]
UNKNOWN = ["during the commit"]
ALL_DONE = ["after the commit", "after the block", "after the return"]


@pytest.mark.parametrize("step", NOTHING_YET + UNKNOWN + ALL_DONE)
async def test_effect_and_completion_come_together_or_not_at_all(
    postgres_url: str, workload: Workload, start: Start, executions: Path, step: str
) -> None:
    app = workload.app
    async with connected(postgres_url) as connection:
        await connection.execute("CREATE TABLE effect (job uuid NOT NULL)")
        killed = str(executions.with_name("killed"))
        job = await workload.pay.enqueue(str(executions), step, killed)
        first = start(postgres_url, "--name", "first")
        assert await asyncio.to_thread(first.ended) == -signal.SIGKILL
        await until_forgotten(connection)
        effects = await count_effects(connection, job.id)
        state = (await app.jobs.get(job.id)).state
        assert (effects, state) in [(0, State.RUNNING), (1, State.SUCCEEDED)]
        if step not in UNKNOWN:
            assert effects == (step in ALL_DONE)
        # Then somebody looks after the dead node, and the job runs again if it has to.
        claims = await app.store.claims_of(first.id)
        assert await app.store.release_claims(first.id, claims) == 1 - effects
        start(postgres_url, "--name", "second")
        assert await job.result(timeout=30) == "paid"
        assert await count_effects(connection, job.id) == 1


async def count_effects(connection: Any, job: UUID) -> int:
    found: int = await connection.fetchval("SELECT count(*) FROM effect WHERE job = $1", job)
    return found


async def until_forgotten(connection: Any) -> None:
    """Wait until the server has noticed that the node is dead, and undone what it left open."""

    async def forgotten() -> bool:
        found: bool = await connection.fetchval(
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database()"
            " AND (backend_xid IS NOT NULL OR state LIKE '%in transaction%')"
            " AND pid <> pg_backend_pid()"
        )
        return found

    await until(forgotten, "the end of what the dead node left open")
