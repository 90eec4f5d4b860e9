"""What `ScheduleStore` promises about schedules and calendars; `firing.py` asks about slots."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from detent.model.schedule import Misfire, Overlap, Owner, Schedule, ScheduleInfo
from detent.spi.schedules import HOLD
from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR, MINUTE, SECOND
from detent.testing.conformance.slots import NAME, TASK, firing, plan, saved, scheduled
from detent.testing.conformance.steps import now_of, succession


async def due_names(store: Store, *tasks: str, limit: int = 100) -> list[str]:
    """Return the names of the due schedules, in their order."""
    found = await store.due_schedules(tasks or (TASK,), limit)
    return [info.schedule.name for info in found.due]


async def one(store: Store, name: str = NAME) -> ScheduleInfo:
    """Return a schedule that has to exist."""
    (found,) = await store.get_schedules([name])
    return found


async def complete(store: Store) -> ScheduleInfo:
    """Return a schedule of which everything is said, and nothing is as usual."""
    now = await now_of(store)
    schedule = Schedule(
        name="größe: 7/24 %s",
        trigger=b'{"kind":"interval","every":60}',
        firing=firing(
            args=b"\x00[1]",
            options=b'{"timeout":3}',
            params=b'{"a":1}',
            tags=("nightly", "größe"),
            principal="ada",
            priority=4,
        ),
        group="billing",
        owner=Owner.CODE,
        calendars=("holidays", "weekends"),
        misfire=Misfire.CATCH_UP,
        catch_up_limit=7,
        misfire_threshold=timedelta(minutes=5, microseconds=1),
        overlap=Overlap.REPLACE,
        jitter=timedelta(seconds=2.5),
        start_at=now - HOUR,
        end_at=now + HOUR,
        max_runs=12,
        description="what it is for",
    )
    return ScheduleInfo(
        schedule=schedule,
        revision=0,
        next_fire=now + MINUTE,
        prev_fire=now - MINUTE,
        runs=3,
        paused_at=now - SECOND,
        declared_at=now - 2 * SECOND,
        edited=("trigger", "firing.priority"),
        problem="none yet",
    )


class ScheduleConformance:
    """Schedules and calendars."""

    async def test_a_schedule_comes_back_as_it_was_saved(self, store: Store) -> None:
        wanted = await complete(store)
        kept = await store.save_schedule(wanted, None)
        assert kept is not None
        (found,) = await store.get_schedules([wanted.schedule.name])
        assert found == kept
        own: dict[str, Any] = {
            "revision": found.revision,
            "created_at": found.created_at,
            "updated_at": found.updated_at,
        }
        assert replace(wanted, **own) == found
        assert found.created_at is not None
        assert found.created_at == found.updated_at

    async def test_a_name_is_taken_once(self, store: Store) -> None:
        first = await saved(store)
        assert await store.save_schedule(await scheduled(store, description="mine"), None) is None
        assert await one(store) == first

    async def test_of_many_who_create_it_one_does(self, store: Store) -> None:
        info = await scheduled(store)
        answers = await asyncio.gather(*(store.save_schedule(info, None) for _ in range(6)))
        assert sum(answer is not None for answer in answers) == 1

    async def test_a_change_needs_the_revision_that_was_seen(self, store: Store) -> None:
        first = await saved(store)
        changed = replace(first, schedule=replace(first.schedule, description="new"))
        second = await store.save_schedule(changed, first.revision)
        assert second is not None
        assert second.revision > first.revision
        assert second.schedule.description == "new"
        assert second.created_at == first.created_at
        assert await store.save_schedule(first, first.revision) is None, "seen before the change"
        assert await one(store) == second

    async def test_a_schedule_that_is_gone_is_not_changed(self, store: Store) -> None:
        first = await saved(store)
        assert await store.delete_schedule(NAME)
        assert await store.save_schedule(first, first.revision) is None
        assert await store.get_schedules([NAME]) == []

    async def test_revisions_are_not_used_again(self, store: Store) -> None:
        first = await saved(store)
        await store.delete_schedule(NAME)
        second = await saved(store)
        assert second.revision > first.revision
        assert await store.save_schedule(first, first.revision) is None

    async def test_of_many_changes_one_is_made(self, store: Store) -> None:
        info = await saved(store)
        answers = await asyncio.gather(
            *(store.save_schedule(replace(info, runs=n), info.revision) for n in range(6))
        )
        (won,) = [answer for answer in answers if answer is not None]
        assert await one(store) == won

    async def test_schedules_are_listed_by_name_in_pages(self, store: Store) -> None:
        for name in ("b", "a", "B", "ä", "c"):
            await saved(store, name, group="one" if name < "b" else "two")
        names = [info.schedule.name for info in await store.list_schedules()]
        assert names == ["B", "a", "b", "c", "ä"], "by their bytes, in every store alike"
        page = await store.list_schedules(after="a", limit=2)
        assert [info.schedule.name for info in page] == ["b", "c"]
        page = await store.list_schedules(group="one")
        assert [info.schedule.name for info in page] == ["B", "a"]
        page = await store.list_schedules(group="one", after="B", limit=5)
        assert [info.schedule.name for info in page] == ["a"]
        page = await store.get_schedules(["c", "nobody", "a"])
        assert [info.schedule.name for info in page] == ["a", "c"]

    async def test_deleting_asks_for_the_revision_if_one_is_given(self, store: Store) -> None:
        info = await saved(store)
        assert not await store.delete_schedule(NAME, info.revision + 1)
        old, term = await succession(store)
        assert not await store.delete_schedule(NAME, info.revision, old), "an old term"
        assert await store.delete_schedule(NAME, info.revision, term)
        assert not await store.delete_schedule(NAME)

    # What is due

    async def test_due_is_what_has_come(self, store: Store) -> None:
        now = await now_of(store)
        await saved(store, "past", next_fire=now - MINUTE)
        await saved(store, "future", next_fire=now + HOUR)
        await saved(store, "never", next_fire=None)
        await saved(store, "paused", next_fire=now - MINUTE, paused_at=now)
        found = await store.due_schedules([TASK], 10)
        assert [info.schedule.name for info in found.due] == ["past"]
        assert found.due == [await one(store, "past")]
        assert now <= found.now < now + MINUTE

    async def test_the_time_is_told_although_nothing_is_due(self, store: Store) -> None:
        now = await now_of(store)
        found = await store.due_schedules([TASK], 0)
        assert found.due == []
        assert now <= found.now < now + MINUTE

    async def test_the_earliest_comes_first_then_the_most_urgent(self, store: Store) -> None:
        now = await now_of(store)
        for name, ago, priority in (("a", 1, 4), ("b", 2, 0), ("c", 2, 3), ("d", 3, 1)):
            await saved(store, name, next_fire=now - ago * MINUTE, priority=priority)
        assert await due_names(store) == ["d", "c", "b", "a"]
        assert await due_names(store, limit=2) == ["d", "c"]

    async def test_a_node_is_shown_what_it_knows(self, store: Store) -> None:
        await saved(store, "mine")
        await saved(store, "theirs", task="shop.other")
        assert await due_names(store) == ["mine"]
        assert await due_names(store, "shop.other", TASK) in (
            ["mine", "theirs"],
            ["theirs", "mine"],
        )
        assert await store.next_fire(["nobody.knows"]) is None

    async def test_the_next_is_told_in_seconds(self, store: Store) -> None:
        now = await now_of(store)
        assert await store.next_fire([TASK]) is None
        await saved(store, "paused", next_fire=now - HOUR, paused_at=now)
        await saved(store, "over", next_fire=None)
        assert await store.next_fire([TASK]) is None
        await saved(store, "later", next_fire=now + 2 * HOUR)
        await saved(store, "soon", next_fire=now + HOUR)
        seconds = await store.next_fire([TASK])
        assert seconds is not None
        assert 3500 < seconds <= 3600
        await saved(store, "due", next_fire=now - HOUR)
        assert await store.next_fire([TASK]) == 0

    async def test_what_nobody_knows_is_found_when_it_is_late(self, store: Store) -> None:
        now = await now_of(store)
        await saved(store, "mine", next_fire=now - HOUR)
        await saved(store, "theirs", task="shop.other", next_fire=now - HOUR)
        await saved(store, "fresh", task="shop.other", next_fire=now - MINUTE)
        await saved(store, "paused", task="shop.other", next_fire=now - HOUR, paused_at=now)
        (found,) = await store.stranded_schedules([TASK], 10 * MINUTE, 10)
        assert found.schedule.name == "theirs"
        await store.fire([plan(found, problem="nobody knows it", next_fire=found.next_fire)])
        assert await store.stranded_schedules([TASK], 10 * MINUTE, 10) == [], "told once"

    async def test_a_problem_puts_a_schedule_off_for_a_while(self, store: Store) -> None:
        info = await saved(store)
        unreadable = plan(info, problem="unreadable", next_fire=info.next_fire)
        assert await store.fire([unreadable]) == []
        found = await one(store)
        assert (found.problem, found.next_fire) == ("unreadable", info.next_fire)
        assert found.revision > info.revision
        assert await due_names(store) == []
        seconds = await store.next_fire([TASK])
        assert seconds is not None
        assert 0 < seconds <= HOLD.total_seconds()
        again = await store.save_schedule(replace(found, problem=None), found.revision)
        assert again is not None
        assert await due_names(store) == [NAME], "at once when it was changed"

    # Pausing

    async def test_a_schedule_is_paused_and_resumed(self, store: Store) -> None:
        info = await saved(store)
        assert await store.pause_schedules(name=NAME) == 1
        paused = await one(store)
        assert paused.paused_at is not None
        assert paused.revision > info.revision
        assert await store.pause_schedules(name=NAME) == 0
        assert (await one(store)).paused_at == paused.paused_at
        assert await due_names(store) == []
        assert await store.resume_schedules(name=NAME) == 1
        assert await store.resume_schedules(name=NAME) == 0
        assert (await one(store)).next_fire == info.next_fire, "what was missed is still due"
        assert await due_names(store) == [NAME]
        assert await store.pause_schedules(name="nobody") == 0

    async def test_a_group_is_paused_now_and_later(self, store: Store) -> None:
        await saved(store, "a", group="night")
        await saved(store, "b", group="day")
        assert await store.pause_schedules(group="night") == 1
        late = await saved(store, "c", group="night")
        assert late.paused_at is not None
        (found,) = await store.list_schedules(group="day")
        moved = replace(found, schedule=replace(found.schedule, group="night"))
        joined = await store.save_schedule(moved, found.revision)
        assert joined is not None
        assert joined.paused_at is not None
        assert await due_names(store) == []
        assert await store.resume_schedules(group="night") == 3
        assert sorted(await due_names(store)) == ["a", "b", "c"]
        assert (await saved(store, "d", group="night")).paused_at is None

    async def test_whoever_joins_a_group_while_it_is_switched_is_switched_too(
        self, store: Store
    ) -> None:
        for turn in range(12):
            switch = store.resume_schedules if turn % 2 else store.pause_schedules
            names = [f"{turn}-{number}" for number in range(6)]
            joining = [saved(store, name, group="night") for name in names]
            await asyncio.gather(*joining[:3], switch(group="night"), *joining[3:])
            paused = {info.paused_at is not None for info in await store.list_schedules()}
            assert paused == {not turn % 2}, f"turn {turn}"

    async def test_one_of_a_paused_group_can_be_resumed_alone(self, store: Store) -> None:
        await saved(store, "a", group="night")
        await saved(store, "b", group="night")
        assert await store.pause_schedules(group="night") == 2
        assert await store.resume_schedules(name="a") == 1
        assert await due_names(store) == ["a"]
        info = await one(store, "a")
        again = await store.save_schedule(replace(info, runs=1), info.revision)
        assert again is not None
        assert again.paused_at is None, "a change does not pause it again"

    # Calendars

    async def test_calendars_are_kept_by_name(self, store: Store) -> None:
        await store.save_calendar("holidays", b"\x00one")
        await store.save_calendar("nights", b"two")
        await store.save_calendar("holidays", b"three")
        assert await store.get_calendars() == {"holidays": b"three", "nights": b"two"}
        assert await store.get_calendars(["nights", "nobody"]) == {"nights": b"two"}
        assert await store.get_calendars([]) == {}

    async def test_a_calendar_that_is_used_stays(self, store: Store) -> None:
        await store.save_calendar("holidays", b"one")
        await saved(store, "b", calendars=("holidays",))
        await saved(store, "a", calendars=("nights", "holidays"))
        assert await store.delete_calendar("holidays") == ["a", "b"]
        assert await store.get_calendars() == {"holidays": b"one"}
        await store.delete_schedule("a")
        await store.delete_schedule("b")
        assert await store.delete_calendar("holidays") == []
        assert await store.get_calendars() == {}
        assert await store.delete_calendar("holidays") == []
