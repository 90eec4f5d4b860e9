"""What `ControlStore` promises for many jobs and for queues: pages that come to an end."""

from collections.abc import Callable
from uuid import UUID

import pytest

from detent.model.job import Claim, JobFilter, LogLine, Settlement
from detent.model.state import TERMINAL, State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    HOUR,
    canceled,
    completion,
    failed,
    idempotent,
    new_job,
    parked,
    released,
    unique,
)
from detent.testing.conformance.steps import (
    claimed,
    enqueued,
    held,
    held_many,
    in_state,
    info,
    joined,
    now_of,
    place,
    settled,
    state_of,
    states_of,
)

ALL = JobFilter()


class PageConformance:
    """Bulk control, deletion, and pausing queues."""

    async def _one_of_each(self, store: Store) -> dict[State, UUID]:
        return {state: await in_state(store, state, new_job(state)) for state in State}

    @pytest.mark.parametrize(
        "verb, moved",
        [
            (Verb.CANCEL, [State.PENDING, State.WAITING, State.RUNNING, State.PAUSED]),
            (Verb.PAUSE, [State.PENDING]),
            (Verb.RESUME, [State.PAUSED]),
            (Verb.RESCHEDULE, [State.PENDING, State.PAUSED]),
            (Verb.RETRY, list(TERMINAL)),
        ],
        ids=str,
    )
    async def test_a_page_moves_the_jobs_that_allow_it(
        self, store: Store, verb: Verb, moved: list[State]
    ) -> None:
        jobs = await self._one_of_each(store)
        before = {state: await info(store, job_id) for state, job_id in jobs.items()}
        change = Change(due_at=await now_of(store) + HOUR)
        assert await store.control_page(verb, ALL, 100, change) == len(moved)
        for state, job_id in jobs.items():
            assert (await info(store, job_id) != before[state]) is (state in moved), state

    async def test_pages_come_to_an_end(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(7)))
        pages = [await store.control_page(Verb.PAUSE, ALL, 3, Change()) for _ in range(4)]
        assert pages == [3, 3, 1, 0]
        assert await states_of(store, ids) == [State.PAUSED] * 7
        pages = [await store.control_page(Verb.CANCEL, ALL, 5, Change()) for _ in range(3)]
        assert pages == [5, 2, 0]
        failed_only = JobFilter(states=(State.CANCELED,))
        pages = [await store.control_page(Verb.RETRY, failed_only, 4, Change()) for _ in range(3)]
        assert pages == [4, 3, 0]
        assert await states_of(store, ids) == [State.PENDING] * 7

    async def test_pages_of_requests_come_to_an_end(self, store: Store) -> None:
        node, _ = await held_many(store, 5)
        pages = [
            await store.control_page(Verb.CANCEL, ALL, 3, Change(reason="enough")) for _ in range(3)
        ]
        assert pages == [3, 2, 0], "who was asked is not asked again"
        signals = await store.signals_for(node)
        assert [signal.reason for signal in signals] == ["enough"] * 5

    async def test_pages_of_new_times_come_to_an_end(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(5)))
        moment = await now_of(store) + HOUR
        change = Change(due_at=moment)
        pages = [await store.control_page(Verb.RESCHEDULE, ALL, 3, change) for _ in range(3)]
        assert pages == [3, 2, 0]
        assert [found.due_at for found in await store.get_jobs(ids)] == [moment] * 5

    async def test_a_page_takes_only_what_its_filter_means(self, store: Store) -> None:
        mail, other, tagged = await enqueued(
            store, new_job("mail"), new_job("other"), new_job("mail", tags=["vip"])
        )
        where = JobFilter(queue="mail", tag="vip")
        assert await store.control_page(Verb.CANCEL, where, 100, Change(reason="enough")) == 1
        assert await states_of(store, [mail, other, tagged]) == [
            State.PENDING,
            State.PENDING,
            State.CANCELED,
        ]
        assert (await info(store, tagged)).reason == "enough"
        where = JobFilter(states=(State.PAUSED,))
        assert await store.control_page(Verb.CANCEL, where, 100, Change()) == 0

    async def test_jobs_that_refuse_do_not_fill_a_page(self, store: Store) -> None:
        node, claims = await held_many(store, 4)
        await store.finish_jobs(node, [completion(claim) for claim in claims])
        ids = await enqueued(store, *(new_job() for _ in range(2)))
        assert await store.control_page(Verb.CANCEL, ALL, 2, Change()) == 2
        assert await states_of(store, ids) == [State.CANCELED] * 2

    async def test_a_page_frees_and_takes_business_keys(self, store: Store) -> None:
        old = await in_state(store, State.PENDING, keys=unique("user-1"))
        assert await store.control_page(Verb.CANCEL, ALL, 10, Change()) == 1
        holder = new_job(delay=3600)
        assert (await place(store, holder, unique("user-1"))).created
        plain = await in_state(store, State.FAILED, new_job("mail"))
        retried = [await store.control_page(Verb.RETRY, ALL, 1, Change()) for _ in range(2)]
        assert retried == [1, 0], "a taken key stops nobody else"
        assert await states_of(store, [old, plain]) == [State.CANCELED, State.PENDING]

    async def test_two_jobs_of_one_business_key_are_not_both_retried(self, store: Store) -> None:
        ids = [await in_state(store, State.FAILED, keys=unique("user-1")) for _ in range(2)]
        pages = [await store.control_page(Verb.RETRY, ALL, 10, Change()) for _ in range(2)]
        assert pages == [1, 0]
        assert sorted(await states_of(store, ids)) == [State.FAILED, State.PENDING]

    async def test_a_canceled_page_wakes_who_waited(self, store: Store) -> None:
        holding = await held(store, keys=unique("user-1"))
        new = new_job()
        await place(store, new, unique("user-1", "replace"))
        await store.release_claims(holding.node, [holding.claim[:2]])
        where = JobFilter(states=(State.PENDING,))
        assert await store.control_page(Verb.CANCEL, where, 10, Change()) == 1
        assert await states_of(store, [holding.claim.id, new.id]) == [
            State.CANCELED,
            State.PENDING,
        ]

    @pytest.mark.parametrize("end", [released, parked], ids=["pending", "waiting"])
    async def test_a_page_with_a_job_and_its_replacement_frees_their_key(
        self, store: Store, end: Callable[[Claim], Settlement]
    ) -> None:
        holding = await held(store, keys=unique("user-1"))
        await place(store, new_job(), unique("user-1", "replace"))
        await settled(store, holding, end(holding.claim))
        while await store.control_page(Verb.CANCEL, ALL, 10, Change()):
            pass
        assert {found.state for found in await store.list_jobs(ALL, 10)} == {State.CANCELED}
        assert (await place(store, new_job(), unique("user-1"))).created

    # Deleting

    async def test_only_ended_jobs_are_deleted(self, store: Store) -> None:
        jobs = await self._one_of_each(store)
        assert await store.delete_page(ALL, 100) == len(TERMINAL)
        left = [job_id for state, job_id in jobs.items() if not state.terminal]
        assert [found.id for found in await store.get_jobs(list(jobs.values()))] == left
        assert await store.delete_page(ALL, 100) == 0

    async def test_deletion_goes_by_pages_and_filters(self, store: Store) -> None:
        node, claims = await held_many(store, 5)
        await store.settle_jobs(node, [failed(claim) for claim in claims])
        kept = await in_state(store, State.SUCCEEDED)
        where = JobFilter(states=(State.FAILED,))
        assert [await store.delete_page(where, 2) for _ in range(4)] == [2, 2, 1, 0]
        assert await state_of(store, kept) is State.SUCCEEDED

    async def test_of_some_jobs_those_that_have_ended_are_deleted(self, store: Store) -> None:
        jobs = await self._one_of_each(store)
        kept = await in_state(store, State.FAILED)
        gone = await store.delete_jobs([*jobs.values(), new_job().id])
        assert sorted(gone) == sorted(jobs[state] for state in TERMINAL)
        left = [job_id for state, job_id in jobs.items() if not state.terminal]
        assert [found.id for found in await store.get_jobs([*jobs.values(), kept])] == [*left, kept]
        assert await store.delete_jobs(gone) == []
        assert await store.delete_jobs([]) == []

    async def test_nothing_of_a_deleted_job_is_left(self, store: Store) -> None:
        holding = await held(store)
        claim = holding.claim
        line = LogLine(claim.id, claim.fence, 1, "info", "hello")
        await store.append_log(holding.node, [line])
        await settled(store, holding, failed(claim))
        assert await store.delete_page(ALL, 10) == 1
        assert await store.get_jobs([claim.id]) == []
        assert await store.ended([claim.id]) == []
        assert await store.attempts(claim.id) == []
        assert await store.log_of(claim.id, 10) == []
        assert await store.list_jobs(ALL, 10) == []

    async def test_a_deleted_job_leaves_its_idempotency_key(self, store: Store) -> None:
        holding = await held(store, keys=idempotent("order-1"))
        await settled(store, holding, canceled(holding.claim))
        await store.delete_page(ALL, 10)
        job = new_job()
        placed = await place(store, job, idempotent("order-1"))
        assert (placed.id, placed.created) == (job.id, True)

    async def test_the_key_of_a_living_job_is_not_deleted_with_an_old_one(
        self, store: Store
    ) -> None:
        await in_state(store, State.FAILED, keys=unique("user-1"))
        holder = new_job(delay=3600)
        await place(store, holder, unique("user-1"))
        await store.delete_page(ALL, 10)
        told = await place(store, new_job(), unique("user-1", "return"))
        assert (told.id, told.created) == (holder.id, False)

    # Queues

    async def test_a_queue_that_nobody_used_can_be_paused(self, store: Store) -> None:
        await store.pause_queue("mail")
        await enqueued(store, new_job("mail"))
        assert await claimed(store, await joined(store), "mail") == []

    async def test_resuming_a_queue_that_was_not_paused_is_harmless(self, store: Store) -> None:
        await store.resume_queue("mail")
        await enqueued(store, new_job("mail"))
        assert len(await claimed(store, await joined(store), "mail")) == 1
