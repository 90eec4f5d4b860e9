"""What `EnqueueStore` promises: all jobs or none, once, exactly as they were given."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import pytest

from detent.errors import DetentError
from detent.model.job import Priority
from detent.model.state import State
from detent.spi.store import Store
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    completion,
    idempotent,
    new_job,
    unique,
)
from detent.testing.conformance.keys import KeyConformance
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    info,
    joined,
    now_of,
    place,
    place_within,
    state_of,
    states_of,
)

CallerTransaction = Callable[[], AbstractAsyncContextManager[Any]]


class Interrupted(Exception):
    """Makes a caller's transaction roll back."""


class EnqueueConformance(KeyConformance):
    """New jobs, with and without keys, alone and within a caller's transaction."""

    @pytest.fixture
    def caller_transaction(self) -> CallerTransaction:
        """Return what opens a transaction of the caller's own and yields its connection."""
        pytest.skip("override caller_transaction to test enqueue_within")

    async def test_a_job_is_kept_as_it_was_given(self, store: Store) -> None:
        job = new_job(
            "mail",
            task="shop.größe",
            needs=["gpu", "disk"],
            priority=Priority.HIGH,
            args=bytes(range(256)),
            tags=["vip", "grün"],
        )._replace(params=b'{"tenant":1}', options=b'{"timeout":3}', codec="other")
        before = await now_of(store)
        await store.enqueue_jobs([job])
        after = await now_of(store)

        found = await info(store, job.id)
        assert (found.id, found.task, found.queue) == (job.id, job.task, "mail")
        assert found.state is State.PENDING
        assert (found.priority, found.needs) == (Priority.HIGH, ("disk", "gpu"))
        assert (found.args, found.codec, found.params) == (job.args, "other", job.params)
        assert found.tags == ("vip", "grün")
        assert (found.attempt, found.crashes) == (1, 0)
        assert before <= found.enqueued_at <= after
        assert (found.finished_at, found.started_at, found.node, found.result) == (None,) * 4
        assert not found.cancel_requested

    @pytest.mark.parametrize("args", [b"", b"\x00", b"x" * (1 << 20)], ids=["0", "1", "1 MiB"])
    async def test_payloads_of_any_length_come_back(self, store: Store, args: bytes) -> None:
        (job_id,) = await enqueued(store, new_job(args=args))
        assert (await info(store, job_id)).args == args

    async def test_a_job_without_a_time_is_due_now(self, store: Store) -> None:
        job = new_job()._replace(delay=None, due_at=None)
        before = await now_of(store)
        await store.enqueue_jobs([job])
        assert before <= (await info(store, job.id)).due_at <= await now_of(store)
        assert await claimed_ids(store, await joined(store)) == [job.id]

    async def test_a_delay_counts_from_the_clock_of_the_store(self, store: Store) -> None:
        before = await now_of(store)
        (job_id,) = await enqueued(store, new_job(delay=3600.5))
        delay = timedelta(seconds=3600.5)
        assert before + delay <= (await info(store, job_id)).due_at <= await now_of(store) + delay
        assert await claimed(store, await joined(store)) == []

    async def test_a_moment_is_kept_to_the_microsecond(self, store: Store) -> None:
        moment = (await now_of(store)).replace(microsecond=123457) + HOUR
        past, future = await enqueued(
            store, new_job(due_at=moment - 2 * HOUR), new_job(due_at=moment)
        )
        assert (await info(store, past)).due_at == moment - 2 * HOUR
        assert (await info(store, future)).due_at == moment
        assert await claimed_ids(store, await joined(store)) == [past]

    async def test_a_batch_keeps_its_order(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(50)))
        assert await claimed_ids(store, await joined(store)) == ids

    async def test_nothing_to_enqueue_is_no_error(self, store: Store) -> None:
        await store.enqueue_jobs([])

    async def test_a_repeated_enqueue_adds_nothing(self, store: Store) -> None:
        job = new_job(args=b"first")
        await store.enqueue_jobs([job])
        await store.enqueue_jobs([job._replace(args=b"second", priority=4), new_job()])
        assert (await info(store, job.id)).args == b"first"
        assert len(await claimed(store, await joined(store))) == 2

    async def test_an_id_twice_in_one_batch_is_one_job(self, store: Store) -> None:
        job = new_job(args=b"first")
        await store.enqueue_jobs([job, job._replace(args=b"second"), new_job()])
        assert (await info(store, job.id)).args == b"first"
        assert len(await claimed(store, await joined(store))) == 2

    async def test_a_late_repeat_starts_nothing_again(self, store: Store) -> None:
        job = new_job()
        node, claim = await held(store, job)
        await store.enqueue_jobs([job])
        assert await claimed(store, node) == [], "it is running already"
        await store.finish_jobs(node, [completion(claim)])
        await store.enqueue_jobs([job])
        assert await claimed(store, node) == [], "it has ended already"
        assert await state_of(store, job.id) is State.SUCCEEDED

    async def test_the_same_enqueue_from_many_sides_is_one_job(self, store: Store) -> None:
        batch = [new_job() for _ in range(5)]
        turned = batch[::-1]
        await asyncio.gather(
            *(store.enqueue_jobs(batch if n % 2 else turned) for n in range(10)),
        )
        claims = await claimed_ids(store, await joined(store))
        assert sorted(claims) == [job.id for job in batch]

    async def test_a_batch_is_stored_whole_or_not_at_all(self, store: Store) -> None:
        # Not every database can keep a NUL; whether it can or not, no part of a batch is kept.
        jobs = [new_job(), new_job(task="shop.\x00send"), new_job()]
        try:
            await store.enqueue_jobs(jobs)
        except DetentError:
            assert await store.get_jobs([job.id for job in jobs]) == []
        else:
            assert await states_of(store, [job.id for job in jobs]) == [State.PENDING] * 3

    async def test_a_callers_commit_brings_his_jobs(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        jobs = [new_job(), new_job()]
        node = await joined(store)
        async with caller_transaction() as connection:
            placed = await store.enqueue_within(connection, jobs, None)
            assert [(each.id, each.created) for each in placed] == [(job.id, True) for job in jobs]
            assert await claimed(store, node) == [], "not committed yet"
        assert await claimed_ids(store, node) == [job.id for job in jobs]

    async def test_a_callers_rollback_takes_his_jobs_and_keys_away(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        plain, keyed, again = new_job(), new_job(), new_job()
        with pytest.raises(Interrupted):  # noqa: PT012  the error has to come last
            async with caller_transaction() as connection:
                await store.enqueue_within(connection, [plain], None)
                await place_within(store, connection, keyed, unique("user-1"))
                raise Interrupted
        assert await store.get_jobs([plain.id, keyed.id]) == []
        assert (await place(store, again, unique("user-1"))).created

    async def test_a_taken_key_does_not_spoil_the_callers_transaction(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        first, second, third, other = new_job(), new_job(), new_job(), new_job()
        await place(store, first, unique("user-1"))
        await place(store, third, idempotent("order-1"))
        async with caller_transaction() as connection:
            told = await place_within(store, connection, second, unique("user-1"))
            assert (told.id, told.created, told.taken_key) == (first.id, False, "user-1")
            told = await place_within(store, connection, second, idempotent("order-1"))
            assert (told.id, told.created, told.taken_key) == (third.id, False, None)
            await store.enqueue_within(connection, [other], None)
        assert await store.get_jobs([second.id]) == []
        assert await state_of(store, other.id) is State.PENDING

    async def test_keys_taken_within_a_transaction_count_within_it(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        first, second = new_job(), new_job()
        async with caller_transaction() as connection:
            placed = await place_within(store, connection, first, unique("user-1"))
            assert placed.created
            placed = await place_within(store, connection, second, unique("user-1", "return"))
            assert (placed.id, placed.created) == (first.id, False)
        assert [found.id for found in await store.get_jobs([first.id, second.id])] == [first.id]

    async def test_a_replacement_within_a_transaction_is_one_with_it(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        old, new = new_job(delay=3600), new_job(delay=3600)
        await place(store, old, unique("user-1"))
        with pytest.raises(Interrupted):  # noqa: PT012  the error has to come last
            async with caller_transaction() as connection:
                await place_within(store, connection, new, unique("user-1", "replace"))
                raise Interrupted
        assert await state_of(store, old.id) is State.PENDING
        async with caller_transaction() as connection:
            await place_within(store, connection, new, unique("user-1", "replace"))
        assert await states_of(store, [old.id, new.id]) == [State.CANCELED, State.PENDING]

    async def test_moments_of_one_batch_decide_before_ids(self, store: Store) -> None:
        now = await now_of(store)
        late, early = await enqueued(
            store, new_job(due_at=now - MINUTE), new_job(due_at=now - 2 * MINUTE)
        )
        assert await claimed_ids(store, await joined(store)) == [early, late]
