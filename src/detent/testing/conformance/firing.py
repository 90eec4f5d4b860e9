"""What `ScheduleStore` promises about firing: each slot once, with its job or not at all."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from detent.model.schedule import FiredSlot, Overlap, SlotInfo, SlotState
from detent.model.state import State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import HOUR, MINUTE, prune_request
from detent.testing.conformance.slots import (
    NAME,
    TASK,
    clockwork,
    plan,
    planned,
    saved,
    slot_job,
)
from detent.testing.conformance.steps import (
    claimed_ids,
    info,
    joined,
    now_of,
    state_of,
    succession,
)

NO_TIME = timedelta(0)


class FiringConformance:
    """Slots and their jobs."""

    async def test_a_slot_gets_its_job_and_the_schedule_moves_on(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        new, later = planned(seen.next_fire), seen.next_fire + HOUR
        fired = await store.fire([plan(seen, new, next_fire=later)])
        assert new.job is not None
        assert fired == [FiredSlot(NAME, new.slot, SlotState.FIRED, new.job.id)]
        assert await state_of(store, new.job.id) is State.PENDING
        (found,) = await store.get_schedules([NAME])
        assert (found.next_fire, found.prev_fire, found.runs) == (later, new.slot, 1)
        assert found.revision > seen.revision
        assert found.updated_at == seen.updated_at, "that is when people changed it"
        (slot,) = await store.slots_of(NAME)
        assert slot == SlotInfo(NAME, new.slot, slot.fired_at, SlotState.FIRED, new.job.id)
        assert slot.fired_at >= seen.next_fire
        assert await store.live_jobs_of(NAME) == [slot]

    async def test_the_job_is_stored_as_it_was_made(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        job = slot_job(due_at=seen.next_fire)._replace(
            tags=["nightly"],
            params=b'{"a":1}',
            options=b'{"timeout":1}',
            principal="ada",
            priority=4,
        )
        slot = planned(seen.next_fire)._replace(job=job)
        await store.fire([plan(seen, slot)])
        found = await info(store, job.id)
        assert (found.task, found.priority, found.tags) == (TASK, 4, ("nightly",))
        assert (found.params, found.options) == (job.params, job.options)
        assert found.due_at == seen.next_fire, "its place in the queue is that of its slot"
        node = await joined(store)
        assert await claimed_ids(store, node) == [job.id]

    async def test_many_schedules_are_fired_in_one_call(self, store: Store) -> None:
        plans = []
        for n in range(250):
            seen = await saved(store, f"s{n:03}")
            assert seen.next_fire is not None
            plans.append(plan(seen, planned(seen.next_fire), next_fire=seen.next_fire + HOUR))
        fired = await store.fire(plans)
        assert sorted(each.schedule for each in fired) == [f"s{n:03}" for n in range(250)]
        assert len({each.job for each in fired}) == 250
        node = await joined(store)
        assert len(await claimed_ids(store, node, limit=1000)) == 100, "its room"
        assert (await store.due_schedules([TASK], 10)).due == []

    async def test_skipped_slots_are_history_too(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        slots = [
            planned(seen.next_fire + n * MINUTE, state=SlotState.SKIPPED_MISFIRE) for n in range(3)
        ]
        fired = await store.fire([plan(seen, *slots, next_fire=None)])
        assert [each.state for each in fired] == [SlotState.SKIPPED_MISFIRE] * 3
        (found,) = await store.get_schedules([NAME])
        assert (found.runs, found.prev_fire, found.next_fire) == (0, None, None)
        assert [each.slot for each in await store.slots_of(NAME)] == [
            each.slot for each in reversed(slots)
        ]
        assert await store.live_jobs_of(NAME) == []
        assert await store.next_fire([TASK]) is None

    async def test_a_plan_without_slots_only_moves_the_schedule_on(self, store: Store) -> None:
        seen = await saved(store, runs=3)
        assert seen.next_fire is not None
        later = seen.next_fire + HOUR
        assert await store.fire([plan(seen, next_fire=later)]) == []
        (found,) = await store.get_schedules([NAME])
        assert (found.next_fire, found.prev_fire, found.runs) == (later, None, 3)
        assert await store.slots_of(NAME) == []
        assert await store.fire([plan(found, next_fire=None)]) == []
        assert await store.next_fire([TASK]) is None, "it has come to its end"

    async def test_a_plan_for_another_revision_changes_nothing(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        old = plan(seen, planned(seen.next_fire), next_fire=seen.next_fire + HOUR)
        changed = await store.save_schedule(replace(seen, runs=5), seen.revision)
        assert await store.fire([old]) == []
        assert await store.get_schedules([NAME]) == [changed]
        assert await store.slots_of(NAME) == []
        assert old.slots[0].job is not None
        assert await store.get_jobs([old.slots[0].job.id]) == []

    async def test_a_repeated_plan_changes_nothing(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        same = plan(seen, planned(seen.next_fire), next_fire=seen.next_fire + HOUR)
        assert len(await store.fire([same])) == 1
        assert await store.fire([same]) == []
        assert len(await store.slots_of(NAME)) == 1

    @pytest.mark.parametrize("way", ["name", "group"])
    async def test_a_schedule_that_was_paused_meanwhile_does_not_fire(
        self, store: Store, way: str
    ) -> None:
        seen = await saved(store, group="night")
        assert seen.next_fire is not None
        if way == "name":
            await store.pause_schedules(name=NAME)
        else:
            await store.pause_schedules(group="night")
        assert await store.fire([plan(seen, planned(seen.next_fire))]) == []
        (paused,) = await store.get_schedules([NAME])
        assert await store.fire([plan(paused, planned(seen.next_fire))]) == []
        assert await store.slots_of(NAME) == []

    async def test_a_schedule_that_is_gone_does_not_fire(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        await store.delete_schedule(NAME)
        assert await store.fire([plan(seen, planned(seen.next_fire))]) == []
        assert await store.fire([]) == []

    async def test_one_stale_plan_does_not_stop_the_others(self, store: Store) -> None:
        stale, fresh = await saved(store, "stale"), await saved(store, "fresh")
        await store.pause_schedules(name="stale")
        await store.resume_schedules(name="stale")
        assert stale.next_fire is not None
        fired = await store.fire([plan(each, planned(stale.next_fire)) for each in (stale, fresh)])
        assert [each.schedule for each in fired] == ["fresh"]

    async def test_a_slot_that_is_there_is_not_written_again(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        by_hand = planned(seen.next_fire)
        (first,) = await store.fire_slots(NAME, Overlap.ALLOW, [by_hand])
        again, fresh = planned(seen.next_fire), planned(seen.next_fire + MINUTE)
        fired = await store.fire([plan(seen, again, fresh, next_fire=None)])
        assert [each.slot for each in fired] == [fresh.slot]
        assert again.job is not None
        assert await store.get_jobs([again.job.id]) == []
        assert [each.job for each in await store.slots_of(NAME)][1] == first.job

    async def test_of_many_firers_one_fires(self, store: Store) -> None:
        seen = [await saved(store, f"s{n}") for n in range(20)]
        plans = [
            [plan(each, planned(each.next_fire), next_fire=None) for each in seen if each.next_fire]
            for _ in range(6)
        ]
        answers = await asyncio.gather(*(store.fire(each) for each in plans))
        fired = [each.schedule for answer in answers for each in answer]
        # Who finds a schedule locked leaves it to the one that holds it, and that one fires it.
        assert sorted(fired) == sorted(each.schedule.name for each in seen)
        node = await joined(store)
        assert len(await claimed_ids(store, node)) == 20, "one job each"

    async def test_many_firers_that_look_again_fire_every_slot_once(self, store: Store) -> None:
        for n in range(5):
            await saved(store, f"s{n}")

        async def work() -> None:
            while due := (await store.due_schedules([TASK], 3)).due:
                plans = []
                for each in due:
                    assert each.next_fire is not None
                    later = each.next_fire + timedelta(seconds=10)
                    following = later if each.runs < 5 else None
                    plans.append(plan(each, planned(each.next_fire), next_fire=following))
                await store.fire(plans)

        await asyncio.gather(*(work() for _ in range(4)))
        for n in range(5):
            slots = await store.slots_of(f"s{n}")
            assert len(slots) == 6
            assert len({each.job for each in slots}) == 6
            (found,) = await store.get_schedules([f"s{n}"])
            assert (found.runs, found.next_fire) == (6, None)

    # By hand

    async def test_slots_can_be_fired_by_hand(self, store: Store) -> None:
        seen = await saved(store)
        await store.pause_schedules(name=NAME)
        (before,) = await store.get_schedules([NAME])
        now = await now_of(store)
        slots = [planned(now - n * HOUR) for n in range(3)]
        fired = await store.fire_slots(NAME, Overlap.ALLOW, slots)
        assert [each.slot for each in fired] == [each.slot for each in slots]
        assert await store.get_schedules([NAME]) == [before], "its next slot stays"
        assert all(each.manual for each in await store.slots_of(NAME))
        assert await store.fire_slots("nobody", Overlap.ALLOW, [planned(now)]) == []
        assert seen.next_fire == before.next_fire

    async def test_firing_by_hand_can_be_repeated(self, store: Store) -> None:
        await saved(store)
        now = await now_of(store)
        slot = planned(now)
        first = await store.fire_slots(NAME, Overlap.ALLOW, [slot])
        assert await store.fire_slots(NAME, Overlap.ALLOW, [slot]) == first
        assert await store.fire_slots(NAME, Overlap.ALLOW, [planned(now)]) == [], "another job"
        assert len(await store.slots_of(NAME)) == 1

    async def test_a_slot_that_was_left_out_can_be_made_up_for_by_hand(self, store: Store) -> None:
        seen = await saved(store)
        assert seen.next_fire is not None
        left_out = planned(seen.next_fire, state=SlotState.SKIPPED_MISFIRE)
        await store.fire([plan(seen, left_out)])
        late = planned(seen.next_fire)
        (fired,) = await store.fire_slots(NAME, Overlap.ALLOW, [late])
        assert late.job is not None
        assert fired == FiredSlot(NAME, late.slot, SlotState.FIRED, late.job.id)
        (slot,) = await store.slots_of(NAME)
        assert (slot.job, slot.state, slot.manual) == (late.job.id, SlotState.FIRED, True)
        assert await store.live_jobs_of(NAME) == [slot]
        assert await store.fire_slots(NAME, Overlap.ALLOW, [planned(seen.next_fire)]) == []

    # History

    async def test_slots_are_read_in_pages(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.ALLOW)
        await clock.fire(5)
        page = await store.slots_of(NAME, limit=2)
        later = await store.slots_of(NAME, before=page[-1].slot, limit=10)
        slots = [each.slot for each in (*page, *later)]
        assert len(slots) == 5
        assert slots == sorted(slots, reverse=True)
        assert await store.slots_of("nobody") == []

    async def test_slots_outlive_their_schedule(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.ALLOW)
        job = await clock.fire_one()
        await store.delete_schedule(NAME)
        assert [each.job for each in await store.slots_of(NAME)] == [job]
        assert [each.job for each in await store.live_jobs_of(NAME)] == [job]

    async def test_live_are_the_jobs_that_have_not_ended(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.ALLOW)
        first, second = await clock.fire_one(), await clock.fire_one()
        await store.control_job(Verb.CANCEL, first, Change())
        assert [each.job for each in await store.live_jobs_of(NAME)] == [second]
        third = await clock.fire_one()
        assert [each.job for each in await store.live_jobs_of(NAME)] == [second, third]

    async def test_old_slots_are_pruned_but_for_live_jobs(self, store: Store) -> None:
        clock = await clockwork(store, Overlap.ALLOW)
        first, second, _ = [await clock.fire_one() for _ in range(3)]
        (found,) = await store.get_schedules([NAME])
        assert found.next_fire is not None
        skipped = planned(found.next_fire, state=SlotState.SKIPPED_MISFIRE)
        await store.fire([plan(found, skipped)])
        await store.control_job(Verb.CANCEL, first, Change())
        await store.control_job(Verb.CANCEL, second, Change())
        await store.prune_jobs(prune_request(State.CANCELED))
        assert await store.get_jobs([first, second]) == [], "their jobs are gone altogether"
        assert await store.prune_slots(HOUR, 10) == 0, "not yet"
        old, term = await succession(store)
        assert await store.prune_slots(NO_TIME, 1, old) == 0, "an old term writes nothing"
        assert await store.prune_slots(NO_TIME, 1, term) == 1
        assert await store.prune_slots(NO_TIME, 10) == 2
        (left,) = await store.slots_of(NAME)
        assert left in await store.live_jobs_of(NAME)
        assert await store.prune_slots(NO_TIME, 10) == 0
