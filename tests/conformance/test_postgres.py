"""PostgreSQL means what the specification means."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from detent.spi.store import Store
from detent.stores.postgres import PostgresStore
from detent.testing.conformance import StoreConformance


class TestPostgres(StoreConformance):
    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[Store]:
        store = PostgresStore(postgres_url)
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    def caller_transaction(
        self, postgres_url: str
    ) -> Callable[[], AbstractAsyncContextManager[Any]]:
        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            connection = await asyncpg.connect(postgres_url)
            try:
                async with connection.transaction():
                    yield connection
            finally:
                await connection.close()

        return transaction
