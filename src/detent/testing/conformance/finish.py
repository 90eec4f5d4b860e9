"""What `FinishStore` promises: one accepted end per claim, and what each kind of end leaves."""

import asyncio
from datetime import timedelta

import pytest

from detent.model.job import Claim, Completion, JobInfo, Progress, Settlement
from detent.model.state import State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    canceled,
    completion,
    failed,
    new_id,
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
    enqueued,
    held,
    held_many,
    info,
    joined,
    now_of,
    place,
    settled,
    state_of,
    states_of,
)

ENDS = {
    "succeeded": lambda claim: settlement(claim, State.SUCCEEDED),
    "failed": failed,
    "canceled": canceled,
    "retried": retried,
    "released": released,
    "parked": parked,
}


class FinishConformance:
    """Successes, other ends, and ends of jobs with hooks."""

    async def test_a_success_is_written_with_its_result(self, store: Store) -> None:
        node, claim = await held(store)
        before = await now_of(store)
        assert await store.finish_jobs(node, [completion(claim, b"42")]) == [claim.id]
        found = await info(store, claim.id)
        assert (found.state, found.result, found.error) == (State.SUCCEEDED, b"42", None)
        assert (found.attempt, found.generation) == (1, claim.generation)
        assert found.node == node
        assert found.finished_at is not None
        assert before <= found.finished_at <= await now_of(store)
        assert found.duration == timedelta(seconds=1.5)
        self._expect_start(found)
        assert await store.attempts(claim.id) == []
        assert await store.claims_of(node) == []

    async def test_a_success_without_a_result(self, store: Store) -> None:
        node, claim = await held(store)
        await store.finish_jobs(node, [completion(claim, None)])
        assert (await info(store, claim.id)).result is None

    async def test_nothing_to_write_is_no_error(self, store: Store) -> None:
        node = await joined(store)
        assert await store.finish_jobs(node, []) == []
        assert await store.settle_jobs(node, []) == []
        assert await store.finish_hooked(node, []) == []

    # The fence

    async def test_of_a_batch_of_successes_only_valid_claims_count(self, store: Store) -> None:
        node, (first, stale, second, stranger) = await held_many(store, 4)
        batch = [
            completion(second),
            completion(stale)._replace(fence=stale.fence + 1),
            completion(first),
            completion(stranger)._replace(id=new_id()),
        ]
        assert sorted(await store.finish_jobs(node, batch)) == [first.id, second.id]
        assert await states_of(store, [first.id, stale.id, second.id, stranger.id]) == [
            State.SUCCEEDED,
            State.RUNNING,
            State.SUCCEEDED,
            State.RUNNING,
        ]

    @pytest.mark.parametrize("end", ENDS)
    async def test_of_a_batch_of_ends_only_valid_claims_count(self, store: Store, end: str) -> None:
        node, (first, stale, second) = await held_many(store, 3)
        said = [ENDS[end](claim) for claim in (first, stale, second)]
        said[1] = said[1]._replace(fence=stale.fence - 1)
        assert sorted(await store.settle_jobs(node, said)) == [first.id, second.id]
        assert await state_of(store, stale.id) is State.RUNNING
        assert await store.attempts(stale.id) == []

    @pytest.mark.parametrize("end", ENDS)
    async def test_of_a_batch_with_hooks_only_valid_claims_count(
        self, store: Store, end: str
    ) -> None:
        node, claim = await held(store, keys=unique("user-1"))
        other = await held(store, keys=unique("user-2"))
        said = [ENDS[end](claim), ENDS[end](other.claim)]
        assert await store.finish_hooked(node, said) == [claim.id]
        assert await state_of(store, other.claim.id) is State.RUNNING
        placed = await place(store, new_job(), unique("user-2", "return"))
        assert not placed.created, "the key of a refused end is not released"

    @pytest.mark.parametrize("end", ENDS)
    async def test_another_incarnation_cannot_end_a_claim(self, store: Store, end: str) -> None:
        _, claim = await held(store)
        other = await joined(store)
        assert await store.finish_jobs(other, [completion(claim)]) == []
        assert await store.settle_jobs(other, [ENDS[end](claim)]) == []
        assert await store.finish_hooked(other, [ENDS[end](claim)]) == []
        assert await state_of(store, claim.id) is State.RUNNING

    @pytest.mark.parametrize("end", ENDS)
    async def test_an_end_counts_once(self, store: Store, end: str) -> None:
        node, claim = await held(store)
        assert await store.settle_jobs(node, [ENDS[end](claim)]) == [claim.id]
        after, attempts = await info(store, claim.id), await store.attempts(claim.id)
        assert await store.settle_jobs(node, [ENDS[end](claim)]) == []
        assert await store.settle_jobs(node, [failed(claim)]) == []
        assert await store.finish_jobs(node, [completion(claim)]) == []
        assert await store.finish_hooked(node, [canceled(claim)]) == []
        assert await info(store, claim.id) == after
        assert await store.attempts(claim.id) == attempts

    async def test_an_old_claim_cannot_end_the_next_one(self, store: Store) -> None:
        node, claim = await held(store)
        await store.settle_jobs(node, [released(claim)])
        (again,) = await claimed(store, node)
        assert await store.finish_jobs(node, [completion(claim)]) == []
        assert await store.settle_jobs(node, [failed(claim)]) == []
        assert await store.finish_jobs(node, [completion(again)]) == [claim.id]

    async def test_of_many_ends_at_once_one_is_accepted(self, store: Store) -> None:
        node, claims = await held_many(store, 5)

        async def finish(batch: list[Completion]) -> int:
            return len(await store.finish_jobs(node, batch))

        async def settle(batch: list[Settlement]) -> int:
            return len(await store.settle_jobs(node, batch))

        accepted = await asyncio.gather(
            *(finish([completion(claim) for claim in claims]) for _ in range(3)),
            *(settle([failed(claim) for claim in reversed(claims)]) for _ in range(3)),
            *(settle([canceled(claim) for claim in claims]) for _ in range(3)),
        )
        assert sum(accepted) == len(claims)
        ended = await store.ended([claim.id for claim in claims])
        assert len(ended) == len(claims)

    async def test_a_claim_outlives_the_lease_until_somebody_takes_it(self, store: Store) -> None:
        node, claim = await held(store)
        await store.beat(node, timedelta(seconds=-1))
        assert await store.finish_jobs(node, [completion(claim)]) == [claim.id]

    async def test_a_draining_node_finishes_what_it_has(self, store: Store) -> None:
        node, claim = await held(store)
        await store.drain(node)
        assert await store.finish_jobs(node, [completion(claim)]) == [claim.id]

    # Going back

    async def test_a_retry_raises_the_attempt_and_keeps_the_failed_one(self, store: Store) -> None:
        node, claim = await held(store)
        before = await now_of(store)
        said = retried(claim, delay=3600.0, error=b"why")
        assert await store.settle_jobs(node, [said]) == [claim.id]
        after = await now_of(store)
        found = await info(store, claim.id)
        assert (found.state, found.attempt, found.crashes) == (State.PENDING, 2, 0)
        assert found.generation == claim.generation
        assert before + HOUR <= found.due_at <= after + HOUR
        assert (found.node, found.fence, found.started_at, found.error) == (None,) * 4
        (attempt,) = await store.attempts(claim.id)
        assert (attempt.number, attempt.generation) == (1, claim.generation)
        assert (attempt.kind, attempt.node, attempt.error) == ("failed", node, b"why")
        assert attempt.started_at is not None
        assert before <= attempt.ended_at <= after

    async def test_attempts_are_counted_and_kept_in_order(self, store: Store) -> None:
        node, claim = await held(store)
        for number in (1, 2, 3):
            assert claim.attempt == number
            await store.settle_jobs(node, [retried(claim)._replace(kind="timed_out")])
            (claim,) = await claimed(store, node)
        await store.settle_jobs(node, [failed(claim)])
        assert (await info(store, claim.id)).attempt == 4
        assert [(each.number, each.kind) for each in await store.attempts(claim.id)] == [
            (1, "timed_out"),
            (2, "timed_out"),
            (3, "timed_out"),
            (4, "failed"),
        ]

    async def test_a_retry_without_delay_is_due_at_once(self, store: Store) -> None:
        holding = await held(store)
        await settled(store, holding, retried(holding.claim, delay=0.0))
        assert await claimed_ids(store, holding.node) == [holding.claim.id]

    async def test_a_snooze_costs_no_attempt(self, store: Store) -> None:
        holding = await held(store)
        before = await now_of(store)
        await settled(store, holding, settlement(holding.claim, State.PENDING, delay=3600.0))
        found = await info(store, holding.claim.id)
        assert (found.state, found.attempt) == (State.PENDING, 1)
        assert before + HOUR <= found.due_at <= await now_of(store) + HOUR
        assert await store.attempts(holding.claim.id) == []
        assert await claimed(store, holding.node) == []

    async def test_a_release_keeps_attempt_and_place(self, store: Store) -> None:
        now = await now_of(store)
        jobs = [new_job(due_at=now - minutes * MINUTE) for minutes in (3, 2, 1)]
        await store.enqueue_jobs(jobs)
        node = await joined(store)
        (claim,) = await claimed(store, node, limit=1)
        await store.settle_jobs(node, [released(claim)])
        found = await info(store, claim.id)
        assert (found.state, found.attempt, found.due_at) == (State.PENDING, 1, jobs[0].due_at)
        assert await store.attempts(claim.id) == []
        assert await claimed_ids(store, node) == [job.id for job in jobs]

    async def test_a_job_of_an_unknown_task_is_parked_with_its_reason(self, store: Store) -> None:
        holding = await held(store)
        await settled(store, holding, parked(holding.claim, "unknown_task"))
        found = await info(store, holding.claim.id)
        assert (found.state, found.reason) == (State.WAITING, "unknown_task")
        assert (found.attempt, found.node) == (1, None)
        assert await store.attempts(holding.claim.id) == []
        assert await claimed(store, holding.node) == []
        assert await store.look(["default"]) == []

    # Ending

    async def test_a_failure_leaves_an_outcome_and_an_attempt(self, store: Store) -> None:
        node, claim = await held(store)
        assert await store.settle_jobs(node, [failed(claim, b"why")]) == [claim.id]
        found = await info(store, claim.id)
        assert (found.state, found.attempt, found.error) == (State.FAILED, 1, b"why")
        assert (found.node, found.result, found.reason) == (node, None, None)
        assert found.duration == timedelta(seconds=1.5)
        self._expect_start(found)
        (attempt,) = await store.attempts(claim.id)
        assert (attempt.number, attempt.generation) == (1, claim.generation)
        assert (attempt.kind, attempt.node, attempt.error) == ("failed", node, b"why")
        assert attempt.started_at == found.started_at

    async def test_a_canceled_job_says_why(self, store: Store) -> None:
        holding = await held(store)
        await settled(store, holding, canceled(holding.claim, "no longer wanted"))
        found = await info(store, holding.claim.id)
        assert (found.state, found.reason) == (State.CANCELED, "no longer wanted")
        assert await store.attempts(holding.claim.id) == []

    async def test_different_ends_go_in_one_batch(self, store: Store) -> None:
        node, claims = await held_many(store, len(ENDS))
        said = [end(claim) for end, claim in zip(ENDS.values(), claims, strict=True)]
        assert sorted(await store.settle_jobs(node, said[::-1])) == [claim.id for claim in claims]
        assert await states_of(store, [claim.id for claim in claims]) == [
            each.state for each in said
        ]

    @pytest.mark.parametrize("short", [True, False], ids=["finish_jobs", "settle_jobs"])
    async def test_the_end_of_a_job_takes_its_messages_and_progress_along(
        self, store: Store, short: bool
    ) -> None:
        node, claim = await held(store)
        await store.save_progress(node, [Progress(claim.id, claim.fence, 0.5, "half")])
        await store.control_job(Verb.CANCEL, claim.id, Change())
        if short:
            await store.finish_jobs(node, [completion(claim)])
        else:
            await store.settle_jobs(node, [failed(claim)])
        found = await info(store, claim.id)
        assert (found.progress, found.progress_message) == (None, None)
        assert not found.cancel_requested
        assert found.cancel_too_late, "somebody asked, and it ended otherwise"
        await store.control_job(Verb.RETRY, claim.id, Change())
        assert not (await info(store, claim.id)).cancel_too_late
        assert await claimed_ids(store, node) == [claim.id]
        assert await store.signals_for(node) == [], "a new generation was not canceled"
        assert (await info(store, claim.id)).progress is None

    # Hooks; what keys promise is in `keys`

    @pytest.mark.parametrize("end", ENDS)
    async def test_ends_with_hooks_mean_the_same(self, store: Store, end: str) -> None:
        plain = await held(store)
        hooked = await held(store, keys=unique("user-1"))
        await settled(store, plain, ENDS[end](plain.claim))
        await settled(store, hooked, ENDS[end](hooked.claim))
        one, two = await store.get_jobs([plain.claim.id, hooked.claim.id])
        for field in ("state", "attempt", "generation", "duration", "result", "error", "reason"):
            assert getattr(one, field) == getattr(two, field), field
        assert await self._kinds(store, plain.claim) == await self._kinds(store, hooked.claim)
        placed = await place(store, new_job(), unique("user-1", "return"))
        assert placed.created is one.state.terminal, "a key is released at the end only"

    async def test_jobs_with_and_without_hooks_may_end_together(self, store: Store) -> None:
        node, claims = await held_many(store, 2)
        keyed = new_job()
        await place(store, keyed, unique("user-1"))
        claims += await claimed(store, node)
        said = [settlement(claim, State.SUCCEEDED) for claim in claims]
        accepted = await store.finish_hooked(node, said)
        assert sorted(accepted) == sorted(claim.id for claim in claims)

    async def test_many_hooked_ends_and_enqueues_at_once_leave_nobody_behind(
        self, store: Store
    ) -> None:
        keys = [unique(f"user-{number}", "replace") for number in range(6)]
        holding = [await held(store, keys=each) for each in keys]
        node = await joined(store)
        new = [new_job() for _ in keys]
        await asyncio.gather(
            *(
                store.finish_hooked(each.node, [settlement(each.claim, State.SUCCEEDED)])
                for each in holding
            ),
            *(
                place(store, job, each)
                for job, each in zip(reversed(new), reversed(keys), strict=True)
            ),
        )
        assert sorted(await claimed_ids(store, node)) == [job.id for job in new]

    async def test_a_plain_job_is_not_touched_by_others_ends(self, store: Store) -> None:
        (waiting,) = await enqueued(store, new_job(delay=3600))
        holding = await held(store)
        await settled(store, holding, failed(holding.claim))
        assert await state_of(store, waiting) is State.PENDING

    def _expect_start(self, found: JobInfo) -> None:
        """An attempt began as long before its end as it took, near enough."""
        assert found.started_at is not None
        assert found.finished_at is not None
        assert found.duration is not None
        error = found.finished_at - found.duration - found.started_at
        assert abs(error) < timedelta(milliseconds=100)

    async def _kinds(self, store: Store, claim: Claim) -> list[tuple[int, str]]:
        return [(each.number, each.kind) for each in await store.attempts(claim.id)]
