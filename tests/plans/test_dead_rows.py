"""If these fail, a forgotten transaction makes heartbeats and rescues slower by the hour.

A held snapshot keeps vacuum from removing the rows of jobs that have long ended.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from detent.stores.postgres import PostgresStore
from detent.stores.postgres.database import Connection
from detent.testing.conformance.builders import node_identity
from tests.plans.plan import Explained

DEAD = 20_000
LOST = 50

_PASS = """
INSERT INTO detent.detent_ready (id, due_at, priority, lane)
SELECT gen_random_uuid(), now(), 2, 'default~resource:smtp' FROM generate_series(1, $1::integer)
"""
_RUN = """
INSERT INTO detent.detent_running
    (id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane)
SELECT gen_random_uuid(), 1, $2, now(), now(), 1, 1, 2, 0, 0, 'default'
FROM generate_series(1, $1::integer)
"""


class Littered:
    """A database in which many jobs have passed while a snapshot was held."""

    def __init__(self, connection: Connection, node: UUID) -> None:
        self.connection = connection
        self.node = node

    async def cost(self, name: str, sql: str, *args: object) -> int:
        """Run a statement, undo it, and return how many pages it touched."""
        statement = await Explained.prepare(self.connection, name, sql)
        return (await statement.run(*args)).buffers


@pytest.fixture
async def littered(postgres_url: str) -> AsyncIterator[tuple[PostgresStore, Littered]]:
    store = PostgresStore(postgres_url)
    node = node_identity()
    await store.join(node, timedelta(minutes=10))
    async with (
        store.database.connection() as forgotten,
        store.database.connection() as connection,
    ):
        await forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
        await connection.execute(_PASS, DEAD)
        await connection.execute("DELETE FROM detent.detent_ready")
        await connection.execute(_RUN, DEAD, node.incarnation)
        await connection.execute("DELETE FROM detent.detent_running")
        await connection.execute("VACUUM ANALYZE detent.detent_ready")
        await connection.execute("VACUUM ANALYZE detent.detent_running")
        yield store, Littered(connection, node.incarnation)
        await forgotten.execute("ROLLBACK")
    await store.close()


async def test_a_heartbeat_walks_over_no_dead_rows(
    littered: tuple[PostgresStore, Littered],
) -> None:
    store, database = littered
    sql = store.database.sql
    walked = await database.cost("gated_lanes", sql("gated_lanes"), ["default"], "", 500, 0.0, [])
    assert walked > DEAD / 200, "nothing died, so that this test shows nothing"
    beat = await database.cost("beat_node", sql("beat_node"), database.node, 15.0, None)
    assert beat < 50


async def test_a_look_for_the_lost_walks_over_no_dead_rows(
    littered: tuple[PostgresStore, Littered],
) -> None:
    store, database = littered
    sql = store.database.sql
    walked = await database.cost("claims_of", sql("claims_of"), database.node)
    assert walked > DEAD / 200, "nothing died, so that this test shows nothing"
    assert await database.cost("find_lost", sql("find_lost")) < 50


async def test_comparing_claims_reads_the_dead_rows_page_by_page_and_not_one_by_one(
    littered: tuple[PostgresStore, Littered],
) -> None:
    """In the order of an index each dead row would be a page: 28 times as long at 500,000."""
    store, database = littered
    pages = await database.cost("claims_of", store.database.sql("claims_of"), database.node)
    assert pages < DEAD / 20


async def test_a_rescue_reads_the_dead_rows_once_and_not_for_each_claim(
    littered: tuple[PostgresStore, Littered],
) -> None:
    store, database = littered
    sql = store.database.sql
    once = await database.cost("claims_of", sql("claims_of"), database.node)
    await database.connection.execute(_RUN, LOST, database.node)
    await database.connection.execute(
        "INSERT INTO detent.detent_job"
        " (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)"
        " SELECT id, 'work', 'default', lane, priority, due_at, now(), '[]', 'json'"
        " FROM detent.detent_running"
    )
    await store.declare_dead([database.node], "a test")
    looked = await database.cost("unexamined_nodes", sql("unexamined_nodes"))
    assert looked < 4 * once + 20 * LOST
    await database.connection.execute("UPDATE detent.detent_node SET autopsy = '[1, 0, {}]'")
    rescue = await database.cost("lost_claims", sql("lost_claims"), 100, [])
    await database.connection.execute("UPDATE detent.detent_node SET autopsy = NULL")
    assert rescue < 4 * once + 20 * LOST
    # Once all its claims are gone, its row says so, and they are not looked for again.
    assert len((await store.rescue(100, 3)).jobs) == LOST
    assert await database.cost("find_lost", sql("find_lost")) < 50
    (found,) = await database.connection.fetch(sql("find_lost"))
    assert not found["found"]
