"""What `enqueue_within_sync` promises: the same as its awaitable twin, on the caller's thread."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from detent.errors import WrongConnection
from detent.model.job import Keys, NewJob, Placed
from detent.model.state import State
from detent.spi.store import Store
from detent.testing.conformance.builders import idempotent, new_job, prepared, unique
from detent.testing.conformance.enqueue import Interrupted
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    joined,
    place,
    state_of,
    states_of,
)

BlockingTransaction = Callable[[], AbstractContextManager[Any]]


def place_now(store: Store, connection: Any, job: NewJob, keys: Keys) -> Placed:
    """Place a job with keys in a blocking caller's transaction."""
    (placed,) = store.enqueue_within_sync(connection, [prepared(job, keys)], keys)
    return placed


class BlockingConformance:
    """New jobs in the transaction of a blocking driver's connection."""

    @pytest.fixture
    def blocking_transaction(self) -> BlockingTransaction:
        """Return what opens a transaction with a blocking driver and yields its connection."""
        pytest.skip("override blocking_transaction to test enqueue_within_sync")

    async def test_a_blocking_commit_brings_the_jobs(
        self, store: Store, blocking_transaction: BlockingTransaction
    ) -> None:
        jobs = [new_job(), new_job()]
        node = await joined(store)
        with blocking_transaction() as connection:
            placed = store.enqueue_within_sync(connection, jobs, None)
            assert [(each.id, each.created) for each in placed] == [(job.id, True) for job in jobs]
            assert await store.get_jobs([job.id for job in jobs]) == [], "not committed yet"
        assert await claimed_ids(store, node) == [job.id for job in jobs]

    async def test_a_blocking_rollback_takes_jobs_and_keys_away(
        self, store: Store, blocking_transaction: BlockingTransaction
    ) -> None:
        plain, keyed, again = new_job(), new_job(), new_job()
        with pytest.raises(Interrupted), blocking_transaction() as connection:  # noqa: PT012  last
            store.enqueue_within_sync(connection, [plain], None)
            place_now(store, connection, keyed, unique("user-1"))
            raise Interrupted
        assert await store.get_jobs([plain.id, keyed.id]) == []
        assert await claimed(store, await joined(store)) == []
        assert (await place(store, again, unique("user-1"))).created

    async def test_a_taken_key_does_not_spoil_a_blocking_transaction(
        self, store: Store, blocking_transaction: BlockingTransaction
    ) -> None:
        first, second, third, other = new_job(), new_job(), new_job(), new_job()
        await place(store, first, unique("user-1"))
        await place(store, third, idempotent("order-1"))
        with blocking_transaction() as connection:
            told = place_now(store, connection, second, unique("user-1"))
            assert (told.id, told.created, told.taken_key) == (first.id, False, "user-1")
            told = place_now(store, connection, second, idempotent("order-1"))
            assert (told.id, told.created, told.taken_key) == (third.id, False, None)
            store.enqueue_within_sync(connection, [other], None)
        assert await store.get_jobs([second.id]) == []
        assert await state_of(store, other.id) is State.PENDING

    async def test_a_blocking_replacement_is_one_with_its_transaction(
        self, store: Store, blocking_transaction: BlockingTransaction
    ) -> None:
        old, new = new_job(delay=3600), new_job(delay=3600)
        await place(store, old, unique("user-1"))
        with pytest.raises(Interrupted), blocking_transaction() as connection:  # noqa: PT012  last
            place_now(store, connection, new, unique("user-1", "replace"))
            raise Interrupted
        assert await state_of(store, old.id) is State.PENDING
        with blocking_transaction() as connection:
            place_now(store, connection, new, unique("user-1", "replace"))
        assert await states_of(store, [old.id, new.id]) == [State.CANCELED, State.PENDING]

    async def test_what_is_no_connection_is_refused(self, store: Store) -> None:
        with pytest.raises(WrongConnection, match="object"):
            store.enqueue_within_sync(object(), [new_job()], None)
        with pytest.raises(WrongConnection, match="object"):
            await store.enqueue_within(object(), [new_job()], None)
