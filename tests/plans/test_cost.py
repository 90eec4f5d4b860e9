"""If these fail, claiming gets slower as the queue gets longer, which is how queues die.

Pages touched are counted, not seconds: they are the same on every machine.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.job import Priority
from detent.spi.scans import Floor
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.claim import claim_arguments
from detent.stores.postgres.database import Connection
from detent.testing.conformance.builders import NO_FLOORS, claim_request, lane_scan, node_identity
from tests.plans.plan import Explained, Plan

CLAIMED = 100
BOOST = timedelta(minutes=15)
LITTLE, MUCH = 1_000, 100_000

#: One more level in an index is a page more for each row; anything beyond is growth.
SAME_ORDER = 2

_ENQUEUE = """
WITH job AS (
    INSERT INTO detent.detent_job
        (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
    SELECT gen_random_uuid(), 'shop.send', 'default', $2, {priority},
        now() - interval '1 h' + n * interval '1 ms', now(), '[]', 'json'
    FROM generate_series(1, $1::integer) AS n
    RETURNING id, lane, priority, due_at
)
INSERT INTO detent.detent_ready (id, lane, priority, due_at)
SELECT id, lane, priority, due_at FROM job
"""

_PARK = """
WITH gone AS (DELETE FROM detent.detent_ready WHERE lane = $1 RETURNING *)
INSERT INTO detent.detent_parked
    (id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane)
SELECT id, 'paused', now(), due_at, attempt, generation, priority, crashes, hooks, 'default'
FROM gone
"""


class Claims:
    """A node whose claims are explained: its plan is made first, while nothing is there."""

    def __init__(self, store: PostgresStore, connection: Connection, node: UUID) -> None:
        self.store = store
        self.connection = connection
        self.node = node
        self._statement: Explained | None = None

    async def cost(self, floors: Sequence[Floor | None] = NO_FLOORS) -> int:
        """Claim, undo it, and return how many pages that took."""
        plan = await self.explain(floors)
        assert plan.rows == CLAIMED
        return plan.buffers

    async def explain(self, floors: Sequence[Floor | None] = NO_FLOORS) -> Plan:
        if self._statement is None:
            sql = self.store.database.sql("claim_jobs")
            self._statement = await Explained.prepare(self.connection, "claim", sql)
        scan = lane_scan(room=CLAIMED, floors=floors)
        request = claim_request(self.node, scan, limit=CLAIMED, boost_interval=BOOST)
        return await self._statement.run(*claim_arguments(request))

    async def enqueue(
        self, rows: int, lane: str = "default", priority: str = f"{Priority.NORMAL:d}"
    ) -> None:
        await self.connection.execute(_ENQUEUE.format(priority=priority), rows, lane)


@pytest.fixture
async def claims(postgres_url: str) -> AsyncIterator[Claims]:
    store = PostgresStore(postgres_url)
    node = node_identity()
    await store.join(node, timedelta(minutes=10))
    async with store.database.connection() as connection:
        claims = Claims(store, connection, node.incarnation)
        assert (await claims.explain()).rows == 0
        yield claims
    await store.close()


@pytest.mark.parametrize("priority", [f"{Priority.NORMAL:d}", "n % 5"])
async def test_a_claim_costs_the_same_at_any_length_of_the_queue(
    claims: Claims, priority: str
) -> None:
    await claims.enqueue(LITTLE, priority=priority)
    before = await claims.cost()
    await claims.enqueue(MUCH, priority=priority)
    assert await claims.cost() < SAME_ORDER * before


async def test_jobs_of_other_lanes_do_not_stand_in_the_way(claims: Claims) -> None:
    await claims.enqueue(LITTLE)
    before = await claims.cost()
    await claims.enqueue(MUCH, lane="default+gpu")
    await claims.enqueue(MUCH, lane="another")
    assert await claims.cost() < SAME_ORDER * before


async def test_parked_jobs_do_not_stand_in_the_way(claims: Claims) -> None:
    await claims.enqueue(LITTLE)
    before = await claims.cost()
    await claims.enqueue(MUCH, lane="to be parked")
    await claims.connection.execute(_PARK, "to be parked")
    assert await claims.cost() < SAME_ORDER * before


async def test_the_floor_leaves_the_dead_behind(claims: Claims) -> None:
    """A forgotten transaction keeps vacuum away: what was claimed stays in the index for hours."""
    await claims.enqueue(LITTLE)
    before = await claims.cost()
    await claims.enqueue(20_000)
    async with claims.store.database.connection() as forgotten:
        await forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
        for _ in range(4):
            scan = lane_scan(room=5_000)
            taken = await claims.store.claim_jobs(claim_request(claims.node, scan, limit=5_000))
            assert len(taken) == 5_000
        (first,) = await claims.store.look(["default"])
        assert await claims.cost() > 3 * before, "nothing died, so that this test shows nothing"
        floor = Floor(first.due_at, first.id)
        floors = [floor if priority == first.priority else None for priority in Priority]
        assert await claims.cost(floors) < SAME_ORDER * before
        await forgotten.execute("ROLLBACK")


async def test_a_failed_job_is_found_among_many_that_succeeded(
    claims: Claims,
) -> None:
    await claims.enqueue(MUCH)
    await claims.connection.execute(
        "INSERT INTO detent.detent_outcome"
        " (id, generation, attempt, finished_at, state, task, queue)"
        " SELECT id, 1, 1, now(),"
        " CASE WHEN n % 10000 = 0 THEN 'failed' ELSE 'succeeded' END, task, queue"
        " FROM (SELECT *, row_number() OVER () AS n FROM detent.detent_job) AS job"
    )
    sql = claims.store.database.sql("matching_jobs")
    listing = await Explained.prepare(claims.connection, "listing", sql)
    lowest, highest = UUID(int=0), UUID(int=(1 << 128) - 1)
    found = await listing.run(["failed"], None, None, None, None, lowest, highest, highest, 50)
    assert found.rows == 10
    assert found.buffers < 200
