"""If these fail, somebody who looks for a few jobs reads the whole history.

Pages touched are counted, not seconds: they are the same on every machine.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

import pytest

from detent.stores.postgres import PostgresStore
from detent.stores.postgres.database import Connection
from detent.stores.postgres.inspect import PLANNED_ANEW
from tests.plans.plan import Explained, Plan

JOBS: Final = 50_000
LOWEST, HIGHEST = UUID(int=0), UUID(int=(1 << 128) - 1)

_ENQUEUE = """
INSERT INTO detent.detent_job
    (id, task, queue, lane, priority, due_at, enqueued_at, args, codec, tags, unique_key,
     idempotency_key)
SELECT gen_random_uuid(), 'shop.send', 'default', 'default', 2, now(), now(), '[]', 'json',
    CASE WHEN n % 5000 = 0 THEN ARRAY['all', 'few'] ELSE ARRAY['all'] END,
    CASE WHEN n % 2 = 0 THEN 'user-' || n % 5000 END,
    CASE WHEN n % 2 = 1 THEN 'order-' || n END
FROM generate_series(1, $1::integer) AS n
"""

_MAKE_READY = """
INSERT INTO detent.detent_ready (id, due_at, priority, lane)
SELECT id, due_at, priority, lane FROM detent.detent_job WHERE tags @> ARRAY['few']
"""
_PARK = """
INSERT INTO detent.detent_parked
    (id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane)
SELECT id, 'unknown_task', now(), due_at, 1, 1, priority, 0, 0, lane
FROM detent.detent_job WHERE unique_key IS NOT NULL AND NOT tags @> ARRAY['few']
"""
_FAIL = """
INSERT INTO detent.detent_outcome (id, generation, attempt, finished_at, state, task, queue)
SELECT id, 1, 1, now(), 'failed', task, queue
FROM detent.detent_job WHERE idempotency_key IS NOT NULL
"""


class Listing:
    """The statement of a list, as the store runs it for tags and keys."""

    def __init__(self, connection: Connection, statement: Explained) -> None:
        self.connection = connection
        self._statement = statement

    async def look(
        self, tag: str | None = None, key: str | None = None, states: Sequence[str] = ()
    ) -> Plan:
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            if tag is not None or key is not None:
                await self.connection.execute(PLANNED_ANEW)
            args: tuple[Any, ...] = (states, None, None, tag, key, LOWEST, HIGHEST, HIGHEST, 50)
            return await self._statement.run(*args)
        finally:
            await transaction.rollback()


@pytest.fixture
async def listing(postgres_url: str) -> AsyncIterator[Listing]:
    store = PostgresStore(postgres_url)
    async with store.database.connection() as connection:
        sql = store.database.sql("matching_jobs")
        listing = Listing(connection, await Explained.prepare(connection, "listing", sql))
        assert (await listing.look("few")).rows == 0  # planned when nothing was there
        await connection.execute(_ENQUEUE, JOBS)
        await connection.execute("VACUUM ANALYZE detent.detent_job")
        yield listing
    await store.close()


async def test_a_tag_that_few_jobs_have_is_found_by_its_index(listing: Listing) -> None:
    found = await listing.look(tag="few")
    assert found.rows == 10
    assert found.buffers < 100


async def test_a_tag_that_all_jobs_have_is_found_by_going_along_the_ids(listing: Listing) -> None:
    found = await listing.look(tag="all")
    assert found.rows == 50
    assert found.buffers < 300


@pytest.mark.parametrize("key, rows", [("user-0", 10), ("order-7", 1), ("nobody", 0)])
async def test_a_key_is_found_by_its_index(listing: Listing, key: str, rows: int) -> None:
    found = await listing.look(key=key)
    assert found.rows == rows
    assert found.buffers < 100


@pytest.mark.parametrize("state, rows", [("pending", 10), ("running", 0)])
async def test_only_what_holds_the_wanted_states_is_read(
    listing: Listing, state: str, rows: int
) -> None:
    """However many jobs wait for something, or have failed."""
    for statement in (_MAKE_READY, _PARK, _FAIL):
        await listing.connection.execute(statement)
    found = await listing.look(states=[state])
    assert found.rows == rows
    assert found.buffers < 100


async def test_the_settings_end_with_the_transaction(listing: Listing) -> None:
    await listing.look(tag="few")
    asked = "SELECT current_setting('plan_cache_mode'), current_setting('enable_bitmapscan')"
    assert tuple(await listing.connection.fetchrow(asked)) == ("force_generic_plan", "off")
