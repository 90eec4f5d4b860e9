"""PostgreSQL means what the specification means."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest

from detent.spi.store import Store
from detent.stores.postgres import PostgresStore
from detent.testing.conformance import StoreConformance


class TestPostgres(StoreConformance):
    @pytest.fixture
    def postgres_url(self, emptied_postgres_url: str) -> str:
        return emptied_postgres_url

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

    @pytest.fixture
    def blocking_transaction(
        self, postgres_url: str
    ) -> Callable[[], AbstractContextManager[psycopg.Connection]]:
        return lambda: psycopg.connect(postgres_url)
