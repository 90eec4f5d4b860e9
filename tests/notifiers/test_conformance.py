"""If these fail, a node sleeps while others believe that they have woken it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from detent.notifiers.nats import NatsNotifier
from detent.notifiers.redis import RedisNotifier
from detent.spi.notifier import Notifier
from detent.stores.memory import MemoryNotifier
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.migrations import migrate
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance import NotifierConformance
from tests.notifiers.servers import Nats, Valkey


class TestMemory(NotifierConformance):
    @pytest.fixture
    def notifier(self) -> Notifier:
        return MemoryNotifier()

    @pytest.fixture
    def peer(self, notifier: Notifier) -> Notifier:
        """There is no other process."""
        return notifier


class TestSqlite(NotifierConformance):
    @pytest.fixture
    async def notifier(self, tmp_path: Path) -> AsyncIterator[Notifier]:
        store = SqliteStore(str(tmp_path / "jobs.db"))
        yield store.notifier
        await store.close()

    @pytest.fixture
    async def peer(self, tmp_path: Path) -> AsyncIterator[Notifier]:
        store = SqliteStore(str(tmp_path / "jobs.db"))
        yield store.notifier
        await store.close()


class TestPostgres(NotifierConformance):
    @pytest.fixture
    async def notifier(self, postgres_url: str) -> AsyncIterator[Notifier]:
        store = PostgresStore(postgres_url)
        yield store.notifier
        await store.close()

    @pytest.fixture
    async def peer(self, postgres_url: str) -> AsyncIterator[Notifier]:
        self._store = PostgresStore(postgres_url)
        yield self._store.notifier
        await self._store.close()

    async def leave(self, notifier: Notifier) -> None:
        await super().leave(notifier)
        await self._store.close()

    @pytest.fixture
    async def stranger(self, postgres_url: str) -> AsyncIterator[Notifier]:
        await migrate(postgres_url, "other")
        store = PostgresStore(postgres_url, schema="other")
        yield store.notifier
        await store.close()


class TestRedis(NotifierConformance):
    @pytest.fixture
    async def notifier(self, valkey: Valkey) -> AsyncIterator[Notifier]:
        notifier = RedisNotifier(valkey.url)
        yield notifier
        await notifier.close()

    @pytest.fixture
    async def peer(self, valkey: Valkey) -> AsyncIterator[Notifier]:
        notifier = RedisNotifier(valkey.url.replace("redis:", "valkey:"))
        yield notifier
        await notifier.close()

    @pytest.fixture
    async def stranger(self, valkey: Valkey) -> AsyncIterator[Notifier]:
        notifier = RedisNotifier(valkey.url, "other")
        yield notifier
        await notifier.close()


class TestNats(NotifierConformance):
    @pytest.fixture
    async def notifier(self, nats: Nats) -> AsyncIterator[Notifier]:
        notifier = NatsNotifier(nats.url)
        yield notifier
        await notifier.close()

    @pytest.fixture
    async def peer(self, nats: Nats) -> AsyncIterator[Notifier]:
        notifier = NatsNotifier(nats.url)
        yield notifier
        await notifier.close()

    @pytest.fixture
    async def stranger(self, nats: Nats) -> AsyncIterator[Notifier]:
        notifier = NatsNotifier(nats.url, "other")
        yield notifier
        await notifier.close()
