"""If these fail, jobs that have nothing to do with each other wait for each other at their end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from detent.model.job import Claim
from detent.model.state import State
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import (
    claim_request,
    completion,
    lane_scan,
    new_job,
    node_identity,
    settlement,
)
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected

FINISHES: Final = 200
POOL: Final = 50
PROMPT: Final = 20.0
"""Seconds: a wait for the open transaction would last until the test is given up."""

Finish = Callable[[PostgresStore, UUID, Claim], Awaitable[list[UUID]]]


def succeed(store: PostgresStore, node: UUID, claim: Claim) -> Awaitable[list[UUID]]:
    return store.finish_jobs(node, [completion(claim)])


def settle(store: PostgresStore, node: UUID, claim: Claim) -> Awaitable[list[UUID]]:
    return store.settle_jobs(node, [settlement(claim, State.SUCCEEDED)])


def settle_hooked(store: PostgresStore, node: UUID, claim: Claim) -> Awaitable[list[UUID]]:
    return store.finish_hooked(node, [settlement(claim, State.SUCCEEDED)])


async def claimed(store: PostgresStore, count: int) -> tuple[UUID, list[Claim]]:
    node = node_identity()
    await store.join(node, timedelta(minutes=5))
    await store.enqueue_jobs([new_job() for _ in range(count)])
    scan = lane_scan(room=count)
    claims = await store.claim_jobs(claim_request(node.incarnation, scan, limit=count))
    assert len(claims) == count
    return node.incarnation, claims


@pytest.mark.parametrize("finish", [succeed, settle, settle_hooked])
async def test_two_hundred_finishes_at_once_wait_on_no_shared_row(
    postgres_server: TemporaryPostgres, postgres_url: str, finish: Finish
) -> None:
    async with connected(postgres_url) as admin:
        # Whoever waits for a lock longer than a millisecond is told of in the server's log.
        name = await admin.fetchval("SELECT current_database()")
        await admin.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '1ms'")
        await admin.execute(f"ALTER DATABASE {name} SET log_lock_waits = on")
    store = PostgresStore(postgres_url, pool_size=POOL)
    node, claims = await claimed(store, FINISHES + 1)
    # All connections are open before it begins, so that many finish at the same moment.
    await asyncio.gather(*(store.nodes() for _ in range(POOL)))
    log = ServerLog(postgres_server)
    async with connected(postgres_url) as other, connected(postgres_url) as watcher:
        transaction = other.transaction()
        await transaction.start()
        await finish_uncommitted(store, other, node, claims[-1])
        watching = asyncio.ensure_future(waits(watcher))
        async with asyncio.timeout(PROMPT):
            accepted = await asyncio.gather(*(finish(store, node, claim) for claim in claims[:-1]))
        assert not watching.done(), "somebody waited"
        watching.cancel()
        assert accepted == [[claim.id] for claim in claims[:-1]]
        assert [line for line in log.text().splitlines() if is_row_wait(line)] == []
        await transaction.rollback()
    # What was undone can be done again, and only once.
    assert await finish(store, node, claims[-1]) == [claims[-1].id]
    assert await finish(store, node, claims[-1]) == []
    await store.close()


async def finish_uncommitted(
    store: PostgresStore, connection: Any, node: UUID, claim: Claim
) -> None:
    """Finish a job and leave the transaction open, as a stalled node does."""
    columns: Sequence[Any] = ([claim.id], [claim.fence], [0.1], None, None, ["t"], ["default"])
    rows = await connection.fetch(store.database.sql("finish_jobs"), node, *columns)
    assert len(rows) == 1


async def waits(watcher: Any) -> bool:
    """Watch until somebody waits for a row, or for the end of somebody's transaction."""
    query = (
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('tuple', 'transactionid')"
    )
    while not await watcher.fetchval(query):
        pass
    return True


def is_row_wait(line: str) -> bool:
    return "still waiting for" in line and ("transaction" in line or "tuple" in line)


async def test_the_watcher_sees_a_wait(postgres_url: str) -> None:
    """The test above is worth something only if it would notice."""
    store = PostgresStore(postgres_url)
    node, claims = await claimed(store, 1)
    async with connected(postgres_url) as other, connected(postgres_url) as watcher:
        transaction = other.transaction()
        await transaction.start()
        await finish_uncommitted(store, other, node, claims[0])
        second = asyncio.ensure_future(succeed(store, node, claims[0]))
        async with asyncio.timeout(PROMPT):
            assert await waits(watcher)
        await transaction.commit()
        assert await second == []
    await store.close()
