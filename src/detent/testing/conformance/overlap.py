"""What `ScheduleStore` promises about overlap: skip, queue or replace, and none waits for ever."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.job import Claim, Hook
from detent.model.schedule import Overlap, SlotState
from detent.model.state import State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import HOUR, canceled, settlement
from detent.testing.conformance.slots import NAME, Clockwork, clockwork
from detent.testing.conformance.steps import (
    Held,
    claimed,
    claimed_ids,
    info,
    joined,
    settled,
    state_of,
    states_of,
)

NO_TIME = timedelta(0)
WAITING_KINDS = (Overlap.QUEUE, Overlap.REPLACE)
MANY = 130
"""More than a store looks at in one go."""


async def running(store: Store, job: UUID) -> Held:
    """Claim a job, which has to be the only one that is due."""
    node = await joined(store)
    claims: list[Claim] = await claimed(store, node)
    assert [claim.id for claim in claims] == [job]
    return Held(node, claims[0])


async def ended(store: Store, holding: Held) -> None:
    """Let a job succeed."""
    await settled(store, holding, settlement(holding.claim, State.SUCCEEDED))


async def obeys(clock: Clockwork, overlap: Overlap) -> None:
    """Give a schedule another rule."""
    changed = replace(clock.info, schedule=replace(clock.info.schedule, overlap=overlap))
    saved = await clock.store.save_schedule(changed, clock.info.revision)
    assert saved is not None
    clock.info = saved


class OverlapConformance:
    """Slots whose schedule has jobs that still live."""

    async def test_allowed_jobs_run_side_by_side(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.ALLOW)
        jobs = [await clock.fire_one() for _ in range(3)]
        node = await joined(store)
        assert sorted(await claimed_ids(store, node)) == sorted(jobs)
        assert [each.job for each in await store.live_jobs_of(NAME)] == jobs

    async def test_a_slot_is_skipped_while_a_job_lives(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.SKIP)
        first = await clock.fire_one()
        assert await clock.fire() == [None]
        holding = await running(store, first)
        assert await clock.fire() == [None]
        states = [each.state for each in await store.slots_of(NAME)]
        assert states == [SlotState.SKIPPED_OVERLAP, SlotState.SKIPPED_OVERLAP, SlotState.FIRED]
        await ended(store, holding)
        second = await clock.fire_one()
        await store.control_job(Verb.PAUSE, second, Change())
        assert await clock.fire() == [None], "a paused job lives"
        await store.control_job(Verb.CANCEL, second, Change())
        assert await clock.fire() != [None]
        assert clock.info.runs == 6, "each slot that was to get a job"

    async def test_of_several_missed_slots_one_fires_when_they_must_not_overlap(
        self, store: Store
    ) -> None:
        clock = await clockwork(store, Overlap.SKIP)
        first, *others = await clock.fire(3)
        assert first is not None
        assert others == [None, None]

    async def test_queued_jobs_run_one_after_the_other(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.QUEUE)
        jobs = [await clock.fire_one() for _ in range(3)]
        assert await states_of(store, jobs) == ["pending", "waiting", "waiting"]
        for number, job in enumerate(jobs):
            holding = await running(store, job)
            await ended(store, holding)
            assert (await states_of(store, jobs)).count(State.SUCCEEDED) == number + 1
        assert await clock.fire_one() not in jobs
        assert len(await store.live_jobs_of(NAME)) == 1

    async def test_missed_slots_are_queued_in_their_order(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.QUEUE)
        jobs = [job for job in await clock.fire(3) if job is not None]
        assert await states_of(store, jobs) == ["pending", "waiting", "waiting"]
        last = await clock.fire_one()
        for job in (*jobs, last):
            await ended(store, await running(store, job))

    async def test_a_canceled_job_does_not_let_the_next_run_beside_the_first(
        self, store: Store
    ) -> None:
        clock = await clockwork(store, Overlap.QUEUE)
        first, second, third, fourth = [await clock.fire_one() for _ in range(4)]
        holding = await running(store, first)
        await store.control_job(Verb.CANCEL, third, Change())
        await store.control_job(Verb.CANCEL, second, Change())
        assert await state_of(store, fourth) is State.WAITING
        await ended(store, holding)
        await running(store, fourth)

    async def test_a_replaced_job_that_does_not_run_is_canceled(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.REPLACE)
        first, second = await clock.fire_one(), await clock.fire_one()
        assert await states_of(store, [first, second]) == ["canceled", "pending"]
        assert (await info(store, first)).superseded_by == second
        await store.control_job(Verb.PAUSE, second, Change())
        third = await clock.fire_one()
        assert await states_of(store, [second, third]) == ["canceled", "pending"]

    async def test_a_replaced_job_that_runs_is_asked_to_stop_and_waited_for(
        self, store: Store
    ) -> None:
        clock = await clockwork(store, Overlap.REPLACE)
        first = await clock.fire_one()
        holding = await running(store, first)
        second = await clock.fire_one()
        assert (await info(store, first)).cancel_requested
        assert await state_of(store, second) is State.WAITING
        third = await clock.fire_one()
        assert await states_of(store, [first, second, third]) == ["running", "canceled", "waiting"]
        await settled(store, holding, canceled(holding.claim))
        await running(store, third)

    async def test_of_several_missed_slots_the_last_replaces(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.REPLACE)
        first = await clock.fire_one()
        *skipped, last = await clock.fire(3)
        assert skipped == [None, None]
        assert last is not None
        assert await states_of(store, [first, last]) == ["canceled", "pending"]

    async def test_however_many_are_replaced(self, store: Store) -> None:
        """A backfill queues what it fires, and then the next slot comes."""
        clock = await clockwork(store, Overlap.QUEUE)
        first, *others = [job for job in await clock.fire(MANY) if job is not None]
        await running(store, first)
        await obeys(clock, Overlap.REPLACE)
        last = await clock.fire_one()
        assert (await info(store, first)).cancel_requested
        assert set(await states_of(store, others)) == {State.CANCELED}
        assert await states_of(store, [first, last]) == ["running", "waiting"]

    async def test_a_slot_is_skipped_for_one_that_outlives_many_others(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.QUEUE)
        first, *others = [job for job in await clock.fire(MANY) if job is not None]
        for job in reversed(others):
            await store.control_job(Verb.CANCEL, job, Change())
        await obeys(clock, Overlap.SKIP)
        assert await clock.fire() == [None]
        await ended(store, await running(store, first))
        assert await clock.fire() != [None]

    @pytest.mark.parametrize("overlap", WAITING_KINDS)
    async def test_who_waits_is_woken_by_every_end(self, store: Store, overlap: Overlap) -> None:
        clock = await clockwork(store, overlap)
        first = await clock.fire_one()
        node = await joined(store, lease=NO_TIME + HOUR)
        (claim,) = await claimed(store, node)
        second = await clock.fire_one()
        assert await state_of(store, second) is State.WAITING
        await store.declare_dead([node], "it died")
        rescued = await store.rescue(10, max_crashes=2)
        assert [each.id for each in rescued.jobs] == [claim.id] == [first]
        if await state_of(store, first) is not State.PENDING:
            # It was asked to stop: its node is gone, and so is it.
            assert await state_of(store, second) is State.PENDING
            return
        await store.control_job(Verb.CANCEL, first, Change())
        assert await state_of(store, second) is State.PENDING

    @pytest.mark.parametrize("overlap", WAITING_KINDS)
    async def test_jobs_without_the_hook_are_not_waited_for(
        self, store: Store, overlap: Overlap
    ) -> None:
        """They were fired while overlap was allowed: nobody would hear of their end."""
        clock = await clockwork(store, Overlap.ALLOW)
        first = await clock.fire_one()
        await obeys(clock, overlap)
        second = await clock.fire_one()
        assert await states_of(store, [first, second]) == ["pending", "pending"]

    async def test_schedules_do_not_wait_for_each_other(self, store: Store) -> None:
        for n, overlap in enumerate(Overlap):
            clock = await clockwork(store, overlap, f"s{n}")
            job = await clock.fire_one()
            assert await state_of(store, job) is State.PENDING

    async def test_firing_races_with_the_end_of_the_job_before(self, store: Store) -> None:
        """Whoever comes first: the new job is not left waiting for one that has ended."""
        clocks = [await clockwork(store, Overlap.QUEUE, f"s{n}") for n in range(8)]
        for _ in range(3):
            node = await joined(store)
            claims = await claimed(store, node)
            ends = [settlement(claim, State.SUCCEEDED) for claim in claims]
            await asyncio.gather(
                *(store.finish_hooked(node, [each]) for each in ends),
                *(clock.fire_one() for clock in clocks),
            )
        while claims := await claimed(store, node := await joined(store)):
            await store.finish_hooked(
                node, [settlement(claim, State.SUCCEEDED) for claim in claims]
            )
        for clock in clocks:
            slots = await store.slots_of(clock.info.schedule.name)
            jobs = [each.job for each in slots if each.job is not None]
            assert await states_of(store, jobs) == [State.SUCCEEDED] * 3

    @pytest.mark.parametrize("overlap", WAITING_KINDS)
    async def test_firing_races_with_the_claim_of_the_job_before(
        self, store: Store, overlap: Overlap
    ) -> None:
        """A job that moves from table to table is not taken for one that will still end."""
        clocks = [await clockwork(store, overlap, f"s{n}") for n in range(12)]

        async def work() -> int:
            node = await joined(store)
            claims = await claimed(store, node)
            ends = [settlement(claim, State.SUCCEEDED) for claim in claims]
            return len(await store.finish_hooked(node, ends))

        for _ in range(6):
            await asyncio.gather(
                *(clock.fire_one() for clock in clocks), *(work() for _ in range(4))
            )
        while await work():
            continue
        for clock in clocks:
            assert await store.live_jobs_of(clock.info.schedule.name) == []

    async def test_a_retried_job_keeps_its_hook(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.SKIP)
        first = await clock.fire_one()
        await store.control_job(Verb.CANCEL, first, Change())
        await store.control_job(Verb.RETRY, first, Change())
        (claim,) = await claimed(store, await joined(store))
        assert claim.hooks & Hook.SLOT

    async def test_a_slot_is_queued_behind_one_that_outlives_many_others(
        self, store: Store
    ) -> None:
        clock = await clockwork(store, Overlap.QUEUE)
        first, *others = [job for job in await clock.fire(MANY) if job is not None]
        for job in reversed(others):
            await store.control_job(Verb.CANCEL, job, Change())
        last = await clock.fire_one()
        assert await states_of(store, [first, last]) == ["pending", "waiting"]
