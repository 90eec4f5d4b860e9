"""If these fail, a store behind a transaction pooler means something else than the specification.

PgBouncer has fewer sessions than the store has connections, so that every statement may run in
another one.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest

from detent.spi.store import Store
from detent.stores.postgres import PostgresStore
from detent.testing.conformance import StoreConformance
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.pgbouncer import PgBouncer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def pgbouncer(postgres_server: TemporaryPostgres) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server, pool_size=4) as pgbouncer:
        yield pgbouncer


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, postgres_url: str) -> str:
    """The database of this test, by the way of PgBouncer, and nothing else said about it."""
    return pgbouncer.url(postgres_url)


class TestThroughPgBouncer(StoreConformance):
    @pytest.fixture
    def postgres_url(self, emptied_postgres_url: str) -> str:
        return emptied_postgres_url

    @pytest.fixture
    async def store(self, pooled_url: str) -> AsyncIterator[Store]:
        store = PostgresStore(pooled_url)
        await store.open()
        assert await store.database.behind_pooler()
        yield store
        await store.close()

    @pytest.fixture
    def caller_transaction(self, pooled_url: str) -> Callable[[], AbstractAsyncContextManager[Any]]:
        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            connection = await asyncpg.connect(pooled_url, statement_cache_size=0)
            try:
                async with connection.transaction():
                    yield connection
            finally:
                await connection.close()

        return transaction

    @pytest.fixture
    def blocking_transaction(
        self, pooled_url: str
    ) -> Callable[[], AbstractContextManager[psycopg.Connection]]:
        return lambda: psycopg.connect(pooled_url, prepare_threshold=None)
