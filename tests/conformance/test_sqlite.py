"""SQLite means what the specification means."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detent.errors import StoreError, WrongConnection
from detent.model.job import Keys, NewJob, Placed
from detent.spi.leadership import Term
from detent.spi.store import Store
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance import StoreConformance
from detent.testing.conformance.builders import new_job
from detent.testing.conformance.context import pending
from detent.testing.conformance.leadership import elected, somebody
from detent.testing.conformance.steps import held_many, states_of


class Joining(SqliteStore):
    """The blocking driver's connection is used on this thread, which is the caller's."""

    async def enqueue_within(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        if isinstance(connection, sqlite3.Connection):
            return self.enqueue_within_sync(connection, jobs, keys)
        return await super().enqueue_within(connection, jobs, keys)

    async def fence_within(self, connection: Any, term: Term) -> None:
        if isinstance(connection, sqlite3.Connection):
            return self.fence_within_sync(connection, term)
        return await super().fence_within(connection, term)


class TestSqlite(StoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = Joining(str(tmp_path / "detent.db"))
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    def blocking_transaction(self, tmp_path: Path) -> Callable[[], AbstractContextManager[Any]]:
        @contextmanager
        def transaction() -> Iterator[sqlite3.Connection]:
            connection = sqlite3.connect(tmp_path / "detent.db")
            try:
                with connection:
                    yield connection
            finally:
                connection.close()

        return transaction

    @pytest.fixture
    def caller_transaction(
        self, blocking_transaction: Callable[[], AbstractContextManager[Any]]
    ) -> Callable[[], AbstractAsyncContextManager[Any]]:
        @asynccontextmanager
        async def transaction() -> AsyncIterator[sqlite3.Connection]:
            with blocking_transaction() as connection:
                yield connection

        return transaction

    async def test_transactions_of_different_jobs_stand_side_by_side(self, store: Store) -> None:
        """A file has one writer: they stand in line, and who would wait for himself is told."""
        node, (first, second) = await held_many(store, 2)
        inside, leave = asyncio.Event(), asyncio.Event()

        async def finish_first() -> None:
            async with store.transaction(node, first, pending(b"1")):
                inside.set()
                with pytest.raises(StoreError, match="within=connection"):
                    await store.enqueue_jobs([new_job()])
                with pytest.raises(StoreError, match="within=connection"):
                    async with store.transaction(node, second, pending()):
                        pytest.fail("two at once")
                await leave.wait()

        async def finish_second() -> None:
            async with store.transaction(node, second, pending(b"2")):
                assert leave.is_set(), "not before the first has ended"

        one = asyncio.create_task(finish_first())
        await inside.wait()
        two = asyncio.create_task(finish_second())
        assert await states_of(store, [first.id, second.id]) == ["running"] * 2, "reads go on"
        leave.set()
        await asyncio.gather(one, two)
        found = await store.get_jobs([first.id, second.id])
        assert [each.result for each in found] == [b"1", b"2"]

    async def test_a_term_does_not_end_under_an_open_transaction(
        self, store: Store, caller_transaction: Callable[[], AbstractAsyncContextManager[Any]]
    ) -> None:
        """Who has read a term and then writes is the only writer: elections wait for his commit."""
        candidate, successor, job = somebody(), somebody(), new_job()
        term = await elected(store, candidate, lease=timedelta(0))
        async with caller_transaction() as connection:
            await store.fence_within(connection, term)
            await store.enqueue_within(connection, [job], None)
            following = asyncio.create_task(elected(store, successor))
            assert [found.term for found in await store.leaders()] == []
            assert not following.done()
        assert (await following).number == 2
        assert await states_of(store, [job.id]) == ["pending"]

    async def test_a_fenced_transaction_that_writes_after_an_election_fails(
        self, store: Store, caller_transaction: Callable[[], AbstractAsyncContextManager[Any]]
    ) -> None:
        job = new_job()
        term = await elected(store, somebody(), lease=timedelta(0))
        with pytest.raises(WrongConnection, match="roll it back"):  # noqa: PT012  the last of three
            async with caller_transaction() as connection:
                await store.fence_within(connection, term)
                assert (await elected(store, somebody())).number == 2
                await store.enqueue_within(connection, [job], None)
        assert await store.get_jobs([job.id]) == []
