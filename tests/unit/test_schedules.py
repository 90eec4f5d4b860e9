"""If these fail, what an operator does to a schedule is lost, half stored, or undone by a race."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from detent import App, ConfigError, Conflict, InvalidArguments, Retry, State, UnknownTask
from detent.calendars import DailyRange, Holidays, Weekly
from detent.config import Config
from detent.errors import CalendarNotFound, ScheduleNotFound
from detent.model.schedule import Overlap, Owner, SlotState
from detent.options import read_options
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.testing.virtual import START, VirtualRuntime, in_virtual_time
from detent.triggers import Cron, Dates, Interval, Once, catch_up

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def make_app() -> App:
    runtime = VirtualRuntime(1)
    store = MemoryStore(runtime.utcnow)
    app = App(config=Config(), store=store, notifier=MemoryNotifier(), runtime=runtime)

    @app.task(name="clean", queue="chores")
    async def clean(depth: int = 1) -> int:
        await asyncio.sleep(30)
        return depth

    return app


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    """A node that runs jobs, and fires no schedules by itself."""
    async with app.node(roles=["worker"], queues={"chores": 10, "night": 10}):
        yield


# Creating


@in_virtual_time
async def test_a_schedule_is_created_with_all_that_was_said() -> None:
    app = make_app()
    info = await app.schedules.create(
        "nightly",
        "0 3 * * *",
        "clean",
        timezone="Europe/Berlin",
        kwargs={"depth": 3},
        overlap="skip",
        misfire=catch_up(4),
        priority=3,
        queue="night",
        retry=Retry(max_attempts=2),
        timeout=60,
        tags=["deep"],
    )
    assert info == await app.schedules.get("nightly")
    assert info.next_fire == START + 2 * HOUR
    schedule = info.schedule
    assert (schedule.owner, schedule.overlap) == (Owner.OPERATOR, Overlap.SKIP)
    assert (schedule.firing.queue, schedule.firing.priority) == ("night", 3)
    assert schedule.firing.args == b'{"depth":3}'
    assert info.created_at == START


@in_virtual_time
async def test_creating_takes_triggers_of_all_kinds() -> None:
    app = make_app()
    made: dict[str, Any] = {
        "cron": Cron("30 6 * * *", "Asia/Tokyo"),
        "interval": Interval(timedelta(minutes=20)),
        "length": 5 * HOUR,
        "dates": Dates([date(2030, 2, 1), date(2030, 1, 2)], at=time(8)),
        "once": Once(datetime(2030, 1, 1, 12, tzinfo=UTC)),
    }
    first = {
        name: (await app.schedules.create(name, trigger, app.tasks.get("clean"))).next_fire
        for name, trigger in made.items()
    }
    assert first == {
        "cron": START + timedelta(hours=21, minutes=30),
        "interval": START + timedelta(minutes=20),
        "length": START + 5 * HOUR,
        "dates": datetime(2030, 1, 2, 8, tzinfo=UTC),
        "once": START + 12 * HOUR,
    }


@in_virtual_time
async def test_what_is_there_is_not_overwritten() -> None:
    app = make_app()
    first = await app.schedules.create("nightly", "@daily", "clean")
    with pytest.raises(Conflict, match="cannot create schedule 'nightly': it is there already"):
        await app.schedules.create("nightly", "@hourly", "clean")
    assert await app.schedules.get("nightly") == first


@in_virtual_time
async def test_nothing_is_stored_of_what_cannot_be_right() -> None:
    app = make_app()
    wrong: list[tuple[type[Exception], str, Any, dict[str, Any]]] = [
        (ConfigError, "clean", "0 0 30 2 *", {}),
        (ConfigError, "clean", "@daily", {"timezone": "Mars/Base"}),
        (ConfigError, "clean", "@daily", {"calendars": "nowhere"}),
        (ConfigError, "clean", "@daily", {"end": START - DAY}),
        (ConfigError, "clean", Once(START - DAY), {}),
        (ConfigError, "clean", "@daily", {"jitter": "-5s"}),
        (ConfigError, "clean", "@daily", {"colour": "red"}),
        (InvalidArguments, "clean", "@daily", {"args": ["deep"]}),
        (UnknownTask, "cleen", "@daily", {}),
    ]
    for kind, task, trigger, settings in wrong:
        with pytest.raises(kind):
            await app.schedules.create("nightly", trigger, task, **settings)
    assert await app.schedules.list() == []


@in_virtual_time
async def test_an_unknown_calendar_is_named() -> None:
    app = make_app()
    with pytest.raises(ConfigError, match="calendar 'nowhere' is unknown; known are none"):
        await app.schedules.create("nightly", "@daily", "clean", calendars="nowhere")


# Looking


@in_virtual_time
async def test_schedules_are_listed_by_name_page_by_page_and_by_group() -> None:
    app = make_app()
    for name in ("c", "a", "b", "d"):
        await app.schedules.create(name, "@daily", "clean", group="even" if name in "bd" else "odd")
    listed = [info.schedule.name for info in await app.schedules.list(limit=3)]
    assert listed == ["a", "b", "c"]
    assert [info.schedule.name for info in await app.schedules.list(after="c")] == ["d"]
    assert [info.schedule.name for info in await app.schedules.list(group="even")] == ["b", "d"]
    with pytest.raises(ConfigError, match="limit"):
        await app.schedules.list(limit=0)


@in_virtual_time
async def test_the_next_slots_leave_out_calendars_and_end_with_the_schedule() -> None:
    app = make_app()
    await app.calendars.save("weekend", Weekly())
    await app.schedules.create("nightly", "0 3 * * *", "clean", calendars="weekend", max_runs=9)
    slots = await app.schedules.next("nightly", 5)
    # 2030 begins on a Tuesday.
    assert [slot.day for slot in slots] == [1, 2, 3, 4, 7]
    assert len(await app.schedules.next("nightly", 100)) == 9
    await app.schedules.update("nightly", end=START + 2 * DAY)
    assert [slot.day for slot in await app.schedules.next("nightly", 5)] == [1, 2]
    with pytest.raises(ConfigError, match="count = 0"):
        await app.schedules.next("nightly", 0)


@in_virtual_time
async def test_a_name_that_is_not_there_is_said_so_everywhere() -> None:
    schedules = make_app().schedules
    calls = [
        schedules.get("x"),
        schedules.update("x", overlap="skip"),
        schedules.pause("x"),
        schedules.resume("x"),
        schedules.trigger_now("x"),
        schedules.delete("x"),
        schedules.next("x"),
        schedules.history("x"),
        schedules.reset("x"),
        schedules.backfill("x", START - DAY, START),
    ]
    for call in calls:
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'x'"):
            await call


# Changing


@in_virtual_time
async def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    app = make_app()
    before = await app.schedules.create("nightly", "0 3 * * *", "clean", timeout=60, tags=["a"])
    after = await app.schedules.update(
        "nightly", overlap="queue", queue="night", needs="disk", retry=Retry(max_attempts=9)
    )
    firing = after.schedule.firing
    assert (firing.queue, firing.lane, firing.tags) == ("night", "night+disk", ("a",))
    assert firing.options is not None
    options = read_options(firing.options)
    assert options.timeout == 60
    assert options.retry is not None
    assert options.retry.max_attempts == 9
    assert (after.next_fire, after.schedule.trigger) == (before.next_fire, before.schedule.trigger)
    assert (after.schedule.overlap, after.edited) == (Overlap.QUEUE, ())
    cleared = await app.schedules.update("nightly", timeout=None, retry=None)
    assert cleared.schedule.firing.options is None


@in_virtual_time
async def test_another_zone_is_enough_to_move_a_cron() -> None:
    app = make_app()
    await app.schedules.create("nightly", "0 3 * * *", "clean")
    moved = await app.schedules.update("nightly", timezone="Asia/Tokyo")
    assert moved.next_fire == START + 18 * HOUR
    await app.schedules.create("often", HOUR, "clean")
    with pytest.raises(ConfigError, match="timezone"):
        await app.schedules.update("often", timezone="Asia/Tokyo")


@in_virtual_time
async def test_another_cron_stays_in_its_zone_unless_told_otherwise() -> None:
    app = make_app()
    await app.schedules.create("nightly", "0 3 * * *", "clean", timezone="Asia/Tokyo")
    moved = await app.schedules.update("nightly", "0 4 * * *")
    assert moved.next_fire == START + 19 * HOUR
    moved = await app.schedules.update("nightly", "0 4 * * *", timezone="UTC")
    assert moved.next_fire == START + 4 * HOUR
    moved = await app.schedules.update("nightly", Cron("0 5 * * *"))
    assert moved.next_fire == START + 5 * HOUR


@in_virtual_time
async def test_arguments_are_checked_when_they_are_changed() -> None:
    app = make_app()
    await app.schedules.create("nightly", "@daily", "clean")
    with pytest.raises(InvalidArguments):
        await app.schedules.update("nightly", args=["deep"])
    changed = await app.schedules.update("nightly", args=[7])
    assert changed.schedule.firing.args == b'{"depth":7}'


@in_virtual_time
async def test_jobs_stand_behind_the_gates_of_their_arguments() -> None:
    app = make_app()

    @app.task(name="sync", concurrency=1, concurrency_key=lambda shop: shop)
    async def sync(shop: str) -> None: ...

    made = await app.schedules.create("syncing", "@daily", sync, args=["a"])
    assert made.schedule.firing.lane == "default~task:sync#a"
    moved = await app.schedules.update("syncing", queue="chores")
    assert moved.schedule.firing.lane == "chores~task:sync#a"
    other = await app.schedules.update("syncing", args=["b"])
    assert other.schedule.firing.lane == "chores~task:sync#b"


@in_virtual_time
async def test_a_wrong_update_changes_nothing() -> None:
    app = make_app()
    before = await app.schedules.create("nightly", "@daily", "clean", start=START)
    wrong: list[dict[str, Any]] = [
        {},
        {"trigger": "* * * * * * *"},
        {"end": START - DAY},
        {"end": START + HOUR},
        {"jitter": -1},
        {"calendars": ["x"]},
        {"max_runs": 0},
        {"priority": 99},
        {"colour": 1},
    ]
    for changes in wrong:
        with pytest.raises(ConfigError):
            await app.schedules.update("nightly", **changes)
    assert await app.schedules.get("nightly") == before


@in_virtual_time
async def test_an_update_of_what_somebody_else_has_changed_is_a_conflict() -> None:
    app = make_app()
    seen = await app.schedules.create("nightly", "@daily", "clean")
    await app.schedules.update("nightly", overlap="skip", revision=seen.revision)
    with pytest.raises(Conflict, match=f"at revision [0-9]+, not {seen.revision}"):
        await app.schedules.update("nightly", overlap="queue", revision=seen.revision)
    assert (await app.schedules.get("nightly")).schedule.overlap is Overlap.SKIP


@in_virtual_time
async def test_edits_at_the_same_time_are_all_kept() -> None:
    app = make_app()
    await app.schedules.create("nightly", "@daily", "clean")
    await asyncio.gather(
        app.schedules.update("nightly", overlap="skip"),
        app.schedules.update("nightly", jitter=5),
        app.schedules.update("nightly", description="busy"),
        app.schedules.update("nightly", priority=4),
    )
    schedule = (await app.schedules.get("nightly")).schedule
    assert (schedule.overlap, schedule.jitter) == (Overlap.SKIP, timedelta(seconds=5))
    assert (schedule.description, schedule.firing.priority) == ("busy", 4)


@in_virtual_time
async def test_schedules_are_paused_alone_and_by_group() -> None:
    app = make_app()
    for name in ("a", "b"):
        await app.schedules.create(name, "@daily", "clean", group="night")
    await app.schedules.pause("a")
    await app.schedules.pause("a")
    assert (await app.schedules.get("a")).paused_at == START
    assert await app.schedules.pause_group("night") == 1
    late = await app.schedules.create("c", "@daily", "clean", group="night")
    assert late.paused_at is not None
    assert await app.schedules.resume_group("night") == 3
    await app.schedules.resume("a")
    assert (await app.schedules.get("a")).paused_at is None


@in_virtual_time
async def test_deleting_leaves_jobs_alone_unless_told_otherwise() -> None:
    app = make_app()
    for name in ("a", "b"):
        await app.schedules.create(name, "@daily", "clean")
    kept, canceled = [await app.schedules.trigger_now(name) for name in ("a", "b")]
    assert await app.schedules.delete("a") == 0
    assert await app.schedules.delete("b", cancel_jobs=True) == 1
    assert (await kept.info()).state is State.PENDING
    info = await canceled.info()
    assert (info.state, info.reason) == (State.CANCELED, "its schedule was deleted")
    assert await app.schedules.list() == []
    assert len(await app.schedules.history("b")) == 1


@in_virtual_time
async def test_what_running_code_declares_is_not_deleted() -> None:
    app = make_app()
    declared: Any = app.tasks.get("clean")
    app.schedule("@daily", name="declared")(declared)
    async with working(app):
        with pytest.raises(Conflict, match="declared in code that runs; pause it, or remove it"):
            await app.schedules.delete("declared")
    # Nobody runs it any more, so nobody would bring it back.
    await asyncio.sleep(1_200)
    await app.schedules.delete("declared")
    assert await app.schedules.list() == []


@in_virtual_time
async def test_only_what_code_declares_can_be_reset() -> None:
    app = make_app()
    await app.schedules.create("nightly", "@daily", "clean")
    with pytest.raises(Conflict, match="not declared in code"):
        await app.schedules.reset("nightly")
    with pytest.raises(ConfigError, match="'colour' is no field"):
        await app.schedules.reset("nightly", "colour")


# By hand


@in_virtual_time
async def test_a_schedule_can_be_fired_by_hand_also_when_it_is_paused() -> None:
    app = make_app()
    before = await app.schedules.create("nightly", "@daily", "clean", args=[5], queue="night")
    await app.schedules.pause("nightly")
    async with working(app):
        job = await app.schedules.trigger_now("nightly")
        assert await job.result(timeout=60) == 5
    assert (await job.info()).queue == "night"
    (slot,) = await app.schedules.history("nightly")
    assert (slot.job, slot.manual, slot.state) == (job.id, True, SlotState.FIRED)
    assert (await app.schedules.get("nightly")).next_fire == before.next_fire


@in_virtual_time
async def test_many_can_fire_it_at_the_same_moment() -> None:
    app = make_app()
    await app.schedules.create("nightly", "@daily", "clean")
    jobs = await asyncio.gather(*(app.schedules.trigger_now("nightly") for _ in range(5)))
    assert len({job.id for job in jobs}) == len(await app.schedules.history("nightly")) == 5


@in_virtual_time
async def test_overlap_holds_for_what_is_fired_by_hand() -> None:
    app = make_app()
    await app.schedules.create("nightly", "@daily", "clean", overlap="skip")
    first = await app.schedules.trigger_now("nightly")
    await asyncio.sleep(1)
    with pytest.raises(Conflict, match="a job of an earlier slot has not ended"):
        await app.schedules.trigger_now("nightly")
    async with working(app):
        await first.result(timeout=60)
        await asyncio.sleep(1)
        await (await app.schedules.trigger_now("nightly")).result(timeout=60)


@in_virtual_time
async def test_a_backfill_fires_each_slot_of_the_past_once() -> None:
    app = make_app()
    await app.schedules.create("hourly", "0 * * * *", "clean")
    fired = await app.schedules.backfill("hourly", START - 5 * HOUR, START)
    assert [slot.slot for slot in fired] == [START - hours * HOUR for hours in (5, 4, 3, 2, 1)]
    assert all(slot.job is not None for slot in fired)
    again = await app.schedules.backfill("hourly", START - 6 * HOUR, START)
    assert [slot.slot for slot in again] == [START - 6 * HOUR]
    async with working(app):
        await asyncio.gather(
            *(app.jobs.result(slot.job, 300) for slot in (*fired, *again) if slot.job)
        )
    history = await app.schedules.history("hourly")
    assert [slot.slot for slot in history] == [START - hours * HOUR for hours in range(1, 7)]
    assert all(slot.manual for slot in history)
    assert (await app.schedules.history("hourly", before=START - 2 * HOUR, limit=1)) == [history[2]]


@in_virtual_time
async def test_a_backfill_makes_up_for_slots_that_were_left_out() -> None:
    app = make_app()
    await app.schedules.create("hourly", "0 * * * *", "clean", misfire="skip", queue="night")
    # Nobody is there for six hours, and then somebody is.
    await asyncio.sleep(6.5 * 3_600)
    async with app.node(queues={"night": 10}):
        await asyncio.sleep(600)
        left_out = await app.schedules.history("hourly")
        assert [slot.state for slot in left_out] == [SlotState.SKIPPED_MISFIRE] * 6
        fired = await app.schedules.backfill("hourly", START, START + 6.5 * HOUR)
        assert [slot.slot for slot in fired] == [START + hour * HOUR for hour in range(7)]
        for slot in fired:
            assert slot.job is not None
            await app.jobs.result(slot.job, 600)
        assert await app.schedules.backfill("hourly", START, START + 6.5 * HOUR) == []
    history = await app.schedules.history("hourly")
    assert [(slot.state, slot.manual) for slot in history] == [(SlotState.FIRED, True)] * 7


@in_virtual_time
async def test_a_backfill_runs_one_after_another_where_overlap_is_not_allowed() -> None:
    app = make_app()
    await app.schedules.create("hourly", "0 * * * *", "clean", overlap="skip")
    fired = await app.schedules.backfill("hourly", START - 3 * HOUR, START)
    assert [slot.state for slot in fired] == [SlotState.FIRED] * 3
    states = [(await app.jobs.get(slot.job)).state for slot in fired if slot.job]
    assert states == [State.PENDING, State.WAITING, State.WAITING]
    began = asyncio.get_running_loop().time()
    async with working(app):
        for slot in fired:
            assert slot.job is not None
            await app.jobs.result(slot.job, 600)
    assert asyncio.get_running_loop().time() - began >= 90


@in_virtual_time
async def test_a_backfill_that_cannot_be_meant_fires_nothing() -> None:
    app = make_app()
    await app.schedules.create("often", timedelta(seconds=1), "clean")
    back = app.schedules.backfill
    with pytest.raises(ConfigError, match="more than 1,000 slots"):
        await back("often", START - HOUR, START)
    with pytest.raises(ConfigError, match="must not be in the future"):
        await back("often", START - HOUR, START + DAY)
    with pytest.raises(ConfigError, match="must be after start"):
        await back("often", START, START - HOUR)
    with pytest.raises(ConfigError, match="time zone"):
        await back("often", datetime(2029, 1, 1), START)  # noqa: DTZ001  that is what is wrong
    with pytest.raises(ConfigError, match="overlap"):
        await back("often", START - timedelta(seconds=5), START, overlap="never")
    assert await app.schedules.history("often") == []


# Calendars


@in_virtual_time
async def test_saving_a_calendar_moves_the_slots_that_it_leaves_out() -> None:
    app = make_app()
    await app.calendars.save("closed", Holidays([date(2029, 12, 31)]))
    await app.schedules.create("nightly", "0 3 * * *", "clean", calendars="closed")
    await app.schedules.create("other", "0 3 * * *", "clean")
    await app.calendars.save("closed", Holidays([date(2030, 1, 1), date(2030, 1, 2)]))
    assert (await app.schedules.get("nightly")).next_fire == START + 2 * DAY + 3 * HOUR
    assert (await app.schedules.get("other")).next_fire == START + 3 * HOUR


@in_virtual_time
async def test_calendars_stand_on_each_other_and_are_not_deleted_below_others() -> None:
    app = make_app()
    with pytest.raises(ConfigError, match="base = 'holidays': calendar 'holidays' is unknown"):
        await app.calendars.save("quiet", Weekly(base="holidays"))
    await app.calendars.save("holidays", Holidays([date(2030, 1, 1)]))
    await app.calendars.save("quiet", DailyRange(time(0), time(4), base="holidays"))
    await app.schedules.create("hourly", "0 * * * *", "clean", calendars=["quiet"])
    assert (await app.schedules.get("hourly")).next_fire == START + DAY + 4 * HOUR
    assert list(await app.calendars.list()) == ["holidays", "quiet"]
    with pytest.raises(Conflict, match="'holidays': it is base of the calendars quiet"):
        await app.calendars.delete("holidays")
    with pytest.raises(Conflict, match="'quiet': it is used by the schedules hourly"):
        await app.calendars.delete("quiet")
    await app.schedules.delete("hourly")
    await app.calendars.delete("quiet")
    await app.calendars.delete("holidays")
    assert await app.calendars.list() == {}


@in_virtual_time
async def test_calendars_that_are_not_there_or_are_none() -> None:
    app = make_app()
    for call in (app.calendars.get("x"), app.calendars.delete("x")):
        with pytest.raises(CalendarNotFound, match="there is no calendar 'x'"):
            await call
    wrong: Any = [date(2030, 1, 1)]
    with pytest.raises(ConfigError, match=r"must be a calendar of detent\.calendars"):
        await app.calendars.save("holidays", wrong)
    saved = Weekly(("FRI",), "Asia/Dubai")
    await app.calendars.save("friday", saved)
    assert await app.calendars.get("friday") == saved
