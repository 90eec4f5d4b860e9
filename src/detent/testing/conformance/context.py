"""What `ContextStore` promises: messages reach running jobs, and only running jobs write."""

from collections.abc import Callable
from uuid import UUID

import pytest

from detent.errors import ClaimLost
from detent.model.job import Claim, LogLine, Progress, Settlement
from detent.model.state import State, Verb
from detent.spi.store import Change, PendingCompletion, Store
from detent.testing.conformance.builders import (
    canceled,
    completion,
    new_id,
    new_job,
    parked,
    released,
    retried,
    unique,
)
from detent.testing.conformance.steps import (
    Held,
    claimed,
    claimed_ids,
    enqueued,
    held,
    held_many,
    info,
    joined,
    place,
    place_within,
    settled,
    state_of,
)


class Interrupted(Exception):
    """Makes a task fail inside its transaction."""


def pending(result: bytes | None = None) -> PendingCompletion:
    """Return what a context hands to its transaction."""
    return PendingCompletion(queue="default", result=result)


def progress(holding: Held, fraction: float, message: str | None = None) -> Progress:
    """Return what a job says about itself."""
    return Progress(holding.claim.id, holding.claim.fence, fraction, message)


def line(holding: Held, message: str, level: str = "info") -> LogLine:
    """Return a line of a job's log."""
    return LogLine(holding.claim.id, holding.claim.fence, holding.claim.attempt, level, message)


