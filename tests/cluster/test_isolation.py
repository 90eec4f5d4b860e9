"""If this fails, a database whose owner likes strict transactions is one that Detent cannot use.

What waits for the locks of others has to see what they did when they let go.
"""

from collections.abc import AsyncIterator

import pytest

from detent.spi.store import Store
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.overlap import OverlapConformance
from tests.cluster.database import connected


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
async def store(postgres_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with connected(postgres_url) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(
            f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'"
        )
    store = PostgresStore(postgres_url, pooler=request.param)
    await store.open()
    yield store
    await store.close()


async def test_schedules_fire_while_their_jobs_end(store: Store) -> None:
    await OverlapConformance().test_firing_races_with_the_end_of_the_job_before(store)
