"""What `ControlStore` promises for one job: the moves of the model's table, and no others."""

import asyncio
from datetime import timedelta

import pytest

from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.model.job import Hook
from detent.model.state import LIVE, MOVES, TERMINAL, State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    canceled,
    completion,
    failed,
    new_id,
    new_job,
    retried,
    settlement,
    unique,
)
from detent.testing.conformance.pages import PageConformance
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    in_state,
    info,
    joined,
    now_of,
    place,
    settled,
    state_of,
)

PEOPLES_VERBS = (Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.RESCHEDULE, Verb.RETRY)


class ControlConformance(PageConformance):
    """What people may do to one job, to many, and to queues."""

    @pytest.mark.parametrize("verb", PEOPLES_VERBS, ids=str)
    @pytest.mark.parametrize("state", list(State), ids=str)
    async def test_only_the_moves_of_the_table_are_made(
        self, store: Store, state: State, verb: Verb
    ) -> None:
        job_id = await in_state(store, state)
        before = await info(store, job_id)
        change = Change(delay=HOUR)
        if (state, verb) not in MOVES:
            with pytest.raises(Conflict) as refused:
                await store.control_job(verb, job_id, change)
            assert (refused.value.job_id, refused.value.verb) == (job_id, verb)
            assert state in refused.value.state
            assert await info(store, job_id) == before
            return
        asked_only = (state, verb) == (State.RUNNING, Verb.CANCEL)
        expected = State.RUNNING if asked_only else MOVES[state, verb]
        assert await store.control_job(verb, job_id, change) is expected
        assert await state_of(store, job_id) is expected

    @pytest.mark.parametrize("verb", PEOPLES_VERBS, ids=str)
    async def test_an_unknown_job_is_not_found(self, store: Store, verb: Verb) -> None:
        stranger = new_id()
        with pytest.raises(JobNotFound) as refused:
            await store.control_job(verb, stranger, Change())
        assert refused.value.job_id == stranger

    @pytest.mark.parametrize("expected", list(State), ids=str)
    async def test_a_job_in_another_state_than_expected_is_left_alone(
        self, store: Store, expected: State
    ) -> None:
        (job_id,) = await enqueued(store)
        change = Change(expected=expected)
        if expected is State.PENDING:
            assert await store.control_job(Verb.CANCEL, job_id, change) is State.CANCELED
            return
        with pytest.raises(Conflict):
            await store.control_job(Verb.CANCEL, job_id, change)
        assert await state_of(store, job_id) is State.PENDING

    @pytest.mark.parametrize("state", list(State), ids=str)
    async def test_a_job_of_another_generation_than_expected_is_left_alone(
        self, store: Store, state: State
    ) -> None:
        job_id = await in_state(store, state)
        before = await info(store, job_id)
        verb = Verb.RETRY if state.terminal else Verb.CANCEL
        for wrong in (before.generation - 1, before.generation + 1):
            with pytest.raises(Conflict):
                await store.control_job(verb, job_id, Change(generation=wrong))
            assert await info(store, job_id) == before
        await store.control_job(verb, job_id, Change(generation=before.generation, expected=state))

    # Cancel

    @pytest.mark.parametrize("state", [State.PENDING, State.WAITING, State.PAUSED], ids=str)
    async def test_canceling_a_job_that_does_not_run_ends_it(
        self, store: Store, state: State
    ) -> None:
        job_id = await in_state(store, state)
        before = await info(store, job_id)
        start = await now_of(store)
        await store.control_job(Verb.CANCEL, job_id, Change(reason="enough"))
        found = await info(store, job_id)
        assert (found.state, found.reason) == (State.CANCELED, "enough")
        assert (found.attempt, found.generation) == (before.attempt, before.generation)
        assert (found.superseded_by, found.result, found.error) == (None, None, None)
        assert found.finished_at is not None
        assert start <= found.finished_at <= await now_of(store)
        assert await store.attempts(job_id) == []
        await joined(store)
        assert await claimed(store, await joined(store)) == []

    async def test_canceling_a_running_job_is_a_request(self, store: Store) -> None:
        holding = await held(store)
        for reason in ("enough", "more than enough"):
            change = Change(reason=reason)
            state = await store.control_job(Verb.CANCEL, holding.claim.id, change)
            assert state is State.RUNNING
        assert (await info(store, holding.claim.id)).cancel_requested
        (signal,) = await store.signals_for(holding.node)
        assert signal[:3] == (holding.claim.id, holding.claim.fence, "cancel")
        accepted = await store.finish_jobs(holding.node, [completion(holding.claim)])
        assert accepted == [holding.claim.id], "the job may be faster"

    async def test_a_request_that_was_heard_ends_the_job(self, store: Store) -> None:
        holding = await held(store)
        await store.control_job(Verb.CANCEL, holding.claim.id, Change(reason="enough"))
        await settled(store, holding, canceled(holding.claim, "enough"))
        found = await info(store, holding.claim.id)
        assert (found.state, found.reason) == (State.CANCELED, "enough")
        assert not found.cancel_requested

    async def test_a_job_that_went_back_after_a_request_may_still_be_canceled(
        self, store: Store
    ) -> None:
        holding = await held(store)
        await store.control_job(Verb.CANCEL, holding.claim.id, Change())
        await settled(store, holding, retried(holding.claim))
        assert await store.control_job(Verb.CANCEL, holding.claim.id, Change()) is State.CANCELED
        await store.control_job(Verb.RETRY, holding.claim.id, Change())
        assert await claimed_ids(store, holding.node) == [holding.claim.id]
        assert await store.signals_for(holding.node) == []

    # Pause, resume, reschedule

    async def test_a_paused_job_keeps_attempt_and_place(self, store: Store) -> None:
        now = await now_of(store)
        jobs = [new_job(due_at=now - minutes * MINUTE) for minutes in (2, 1)]
        await store.enqueue_jobs(jobs)
        node = await joined(store)
        (claim,) = await claimed(store, node, limit=1)
        await store.settle_jobs(node, [retried(claim)])
        await store.control_job(Verb.RESCHEDULE, claim.id, Change(due_at=claim.due_at))
        await store.control_job(Verb.PAUSE, claim.id, Change())
        found = await info(store, claim.id)
        assert (found.state, found.attempt, found.due_at) == (State.PAUSED, 2, claim.due_at)
        assert await store.look(["default"]) != []
        assert await store.control_job(Verb.RESUME, claim.id, Change()) is State.PENDING
        again, other = await claimed(store, node)
        assert (again.id, again.attempt, again.due_at) == (claim.id, 2, claim.due_at)
        assert other.id == jobs[1].id

    async def test_a_paused_job_is_not_claimed(self, store: Store) -> None:
        await in_state(store, State.PAUSED)
        assert await claimed(store, await joined(store)) == []
        assert await store.look(["default"]) == []

    @pytest.mark.parametrize("state", [State.PENDING, State.PAUSED], ids=str)
    async def test_a_job_is_rescheduled_to_a_moment_or_by_a_delay(
        self, store: Store, state: State
    ) -> None:
        job_id = await in_state(store, state)
        moment = (await now_of(store)).replace(microsecond=123457) + HOUR
        await store.control_job(Verb.RESCHEDULE, job_id, Change(due_at=moment))
        found = await info(store, job_id)
        assert (found.state, found.due_at, found.attempt) == (state, moment, 1)
        before = await now_of(store)
        await store.control_job(Verb.RESCHEDULE, job_id, Change(delay=2 * HOUR))
        due_at = (await info(store, job_id)).due_at
        assert before + 2 * HOUR <= due_at <= await now_of(store) + 2 * HOUR
        await store.control_job(Verb.RESCHEDULE, job_id, Change(delay=timedelta(0)))
        if state is State.PAUSED:
            await store.control_job(Verb.RESUME, job_id, Change())
        assert await claimed_ids(store, await joined(store)) == [job_id]

    # Retry

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    async def test_a_retry_starts_a_new_generation(self, store: Store, state: State) -> None:
        holding = await held(store)
        await settled(store, holding, retried(holding.claim))
        (claim,) = await claimed(store, holding.node)
        ends = {
            State.SUCCEEDED: settlement(claim, State.SUCCEEDED),
            State.FAILED: failed(claim, b"why"),
            State.CANCELED: canceled(claim),
        }
        await settled(store, holding, ends[state])
        old, tries = await info(store, claim.id), await store.attempts(claim.id)

        before = await now_of(store)
        assert await store.control_job(Verb.RETRY, claim.id, Change()) is State.PENDING
        found = await info(store, claim.id)
        assert (found.attempt, found.crashes) == (1, 0)
        assert found.generation == old.generation + 1
        assert before <= found.due_at <= await now_of(store)
        assert (found.finished_at, found.result, found.error, found.reason) == (None,) * 4
        assert await store.ended([claim.id]) == []

        attempts = await store.attempts(claim.id)
        put_aside = attempts[-1]
        # A failed try stands there already, and once.
        assert attempts == (tries if state is State.FAILED else [*tries, put_aside])
        assert (put_aside.kind, put_aside.error) == (state, old.error)
        assert (put_aside.number, put_aside.generation) == (2, old.generation)
        assert put_aside.node == old.node
        if state is not State.FAILED:
            assert put_aside.started_at == old.started_at
            assert put_aside.ended_at == old.finished_at

        (again,) = await claimed(store, holding.node)
        assert (again.id, again.attempt, again.crashes) == (claim.id, 1, 0)
        assert again.generation == old.generation + 1
        assert again.args == claim.args

    async def test_a_retried_job_can_end_again(self, store: Store) -> None:
        holding = await held(store)
        claim = holding.claim
        for generation in range(3):
            assert claim.generation == holding.claim.generation + generation
            await settled(store, holding, failed(claim))
            await store.control_job(Verb.RETRY, claim.id, Change())
            (claim,) = await claimed(store, holding.node)
        await store.finish_jobs(holding.node, [completion(claim)])
        assert await state_of(store, claim.id) is State.SUCCEEDED
        tries = [(each.generation, each.number) for each in await store.attempts(claim.id)]
        first = holding.claim.generation
        assert tries == [(first + each, 1) for each in range(3)], "each try once"

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    async def test_a_retry_takes_the_business_key_again(self, store: Store, state: State) -> None:
        job_id = await in_state(store, state, keys=unique("user-1"))
        await store.control_job(Verb.RETRY, job_id, Change())
        told = await place(store, new_job(), unique("user-1", "return"))
        assert (told.id, told.created) == (job_id, False)
        node = await joined(store)
        (claim,) = await claimed(store, node)
        assert claim.hooks & Hook.KEY
        await store.finish_hooked(node, [settlement(claim, State.SUCCEEDED)])
        assert (await place(store, new_job(), unique("user-1"))).created

    async def test_a_retry_is_refused_while_another_job_holds_the_key(self, store: Store) -> None:
        old = await in_state(store, State.FAILED, keys=unique("user-1"))
        before, attempts = await info(store, old), await store.attempts(old)
        holder = new_job()
        await place(store, holder, unique("user-1"))
        with pytest.raises(KeyTaken) as refused:
            await store.control_job(Verb.RETRY, old, Change())
        assert (refused.value.key, refused.value.job_id) == ("user-1", holder.id)
        assert await info(store, old) == before
        assert await store.attempts(old) == attempts

    async def test_a_replaced_job_is_not_retried_beside_its_replacement(self, store: Store) -> None:
        old = await in_state(store, State.PENDING, keys=unique("user-1"))
        await place(store, new_job(), unique("user-1", "replace"))
        with pytest.raises(KeyTaken):
            await store.control_job(Verb.RETRY, old, Change())

    # Races

    @pytest.mark.parametrize("state", [State.PENDING, State.PAUSED, State.WAITING], ids=str)
    async def test_of_many_cancels_at_once_one_wins(self, store: Store, state: State) -> None:
        job_id = await in_state(store, state)
        answers = await asyncio.gather(
            *(store.control_job(Verb.CANCEL, job_id, Change()) for _ in range(6)),
            return_exceptions=True,
        )
        assert [each for each in answers if not isinstance(each, Conflict)] == [State.CANCELED]

    async def test_of_many_retries_at_once_one_wins(self, store: Store) -> None:
        job_id = await in_state(store, State.FAILED)
        generation = (await info(store, job_id)).generation
        answers = await asyncio.gather(
            *(store.control_job(Verb.RETRY, job_id, Change()) for _ in range(6)),
            return_exceptions=True,
        )
        assert [each for each in answers if not isinstance(each, Conflict)] == [State.PENDING]
        assert (await info(store, job_id)).generation == generation + 1
        assert await claimed_ids(store, await joined(store)) == [job_id]

    async def test_a_cancel_and_a_claim_at_once_agree(self, store: Store) -> None:
        node = await joined(store)
        for _ in range(10):
            (job_id,) = await enqueued(store)
            state, claims = await asyncio.gather(
                store.control_job(Verb.CANCEL, job_id, Change()), claimed(store, node)
            )
            if claims:
                assert state is State.RUNNING
                assert [signal.id for signal in await store.signals_for(node)] == [job_id]
                await store.settle_jobs(node, [canceled(claims[0])])
            else:
                assert state is State.CANCELED
            assert await state_of(store, job_id) is State.CANCELED

    @pytest.mark.parametrize("state", LIVE, ids=str)
    async def test_a_live_job_is_in_one_place(self, store: Store, state: State) -> None:
        job_id = await in_state(store, state)
        assert await store.ended([job_id]) == []
        assert len(await store.get_jobs([job_id])) == 1