class ContextConformance:
    """Signals, progress, logs, and transactions that include the completion."""

    # Signals

    async def test_a_message_reaches_the_node_that_runs_the_job(self, store: Store) -> None:
        node, (first, second) = await held_many(store, 2)
        other = await held(store)
        assert await store.signals_for(node) == []
        await store.control_job(Verb.CANCEL, second.id, Change(reason="enough"))
        for _ in range(2):  # it stays until the job ends
            (signal,) = await store.signals_for(node)
            assert signal == (second.id, second.fence, "cancel", "enough")
        assert await store.signals_for(other.node) == []
        await store.settle_jobs(node, [canceled(second)])
        assert await store.signals_for(node) == []
        assert await state_of(store, first.id) is State.RUNNING

    @pytest.mark.parametrize("end", [released, retried, parked], ids=lambda end: str(end.__name__))
    async def test_a_cancel_is_not_lost_when_its_job_goes_back(
        self, store: Store, end: Callable[[Claim], Settlement]
    ) -> None:
        holding = await held(store)
        await store.control_job(Verb.CANCEL, holding.claim.id, Change(reason="enough"))
        await settled(store, holding, end(holding.claim))
        await self._expect_cancel(store, holding)

    async def test_a_cancel_is_not_lost_when_its_claim_is_released(self, store: Store) -> None:
        holding = await held(store)
        await store.control_job(Verb.CANCEL, holding.claim.id, Change(reason="enough"))
        await store.release_claims(holding.node, [holding.claim[:2]])
        await self._expect_cancel(store, holding)

    async def _expect_cancel(self, store: Store, holding: Held) -> None:
        node = await joined(store)
        (claim,) = await claimed(store, node)
        assert claim.id == holding.claim.id
        (signal,) = await store.signals_for(node)
        assert signal == (claim.id, claim.fence, "cancel", "enough")
        assert await store.signals_for(holding.node) == []
        assert (await info(store, claim.id)).cancel_requested

    # Progress

    async def test_the_latest_progress_is_kept(self, store: Store) -> None:
        holding = await held(store)
        assert (await info(store, holding.claim.id)).progress is None
        await store.save_progress(holding.node, [progress(holding, 0.25, "a quarter")])
        await store.save_progress(holding.node, [progress(holding, 0.5)])
        found = await info(store, holding.claim.id)
        assert (found.progress, found.progress_message) == (0.5, None)
        await store.save_progress(holding.node, [progress(holding, 0.75, "größer")])
        found = await info(store, holding.claim.id)
        assert (found.progress, found.progress_message) == (0.75, "größer")

    async def test_only_a_valid_claim_says_how_far_it_is(self, store: Store) -> None:
        holding, other = await held(store), await held(store)
        stale = progress(holding, 0.5)._replace(fence=holding.claim.fence - 1)
        await store.save_progress(holding.node, [stale, progress(other, 0.5)])
        await store.save_progress(other.node, [progress(holding, 0.5), progress(other, 0.25)])
        await store.save_progress(holding.node, [progress(holding, 0.5)._replace(id=new_id())])
        assert (await info(store, holding.claim.id)).progress is None
        assert (await info(store, other.claim.id)).progress == 0.25
        await settled(store, holding, released(holding.claim))
        await store.save_progress(holding.node, [progress(holding, 0.5)])
        assert (await info(store, holding.claim.id)).progress is None

    @pytest.mark.parametrize("end", [released, retried, parked], ids=lambda end: str(end.__name__))
    async def test_a_job_that_goes_back_starts_at_the_beginning(
        self, store: Store, end: Callable[[Claim], Settlement]
    ) -> None:
        holding = await held(store)
        await store.save_progress(holding.node, [progress(holding, 0.5, "half")])
        await settled(store, holding, end(holding.claim))
        assert (await info(store, holding.claim.id)).progress is None
        node = await joined(store)
        (claim,) = await claimed(store, node)
        assert (await info(store, claim.id)).progress is None
        await store.save_progress(node, [progress(Held(node, claim), 0.25)])
        await store.release_claims(node, [(claim.id, claim.fence)])
        assert (await info(store, claim.id)).progress is None

    async def test_nothing_to_say_is_no_error(self, store: Store) -> None:
        node = await joined(store)
        await store.save_progress(node, [])
        await store.append_log(node, [])

    # Log

    async def test_log_lines_are_kept_in_order_and_outlive_the_job(self, store: Store) -> None:
        node, claim = holding = await held(store)
        await store.append_log(node, [line(holding, "one"), line(holding, "two", "warning")])
        await store.append_log(node, [line(holding, "größer")])
        await store.finish_jobs(node, [completion(claim)])
        lines = await store.log_of(claim.id, 10)
        assert [(each.attempt, each.level, each.message) for each in lines] == [
            (1, "info", "one"),
            (1, "warning", "two"),
            (1, "info", "größer"),
        ]
        assert [each.at for each in lines] == sorted(each.at for each in lines)

    async def test_only_a_valid_claim_writes_to_the_log(self, store: Store) -> None:
        holding, other = await held(store), await held(store)
        stale = line(holding, "stale")._replace(fence=holding.claim.fence - 1)
        await store.append_log(holding.node, [stale, line(other, "not mine")])
        await store.append_log(other.node, [line(holding, "nor mine"), line(other, "mine")])
        assert await store.log_of(holding.claim.id, 10) == []
        assert [each.message for each in await store.log_of(other.claim.id, 10)] == ["mine"]
        await settled(store, holding, retried(holding.claim))
        await store.append_log(holding.node, [line(holding, "late")])
        assert await store.log_of(holding.claim.id, 10) == []

    # Transactions; the effect is a job, since every store can keep one

    async def test_effects_and_success_come_together(self, store: Store) -> None:
        node, claim = await held(store)
        effect = new_job()
        completing = pending()
        async with store.transaction(node, claim, completing) as connection:
            await store.enqueue_within(connection, [effect], None)
            completing.result, completing.lasted = b"42", 1.5
            assert await store.get_jobs([effect.id]) == []
            assert await state_of(store, claim.id) is State.RUNNING
        found = await info(store, claim.id)
        assert (found.state, found.result, found.node) == (State.SUCCEEDED, b"42", node)
        assert found.duration is not None
        assert found.duration.total_seconds() == 1.5
        assert await claimed_ids(store, node) == [effect.id]
        assert await store.finish_jobs(node, [completion(claim)]) == [], "it was the one end"

    async def test_an_error_inside_leaves_nothing_but_the_claim(self, store: Store) -> None:
        node, claim = await held(store)
        effect = new_job()
        with pytest.raises(Interrupted):  # noqa: PT012  the error has to come last
            async with store.transaction(node, claim, pending()) as connection:
                await store.enqueue_within(connection, [effect], None)
                raise Interrupted
        assert await store.get_jobs([effect.id]) == []
        assert await state_of(store, claim.id) is State.RUNNING
        assert await store.finish_jobs(node, [completion(claim)]) == [claim.id]

    async def test_a_transaction_may_be_tried_again(self, store: Store) -> None:
        node, claim = await held(store)
        with pytest.raises(Interrupted):
            async with store.transaction(node, claim, pending()):
                raise Interrupted
        async with store.transaction(node, claim, pending(b"2")):
            pass
        assert (await info(store, claim.id)).result == b"2"

    async def test_a_lost_claim_opens_no_transaction(self, store: Store) -> None:
        node, claim = await held(store)
        other = await joined(store)
        wrong = [
            (node, claim._replace(fence=claim.fence - 1)),
            (node, claim._replace(id=new_id())),
            (other, claim),
        ]
        for incarnation, stale in wrong:
            with pytest.raises(ClaimLost):
                await self._enter(store, incarnation, Held(incarnation, stale))
        await store.release_claims(node, [(claim.id, claim.fence)])
        with pytest.raises(ClaimLost):
            await self._enter(store, node, Held(node, claim))
        assert await state_of(store, claim.id) is State.PENDING

    async def test_a_job_that_ended_opens_no_transaction(self, store: Store) -> None:
        node, claim = await held(store)
        async with store.transaction(node, claim, pending()):
            pass
        with pytest.raises(ClaimLost):
            await self._enter(store, node, Held(node, claim))

    async def test_a_transaction_takes_messages_and_progress_along(self, store: Store) -> None:
        node, claim = holding = await held(store)
        await store.save_progress(node, [progress(holding, 0.5)])
        await store.control_job(Verb.CANCEL, claim.id, Change())
        async with store.transaction(node, claim, pending()):
            pass
        found = await info(store, claim.id)
        assert (found.progress, found.cancel_requested) == (None, False)

    async def test_a_transaction_releases_the_business_key(self, store: Store) -> None:
        node, claim = await held(store, keys=unique("user-1"))
        replacement = new_job()
        await place(store, replacement, unique("user-1", "replace"))
        async with store.transaction(node, claim, pending()):
            pass
        assert await claimed_ids(store, node) == [replacement.id]
        node, claim = await held(store, keys=unique("user-2"))
        async with store.transaction(node, claim, pending()):
            pass
        assert (await place(store, new_job(), unique("user-2"))).created

    async def test_a_transaction_may_enqueue_with_keys(self, store: Store) -> None:
        node, claim = await held(store)
        job = new_job()
        async with store.transaction(node, claim, pending()) as connection:
            placed = await place_within(store, connection, job, unique("user-1"))
            assert placed.created
        told = await place(store, new_job(), unique("user-1", "return"))
        assert told.id == job.id

    async def test_transactions_of_different_jobs_stand_side_by_side(self, store: Store) -> None:
        node, (first, second) = await held_many(store, 2)
        async with (
            store.transaction(node, first, pending(b"1")),
            store.transaction(node, second, pending(b"2")),
        ):
            await enqueued(store)
        assert [found.result for found in await store.get_jobs([first.id, second.id])] == [
            b"1",
            b"2",
        ]

    async def _enter(self, store: Store, node: UUID, holding: Held) -> None:
        async with store.transaction(node, holding.claim, pending()):
            pytest.fail("a lost claim was accepted")
