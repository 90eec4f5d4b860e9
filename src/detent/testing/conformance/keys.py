"""What keys promise: one job per idempotency key and time, one live job per business key."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.job import Hook, Keys, Placed
from detent.model.state import LIVE, State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    canceled,
    idempotent,
    new_job,
    parked,
    released,
    retried,
    settlement,
    unique,
)
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    held,
    in_state,
    info,
    joined,
    place,
    settled,
    state_of,
    states_of,
)


class KeyConformance:
    """Idempotency keys, business keys, and the ways to answer a conflict."""

    async def test_an_idempotency_key_returns_its_first_job(self, store: Store) -> None:
        first, second = new_job(), new_job()
        assert await place(store, first, idempotent("order-1")) == Placed(first.id, True)
        assert await place(store, second, idempotent("order-1")) == Placed(first.id, False)
        other = await place(store, second, idempotent("order-2"))
        assert other == Placed(second.id, True), "another key is another job"
        assert await claimed_ids(store, await joined(store)) == [first.id, second.id]

    @pytest.mark.parametrize("state", list(State), ids=str)
    async def test_an_idempotency_key_outlives_its_job(self, store: Store, state: State) -> None:
        job_id = await in_state(store, state, keys=idempotent("order-1"))
        placed = await place(store, new_job(), idempotent("order-1"))
        assert placed == Placed(job_id, False)

    @pytest.mark.parametrize("seconds", [0, -60])
    async def test_an_expired_idempotency_key_is_free(self, store: Store, seconds: int) -> None:
        first, second, third = new_job(), new_job(), new_job()
        await place(store, first, idempotent("order-1", timedelta(seconds=seconds)))
        assert await place(store, second, idempotent("order-1")) == Placed(second.id, True)
        assert await place(store, third, idempotent("order-1")) == Placed(second.id, False)

    async def test_a_repeated_call_is_answered_as_the_first(self, store: Store) -> None:
        job = new_job(delay=3600)
        for keys in (Keys(idempotency="order-1", unique="user-1"), unique("user-1", "replace")):
            assert await place(store, job, keys) == Placed(job.id, True)
        assert await state_of(store, job.id) is State.PENDING
        expired = new_job()
        for _ in range(2):
            placed = await place(store, expired, idempotent("order-2", timedelta(0)))
            assert placed == Placed(expired.id, True)

    async def test_a_late_repeat_of_a_keyed_enqueue_starts_nothing_again(
        self, store: Store
    ) -> None:
        job = new_job()
        await in_state(store, State.SUCCEEDED, job, unique("user-1"))
        await place(store, job, unique("user-1"))
        assert await state_of(store, job.id) is State.SUCCEEDED
        assert await claimed(store, await joined(store)) == []
        other = new_job()
        placed = await place(store, other, unique("user-1"))
        assert placed == Placed(other.id, True), "and takes no key"

    @pytest.mark.parametrize("state", LIVE, ids=str)
    async def test_a_business_key_is_held_by_a_live_job(self, store: Store, state: State) -> None:
        holder = await in_state(store, state, keys=unique("user-1"))
        job = new_job()
        told = await place(store, job, unique("user-1", "raise"))
        assert told == Placed(holder, False, "user-1")
        told = await place(store, job, unique("user-1", "return"))
        assert told == Placed(holder, False, None)
        assert await store.get_jobs([job.id]) == [], "nothing was stored"
        assert await state_of(store, holder) is state

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELED], ids=str)
    async def test_the_end_of_a_job_frees_its_business_key(
        self, store: Store, state: State
    ) -> None:
        await in_state(store, state, keys=unique("user-1"))
        job = new_job()
        assert await place(store, job, unique("user-1")) == Placed(job.id, True)

    @pytest.mark.parametrize("state", [State.PENDING, State.WAITING, State.PAUSED], ids=str)
    async def test_canceling_a_job_that_does_not_run_frees_its_business_key(
        self, store: Store, state: State
    ) -> None:
        holder = await in_state(store, state, keys=unique("user-1"))
        await store.control_job(Verb.CANCEL, holder, Change())
        assert (await place(store, new_job(), unique("user-1"))).created

    async def test_kinds_of_keys_are_apart(self, store: Store) -> None:
        first, second = new_job(), new_job()
        await place(store, first, idempotent("same"))
        assert await place(store, second, unique("same")) == Placed(second.id, True)

    async def test_the_idempotency_key_is_asked_first(self, store: Store) -> None:
        first, other = new_job(delay=3600), new_job(delay=3600)
        await place(store, first, idempotent("order-1"))
        await place(store, other, unique("user-1"))
        both = Keys(idempotency="order-1", unique="user-1", on_conflict="replace")
        assert await place(store, new_job(), both) == Placed(first.id, False)
        assert await state_of(store, other.id) is State.PENDING, "nothing was replaced"

    async def test_a_refused_job_leaves_no_idempotency_key(self, store: Store) -> None:
        holder, refused, third = new_job(), new_job(), new_job()
        await place(store, holder, unique("user-1"))
        both = Keys(idempotency="order-1", unique="user-1")
        assert not (await place(store, refused, both)).created
        assert await place(store, third, idempotent("order-1")) == Placed(third.id, True)

    async def test_a_job_with_both_keys_holds_both(self, store: Store) -> None:
        both = Keys(idempotency="order-1", unique="user-1")
        job = new_job()
        holding = await held(store, job, both)
        for keys in (idempotent("order-1"), unique("user-1", "return"), both):
            assert await place(store, new_job(), keys) == Placed(job.id, False)
        await settled(store, holding, settlement(holding.claim, State.SUCCEEDED))
        assert (await place(store, new_job(), unique("user-1"))).created
        assert await place(store, new_job(), idempotent("order-1")) == Placed(job.id, False)

    async def test_a_claim_says_that_its_job_holds_a_business_key(self, store: Store) -> None:
        holding = await held(store, keys=unique("user-1"))
        assert holding.claim.hooks & Hook.KEY
        holding = await held(store, keys=idempotent("order-1"))
        assert not holding.claim.hooks, "an idempotency key needs nothing at the end"

    # Whose keys they are

    @pytest.mark.parametrize("keys", [idempotent("42"), unique("42"), unique("42", "replace")])
    async def test_a_key_belongs_to_the_task_of_its_job(self, store: Store, keys: Keys) -> None:
        mail, report = new_job(task="shop.mail"), new_job(task="shop.report")
        assert await place(store, mail, keys) == Placed(mail.id, True)
        assert await place(store, report, keys) == Placed(report.id, True)
        assert not (await info(store, mail.id)).cancel_requested
        assert await states_of(store, [mail.id, report.id]) == [State.PENDING] * 2

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELED], ids=str)
    async def test_the_end_of_a_job_frees_the_key_of_its_own_task_only(
        self, store: Store, state: State
    ) -> None:
        holder = new_job(task="shop.report", delay=3600)
        await place(store, holder, unique("42"))
        await in_state(store, state, new_job(task="shop.mail"), unique("42"))
        assert (await place(store, new_job(task="shop.mail"), unique("42"))).created
        told = await place(store, new_job(task="shop.report"), unique("42"))
        assert told == Placed(holder.id, False, "42")

    async def test_a_retry_takes_the_key_of_its_own_task(self, store: Store) -> None:
        failed = await in_state(store, State.FAILED, new_job(task="shop.mail"), unique("42"))
        await place(store, new_job(task="shop.report"), unique("42"))
        await store.control_job(Verb.RETRY, failed, Change())
        told = await place(store, new_job(task="shop.mail"), unique("42"))
        assert told == Placed(failed, False, "42")

    async def test_a_deleted_job_takes_only_its_own_key_along(self, store: Store) -> None:
        gone = await in_state(store, State.SUCCEEDED, new_job(task="shop.mail"), idempotent("42"))
        kept = new_job(task="shop.report")
        await place(store, kept, idempotent("42"))
        assert await store.delete_jobs([gone]) == [gone]
        assert (await place(store, new_job(task="shop.mail"), idempotent("42"))).created
        assert await place(store, new_job(task="shop.report"), idempotent("42")) == (
            Placed(kept.id, False)
        )

    async def test_what_is_kept_beside_a_key_is_told(self, store: Store) -> None:
        first = new_job()
        keys = Keys(idempotency="42", digest=b"one")
        assert await place(store, first, keys) == Placed(first.id, True)
        again = await place(store, new_job(), Keys(idempotency="42", digest=b"two"))
        assert again == Placed(first.id, False, digest=b"one")
        expiring = Keys(idempotency="43", idempotency_ttl=timedelta(0), digest=b"one")
        await place(store, new_job(), expiring)
        second = new_job()
        await place(store, second, Keys(idempotency="43", digest=b"two"))
        again = await place(store, new_job(), idempotent("43"))
        assert again == Placed(second.id, False, digest=b"two")

    # Replacing

    @pytest.mark.parametrize("state", [State.PENDING, State.WAITING, State.PAUSED], ids=str)
    async def test_replacing_a_job_that_does_not_run_cancels_it(
        self, store: Store, state: State
    ) -> None:
        old = await in_state(store, state, keys=unique("user-1"))
        new = new_job()
        assert await place(store, new, unique("user-1", "replace")) == Placed(new.id, True)
        replaced = await info(store, old)
        assert (replaced.state, replaced.superseded_by) == (State.CANCELED, new.id)
        assert replaced.reason, "people want to know why"
        assert await claimed_ids(store, await joined(store)) == [new.id]
        told = await place(store, new_job(), unique("user-1", "return"))
        assert told == Placed(new.id, False), "the new job holds the key"

    async def test_replacing_a_running_job_asks_it_to_stop_and_waits(self, store: Store) -> None:
        holding = await held(store, keys=unique("user-1"))
        new = new_job()
        assert await place(store, new, unique("user-1", "replace")) == Placed(new.id, True)
        old = await info(store, holding.claim.id)
        assert (old.state, old.cancel_requested) == (State.RUNNING, True)
        (signal,) = await store.signals_for(holding.node)
        assert (signal.id, signal.fence, signal.kind) == (*holding.claim[:2], "cancel")
        assert await state_of(store, new.id) is State.WAITING
        assert await claimed(store, await joined(store)) == []

        await settled(store, holding, canceled(holding.claim))
        assert await state_of(store, new.id) is State.PENDING
        assert await claimed_ids(store, holding.node) == [new.id]

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELED], ids=str)
    async def test_a_replacement_holds_the_key_when_the_old_job_ends(
        self, store: Store, state: State
    ) -> None:
        holding = await held(store, keys=unique("user-1"))
        new = new_job(delay=3600)
        await place(store, new, unique("user-1", "replace"))
        await settled(store, holding, settlement(holding.claim, state))
        assert await states_of(store, [holding.claim.id, new.id]) == [state, State.PENDING]
        told = await place(store, new_job(), unique("user-1", "return"))
        assert told == Placed(new.id, False)
        assert await claimed(store, holding.node) == [], "it keeps its own due time"

    async def test_a_replacement_waits_on_when_the_old_job_goes_back(self, store: Store) -> None:
        holding = await held(store, keys=unique("user-1"))
        new = new_job()
        await place(store, new, unique("user-1", "replace"))
        for said in (released, retried, parked):
            await settled(store, holding, said(holding.claim))
            assert await state_of(store, new.id) is State.WAITING
            if said is parked:
                await joined(store)  # a new node may know the task
            (claim,) = await claimed(store, holding.node)
            assert claim.id == holding.claim.id
            holding = holding._replace(claim=claim)
        await store.release_claims(holding.node, [holding.claim[:2]])
        assert await state_of(store, new.id) is State.WAITING
        await store.control_job(Verb.CANCEL, holding.claim.id, Change())
        assert await states_of(store, [holding.claim.id, new.id]) == [
            State.CANCELED,
            State.PENDING,
        ]

    async def test_replacing_a_waiting_replacement_passes_the_wait_on(self, store: Store) -> None:
        holding = await held(store, keys=unique("user-1"))
        second, third = new_job(), new_job()
        await place(store, second, unique("user-1", "replace"))
        await place(store, third, unique("user-1", "replace"))
        replaced = await info(store, second.id)
        assert (replaced.state, replaced.superseded_by) == (State.CANCELED, third.id)
        assert await states_of(store, [holding.claim.id, third.id]) == [
            State.RUNNING,
            State.WAITING,
        ]
        await settled(store, holding, canceled(holding.claim))
        assert await claimed_ids(store, holding.node) == [third.id]

    async def test_a_canceled_replacement_gives_the_key_back_to_the_running_job(
        self, store: Store
    ) -> None:
        holding = await held(store, keys=unique("user-1"))
        second, third = new_job(), new_job()
        await place(store, second, unique("user-1", "replace"))
        await store.control_job(Verb.CANCEL, second.id, Change())
        told = await place(store, third, unique("user-1", "return"))
        assert told == Placed(holding.claim.id, False), "or two would run side by side"
        await settled(store, holding, canceled(holding.claim))
        assert (await place(store, third, unique("user-1"))).created

    # Many at once

    async def test_of_many_enqueues_with_one_idempotency_key_one_is_stored(
        self, store: Store
    ) -> None:
        await self._race(store, idempotent("order-1"))

    async def test_of_many_enqueues_with_one_business_key_one_is_stored(self, store: Store) -> None:
        await self._race(store, unique("user-1", "return"))

    async def test_of_many_enqueues_with_both_keys_one_is_stored(self, store: Store) -> None:
        await self._race(store, Keys(idempotency="order-1", unique="user-1", on_conflict="return"))

    async def test_of_many_replacements_one_is_left(self, store: Store) -> None:
        jobs = [new_job() for _ in range(8)]
        placed = await asyncio.gather(
            *(place(store, job, unique("user-1", "replace")) for job in jobs)
        )
        assert [each.created for each in placed] == [True] * len(jobs)
        assert await self._live(store, [job.id for job in jobs]) == await claimed_ids(
            store, await joined(store)
        )

    async def test_no_replacement_is_refused_however_many_there_are(self, store: Store) -> None:
        keys = [unique(f"user-{number}", "replace") for number in range(4)]
        ids: dict[str, list[UUID]] = {f"user-{number}": [] for number in range(4)}

        async def call(first: int) -> None:
            for turn in range(8):
                key, job = keys[(first + turn) % len(keys)], new_job()
                assert await place(store, job, key) == Placed(job.id, True)
                ids[str(key.unique)].append(job.id)

        await asyncio.gather(*(call(number) for number in range(24)))
        for key, jobs in ids.items():
            (left,) = await self._live(store, jobs)
            assert await place(store, new_job(), unique(key, "return")) == Placed(left, False)

    async def test_of_many_replacements_of_a_running_job_one_waits(self, store: Store) -> None:
        holding = await held(store, keys=unique("user-1"))
        jobs = [new_job() for _ in range(8)]
        await asyncio.gather(*(place(store, job, unique("user-1", "replace")) for job in jobs))
        (left,) = await self._live(store, [job.id for job in jobs])
        assert await state_of(store, left) is State.WAITING
        await settled(store, holding, canceled(holding.claim))
        assert await claimed_ids(store, holding.node) == [left]

    async def test_replacing_and_finishing_at_once_loses_nobody(self, store: Store) -> None:
        for number in range(8):
            keys = unique(f"user-{number}", "replace")
            holding = await held(store, keys=keys)
            new = new_job()
            await asyncio.gather(
                store.finish_hooked(holding.node, [settlement(holding.claim, State.SUCCEEDED)]),
                place(store, new, keys),
            )
            assert await state_of(store, holding.claim.id) is State.SUCCEEDED
            assert await claimed_ids(store, holding.node) == [new.id]

    async def test_canceling_a_replacement_while_the_old_job_ends_frees_the_key(
        self, store: Store
    ) -> None:
        for number in range(8):
            keys = unique(f"user-{number}", "replace")
            holding = await held(store, keys=keys)
            new = new_job()
            await place(store, new, keys)
            said = settlement(holding.claim, State.SUCCEEDED)
            await asyncio.gather(
                store.finish_hooked(holding.node, [said]),
                store.control_job(Verb.CANCEL, new.id, Change()),
            )
            assert await states_of(store, [holding.claim.id, new.id]) == [
                State.SUCCEEDED,
                State.CANCELED,
            ]
            assert (await place(store, new_job(delay=3600), unique(f"user-{number}"))).created

    async def test_replacing_a_replacement_while_the_old_job_ends_loses_nobody(
        self, store: Store
    ) -> None:
        for number in range(8):
            keys = unique(f"user-{number}", "replace")
            holding = await held(store, keys=keys)
            second, third = new_job(), new_job()
            await place(store, second, keys)
            said = settlement(holding.claim, State.SUCCEEDED)
            await asyncio.gather(
                place(store, third, keys), store.finish_hooked(holding.node, [said])
            )
            assert await state_of(store, second.id) is State.CANCELED
            assert await claimed_ids(store, holding.node) == [third.id]

    async def _race(self, store: Store, keys: Keys) -> None:
        jobs = [new_job() for _ in range(10)]
        placed = await asyncio.gather(*(place(store, job, keys) for job in jobs))
        (winner,) = [each.id for each in placed if each.created]
        assert [each.id for each in placed] == [winner] * len(jobs)
        assert [found.id for found in await store.get_jobs([job.id for job in jobs])] == [winner]

    async def _live(self, store: Store, ids: list[UUID]) -> list[UUID]:
        return [found.id for found in await store.get_jobs(ids) if not found.state.terminal]
