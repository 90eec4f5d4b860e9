"""If these fail, jobs that wait behind a limit slow down those that do not."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from detent.model.limits import Limit
from detent.spi.limits import GatedRequest
from detent.spi.nodes import NodeIdentity
from detent.spi.scans import Floor, LaneScan
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import new_job

BLOCKED = "default~task:work#blocked"
FREE = [f"default~task:work#{number}" for number in range(10)]
BACKLOG = 50_000
BOOST = timedelta(minutes=15)
FILL = """
    INSERT INTO detent.detent_ready (id, due_at, priority, lane)
    SELECT gen_random_uuid(), now() - interval '1 minute', 2, $1 FROM generate_series(1, $2::int)
"""
PAGES = """
    SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int
    FROM pg_statio_user_tables WHERE schemaname = 'detent'
"""
SEQUENTIAL = "SELECT sum(seq_scan)::int FROM pg_stat_user_tables WHERE relname = 'detent_ready'"


async def counted(connection: asyncpg.Connection, sql: str) -> int:
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    found: int = await connection.fetchval(sql)
    return found


async def filled(url: str) -> None:
    """Put a backlog behind the gate, and wait until all that was counted by it is told.

    A session tells what it has counted at the latest when it ends, which may be after our side of
    it is closed. Vacuum, which counts as well, is kept away.
    """
    connection = await asyncpg.connect(url)
    pid = connection.get_server_pid()
    await connection.execute("ALTER TABLE detent.detent_ready SET (autovacuum_enabled = off)")
    await connection.execute(FILL, BLOCKED, BACKLOG)
    await connection.execute("ANALYZE detent.detent_ready")
    await connection.close()
    await gone(url, pid)


async def gone(url: str, *pids: int) -> None:
    """Wait until sessions have ended on the server too."""
    connection = await asyncpg.connect(url)
    query = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1::int[])"
    while await connection.fetchval(query, pids):
        await connection.execute("SELECT pg_stat_clear_snapshot()")
    await connection.close()


async def closed(store: PostgresStore, url: str) -> None:
    """Close a store, and wait until what it has counted is told."""
    async with store.database.connection() as connection:
        pid = connection.get_server_pid()
    await store.close()
    await gone(url, pid)


def request(node: UUID, lanes: list[str]) -> GatedRequest:
    scans = [LaneScan(lane, "default", 100) for lane in lanes]
    return GatedRequest(node, scans, [100] * len(lanes), [0] * len(lanes), 100, timedelta(0), 8_192)


@pytest.mark.slow
async def test_what_is_blocked_is_not_walked(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, pool_size=1)
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    try:
        node = uuid4()
        await store.join(NodeIdentity(node, "n", "h", 1, "0", {}), timedelta(hours=1))
        await store.declare_limits([Limit("task:work#", 1)])
        await store.enqueue_jobs([new_job()._replace(lane=lane) for lane in (BLOCKED, *FREE)])
        assert len((await store.claim_gated(request(node, [BLOCKED]))).claims) == 1
        await filled(postgres_url)
        (found, *_) = await store.gated_lanes(["default"], "", 20, timedelta(0))
        before = await counted(connection, PAGES), await counted(connection, SEQUENTIAL)
        answer = await store.claim_gated(request(node, [BLOCKED, *FREE]))
        lanes = await store.gated_lanes(["default"], "", 20, timedelta(0))
        await closed(store, postgres_url)
        after = await counted(connection, PAGES), await counted(connection, SEQUENTIAL)
    finally:
        await store.close()
        await connection.close()
    assert found.lane.startswith("default~task:work#")
    assert [claim.lane for claim in answer.claims] == FREE
    assert answer.lanes[0].blocked_by == "task:work#blocked"
    assert [each.lane for each in lanes] == [BLOCKED]
    assert after[1] == before[1], "the whole table was read"
    assert after[0] - before[0] < 3_000, f"{after[0] - before[0]} pages"


@pytest.mark.slow
@pytest.mark.parametrize("least", [2, 4])
async def test_what_is_behind_is_not_walked(postgres_url: str, least: int) -> None:
    store = PostgresStore(postgres_url, pool_size=1)
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    try:
        node = uuid4()
        await store.join(NodeIdentity(node, "n", "h", 1, "0", {}), timedelta(hours=1))
        await store.declare_limits([Limit("task:work#", 1)])
        await store.enqueue_jobs([new_job()._replace(lane=BLOCKED)])
        assert len((await store.claim_gated(request(node, [BLOCKED]))).claims) == 1
        await filled(postgres_url)
        floor = Floor(datetime.now(UTC) - timedelta(minutes=2), UUID(int=0))
        urgent = GatedRequest(
            node, [LaneScan(BLOCKED, "default", 5, [floor] * 5)], [5], [least], 5, BOOST, 8_192
        )
        # Its plan is made and kept in the first few.
        for _ in range(10):
            await store.claim_gated(urgent)
        before = await counted(connection, PAGES)
        answer = await store.claim_gated(urgent)
        await closed(store, postgres_url)
        pages = await counted(connection, PAGES) - before
    finally:
        await store.close()
        await connection.close()
    assert answer.claims == []
    assert answer.lanes[0].head is not None
    assert answer.lanes[0].head.priority == 2
    assert pages < 1_000, f"{pages} pages of a dozen claims"


@pytest.mark.slow
async def test_a_wide_claim_walks_what_it_takes(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, pool_size=1)
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    lane, claims = "default~resource:smtp", 12
    try:
        node = uuid4()
        await store.join(NodeIdentity(node, "n", "h", 1, "0", {}), timedelta(hours=1))
        await store.declare_limits([Limit("resource:smtp", 100_000)])
        await store.enqueue_jobs([new_job()._replace(lane=lane) for _ in range(5_000)])
        await connection.execute("ALTER TABLE detent.detent_ready SET (autovacuum_enabled = off)")
        await connection.execute("ANALYZE detent.detent_ready")
        await connection.close()
        await closed(store, postgres_url)
        connection = await asyncpg.connect(postgres_url)
        await store.open()
        before = await counted(connection, PAGES), await counted(connection, SEQUENTIAL)
        taken = [
            len((await store.claim_gated(request(node, [lane]))).claims) for _ in range(claims)
        ]
        await closed(store, postgres_url)
        after = await counted(connection, PAGES), await counted(connection, SEQUENTIAL)
    finally:
        await store.close()
        await connection.close()
    assert taken == [100] * claims
    assert after[1] == before[1], "the whole table was read"
    # Of each job some pages of indexes and tables; with all that wait it would be forty more.
    assert (after[0] - before[0]) / sum(taken) < 20


def loops_of(plan: dict[str, Any], kind: str) -> int:
    """Return how often the nodes of one kind were begun, in a whole plan."""
    own = plan["Actual Loops"] if plan["Node Type"] == kind else 0
    return int(own) + sum(loops_of(each, kind) for each in plan.get("Plans", ()))


async def test_queues_without_gated_lanes_take_no_steps(postgres_url: str) -> None:
    """A step reads a list of all queues: one for each of them would cost their number squared."""
    store = PostgresStore(postgres_url, pool_size=1)
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    lanes = ["q7~task:work#a", "q7~task:work#b"]
    try:
        await store.enqueue_jobs([new_job()._replace(lane=lane) for lane in lanes])
        queues = [f"q{number}" for number in range(1_000)]
        explained = await connection.fetchval(
            "EXPLAIN (ANALYZE, FORMAT JSON) " + store.database.sql("gated_lanes"),
            queues,
            "",
            20,
            0.0,
            [],
        )
    finally:
        await store.close()
        await connection.close()
    steps = loops_of(json.loads(explained)[0]["Plan"], "WorkTable Scan")
    assert 0 < steps <= 2 * len(lanes), f"{steps} steps"
