"""If these fail, a limit for each of many keys slows down with what is blocked, or has passed."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from detent.model.limits import Limit
from detent.spi.limits import FamilyAnswer, FamilyRequest
from detent.spi.scans import Floor
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import node_identity

FAMILY = "default~task:work"
KEYS = 20_000
ROOM = 100
CLAIMS = 12
FILL = """
WITH made AS (
    INSERT INTO detent.detent_job
        (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
    SELECT gen_random_uuid(), 'work', 'default', $1 || '#' || number, 2,
        now() - interval '1 minute' + number * interval '1 microsecond', now(), '', 'json'
    FROM generate_series(1, $2::integer) AS number
    RETURNING id, due_at, priority, lane
)
INSERT INTO detent.detent_ready (id, due_at, priority, lane)
SELECT id, due_at, priority, lane FROM made
"""
ANALYZE = "ANALYZE detent.detent_ready, detent.detent_job"
PAGES = """
SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int
FROM pg_statio_user_tables WHERE schemaname = 'detent'
"""
SEQUENTIAL = """
SELECT sum(seq_scan)::int FROM pg_stat_user_tables
WHERE relname IN ('detent_ready', 'detent_running', 'detent_job')
"""


class Watched:
    """A store whose only session is watched by another."""

    def __init__(self, store: PostgresStore, connection: asyncpg.Connection, node: UUID) -> None:
        self.store = store
        self.connection = connection
        self._node = node

    async def claim(self, floors: Sequence[Floor | None]) -> FamilyAnswer:
        return await self.store.claim_family(
            FamilyRequest(
                self._node, FAMILY, "default", ROOM, ROOM, 0, floors, (), timedelta(0), 8_192
            )
        )

    async def fill(self, *also: str) -> None:
        """Enqueue a job for each key; what that costs is counted when its session has ended."""
        connection = await asyncpg.connect(self.store.database.address.url)
        await connection.execute(FILL, FAMILY, KEYS)
        for statement in also:
            await connection.execute(statement)
        await connection.close()

    async def counted(self) -> tuple[int, int]:
        """Return pages and scans of whole tables, of all sessions that have ended."""
        await self.store.close()
        await self.connection.execute("SELECT pg_stat_clear_snapshot()")
        pages, scans = [await self.connection.fetchval(sql) for sql in (PAGES, SEQUENTIAL)]
        await self.store.open()
        return pages, scans


@pytest.fixture
async def watched(postgres_url: str) -> AsyncIterator[Watched]:
    store = PostgresStore(postgres_url, pool_size=1)
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    node = node_identity()
    await store.join(node, timedelta(hours=1))
    await store.declare_limits([Limit("task:work#", 1, ordered=True)])
    yield Watched(store, connection, node.incarnation)
    await store.close()
    await connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_analyzed", [False, True])
async def test_a_claim_walks_what_it_takes(watched: Watched, is_analyzed: bool) -> None:
    await watched.fill(*([ANALYZE] if is_analyzed else []))
    before = await watched.counted()
    floors: Sequence[Floor | None] = (None,) * 5
    for _ in range(CLAIMS):
        answer = await watched.claim(floors)
        floors = answer.floors
        assert len(answer.claims) == ROOM
    after = await watched.counted()
    assert after[1] == before[1], "a whole table was read"
    pages = (after[0] - before[0]) / CLAIMS / ROOM
    assert pages < 40, f"{pages:.1f} pages for each job"


@pytest.mark.slow
async def test_a_claim_walks_over_no_dead_rows(watched: Watched) -> None:
    await watched.fill(ANALYZE)
    held = await asyncpg.connect(watched.store.database.address.url)
    try:
        await held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
        first = await watched.claim((None,) * 5)
        await watched.connection.execute(
            "DELETE FROM detent.detent_ready WHERE ctid IN"
            " (SELECT ctid FROM detent.detent_ready ORDER BY due_at LIMIT $1)",
            KEYS * 3 // 4,
        )
        answer = await watched.claim(first.floors)
        assert len(answer.claims) == ROOM
        before = await watched.counted()
        again = await watched.claim(answer.floors)
        after = await watched.counted()
    finally:
        await held.close()
    assert len(again.claims) == ROOM
    pages = after[0] - before[0]
    assert pages < 40 * ROOM, f"{pages} pages for {ROOM} jobs behind {KEYS} dead ones"
