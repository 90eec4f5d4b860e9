"""If these fail, an edit of a schedule, or of a calendar, costs it slots or leaves old gates."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from detent import App, JobContext
from detent.calendars import Holidays
from detent.codecs import JsonCodec
from detent.config import SchedulesConfig
from detent.errors import ConfigError
from detent.events import JobEnqueued, ScheduleRemoved
from detent.model.schedule import SlotState
from detent.model.triggers import trigger_from
from detent.protection import Protection
from detent.schedules import Schedules
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time
from detent.triggers import CalendarInterval, Cron, DailyWindow, Interval, Once

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def make_stage() -> Stage:
    stage = Stage()
    declare(stage.app)
    return stage


def declare(app: App, **limits: Any) -> None:
    async def work(customer: str = "ada") -> None: ...

    app.task(name="work", **limits)(work)


def schedule(app: App, name: str, **settings: Any) -> None:
    """Let the code of an app say that its task is to run every hour."""
    task: Any = app.tasks.get("work")
    app.schedule("@hourly", name=name, **settings)(task)


def command(stage: Stage) -> Schedules:
    """Schedules as a command sees them: without an app."""
    app = stage.app
    return Schedules(
        stage.store,
        jobs=app.jobs,
        codec=JsonCodec(),
        runtime=stage.runtime,
        config=SchedulesConfig(),
        protection=Protection(),
    )


# Slots that are due


EDITS: list[dict[str, Any]] = [
    {"max_runs": 9},
    {"end": START + 9 * DAY},
    {"start": START - DAY},
    {"calendars": "holidays"},
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: next(iter(edit)))
@pytest.mark.parametrize("by_code", [False, True], ids=["operator", "code"])
@in_virtual_time
async def test_an_edit_of_its_limits_does_not_cost_a_schedule_the_slot_that_is_due(
    by_code: bool, edit: dict[str, Any]
) -> None:
    stage = make_stage()
    await stage.app.calendars.save("holidays", Holidays([(START + 30 * DAY).date()]))
    if by_code:
        schedule(stage.app, "s")
        async with stage.node():
            await stage.until(lambda: "s" in stage.tables.schedules)
    else:
        await stage.app.schedules.create("s", "@hourly", "work")
    # Nobody fires it for a while.
    await asyncio.sleep(1.5 * HOUR.total_seconds())
    app = stage.new_app()
    declare(app)
    if by_code:
        schedule(app, "s", **edit)
    else:
        await app.schedules.update("s", **edit)
    async with stage.node(app):
        await stage.until(lambda: stage.tables.schedule_slots)
    (slot,) = await app.schedules.history("s")
    assert (slot.slot, slot.state) == (START + HOUR, SlotState.FIRED)


@in_virtual_time
async def test_a_slot_that_is_due_goes_if_the_edit_leaves_it_out() -> None:
    stage = make_stage()
    await stage.app.schedules.create("s", "@hourly", "work")
    await asyncio.sleep(1.5 * HOUR.total_seconds())
    later = await stage.app.schedules.update("s", start=START + 5 * HOUR)
    assert later.next_fire == START + 5 * HOUR
    with pytest.raises(ConfigError, match="has no slot"):
        await stage.app.schedules.update("s", start=None, end=START + HOUR / 2)


@in_virtual_time
async def test_another_trigger_begins_anew() -> None:
    stage = make_stage()
    await stage.app.schedules.create("s", "@hourly", "work")
    await asyncio.sleep(1.5 * HOUR.total_seconds())
    assert (await stage.app.schedules.update("s", 3 * HOUR)).next_fire == START + 3 * HOUR


@in_virtual_time
async def test_one_that_is_over_is_not_given_times_that_are_over_too() -> None:
    stage = make_stage()
    await stage.app.schedules.create("s", Once(START + HOUR), "work")
    async with stage.node():
        await asyncio.sleep(1.5 * HOUR.total_seconds())
    with pytest.raises(ConfigError, match="has no slot after"):
        await stage.app.schedules.update("s", Once(START))
    assert (await stage.app.schedules.update("s", description="done")).next_fire is None
    again = await stage.app.schedules.update("s", Once(START + 2 * HOUR))
    assert again.next_fire == START + 2 * HOUR


# Calendars


@in_virtual_time
async def test_a_calendar_that_ended_a_schedule_by_mistake_gives_it_back() -> None:
    stage, later = make_stage(), START + 3 * DAY
    await stage.app.calendars.save("holidays", Holidays([(START + 30 * DAY).date()]))
    await stage.app.schedules.create("gift", Once(later), "work", calendars="holidays")
    await stage.app.calendars.save("holidays", Holidays([later.date()]))
    assert (await stage.app.schedules.get("gift")).next_fire is None
    await stage.app.calendars.save("holidays", Holidays([(START + 30 * DAY).date()]))
    assert (await stage.app.schedules.get("gift")).next_fire == later


@in_virtual_time
async def test_a_calendar_wakes_no_schedule_that_has_run_often_enough() -> None:
    stage = make_stage()
    await stage.app.calendars.save("holidays", Holidays([(START + 30 * DAY).date()]))
    await stage.app.schedules.create("s", "@hourly", "work", calendars="holidays", max_runs=1)
    async with stage.node():
        await stage.until(lambda: stage.tables.schedule_slots, limit=4_000)
    await stage.app.calendars.save("holidays", Holidays([(START + 31 * DAY).date()]))
    assert (await stage.app.schedules.get("s")).next_fire is None


@in_virtual_time
async def test_a_calendar_of_a_newer_version_is_only_a_problem_of_those_who_use_it() -> None:
    stage = make_stage()
    await stage.store.save_calendar("moon", b'{"kind": "lunar", "version": 1}')
    await stage.app.calendars.save("holidays", Holidays([(START + 30 * DAY).date()]))
    schedule(stage.app, "good", calendars="holidays")
    schedule(stage.app, "bad", calendars="moon")
    async with stage.node():
        await asyncio.sleep(1.1 * HOUR.total_seconds())
    assert [slot.schedule for slot in stage.tables.schedule_slots.values()] == ["good"]
    bad = await stage.app.schedules.get("bad")
    assert bad.problem is not None
    assert "calendar 'moon' cannot be read: calendar: unknown kind 'lunar'" in bad.problem
    with pytest.raises(ConfigError, match="calendar 'moon' cannot be read"):
        await stage.app.calendars.get("moon")
    assert list(await stage.app.calendars.list()) == ["holidays"]
    await stage.app.calendars.save("moon", Holidays([(START + 30 * DAY).date()]))
    assert (await stage.app.schedules.get("bad")).problem is None


# Zones


@pytest.mark.parametrize(
    "trigger",
    [
        Cron("H H * * *", name="of-many"),
        CalendarInterval(2, "weeks", at=time(9)),
        DailyWindow(HOUR, start=time(9), end=time(17)),
    ],
    ids=lambda trigger: type(trigger).__name__,
)
@in_virtual_time
async def test_another_zone_changes_nothing_else(trigger: Any) -> None:
    stage = make_stage()
    await stage.app.schedules.create("s", trigger, "work")
    info = await stage.app.schedules.update("s", timezone="Asia/Tokyo")
    assert trigger_from(info.schedule.trigger) == replace(trigger, timezone="Asia/Tokyo")


@in_virtual_time
async def test_real_time_has_no_zone() -> None:
    stage = make_stage()
    await stage.app.schedules.create("s", Interval(HOUR), "work")
    with pytest.raises(ConfigError, match="timezone = 'Asia/Tokyo'"):
        await stage.app.schedules.update("s", timezone="Asia/Tokyo")


# Gates


async def lane(stage: Stage) -> str:
    (info,) = await stage.store.get_schedules(["s"])
    return info.schedule.firing.lane


@pytest.mark.parametrize("with_app", [True, False], ids=["app", "command"])
@in_virtual_time
async def test_another_queue_leaves_the_turns_of_the_old_one_behind(with_app: bool) -> None:
    stage = make_stage()
    stage.app.queue("fair", fair_key="customer")
    stage.app.queue("other", fair_key="customer")
    await stage.app.schedules.create("s", "@hourly", "work", queue="fair", needs="gpu")
    assert await lane(stage) == "fair+gpu~fair:fair#ada"
    schedules = stage.app.schedules if with_app else command(stage)
    await schedules.update("s", queue="other")
    assert await lane(stage) == ("other+gpu~fair:other#ada" if with_app else "other+gpu")
    await schedules.update("s", queue="plain")
    assert await lane(stage) == "plain+gpu"
    await schedules.update("s", queue="fair", needs=())
    assert await lane(stage) == ("fair~fair:fair#ada" if with_app else "fair")


@in_virtual_time
async def test_another_queue_keeps_the_gates_of_the_task() -> None:
    stage = Stage()
    declare(stage.app, concurrency=1, fair_key=lambda customer: customer)
    await stage.app.schedules.create("s", "@hourly", "work", queue="mail")
    assert await lane(stage) == "mail~fair:mail#ada~task:work"
    await command(stage).update("s", queue="bulk")
    assert await lane(stage) == "bulk~task:work"
    await stage.app.schedules.update("s", queue="slow")
    assert await lane(stage) == "slow~fair:slow#ada~task:work"


@in_virtual_time
async def test_a_tag_may_be_the_key_of_a_queue() -> None:
    stage = make_stage()
    stage.app.queue("fair", fair_key="tenant")
    await stage.app.schedules.create("s", "@hourly", "work", queue="fair", tags=["tenant:a"])
    await stage.app.schedules.update("s", tags=["tenant:b"])
    assert await lane(stage) == "fair~fair:fair#b"


# What is told


@in_virtual_time
async def test_listeners_hear_of_jobs_that_are_fired_by_hand() -> None:
    stage = make_stage()
    heard: list[JobEnqueued] = []

    @stage.app.listener(JobEnqueued)
    async def hear(event: JobEnqueued) -> None:
        heard.append(event)

    await stage.app.schedules.create("s", "@hourly", "work", queue="mail", overlap="skip")
    job = await stage.app.schedules.trigger_now("s")
    fired = await stage.app.schedules.backfill("s", START - 3 * HOUR, START, overlap="allow")
    again = await stage.app.schedules.backfill("s", START - 4 * HOUR, START - HOUR, overlap="skip")
    assert [slot.job for slot in again] == [None]
    await stage.until(lambda: len(heard) >= 4)
    await stage.app.close()
    assert [event.job_id for event in heard] == [job.id, *(slot.job for slot in fired)]
    assert {(event.task, event.queue) for event in heard} == {("work", "mail")}


# Deleting


@in_virtual_time
async def test_jobs_that_wait_for_each_other_do_not_start_while_they_are_canceled() -> None:
    stage = Stage()
    started: list[datetime | None] = []

    @stage.app.task(name="work")
    async def work(ctx: JobContext) -> None:
        started.append(ctx.slot)
        await asyncio.sleep(HOUR.total_seconds())

    await stage.app.schedules.create("s", "@hourly", "work", overlap="queue")
    async with stage.node():
        await stage.app.schedules.backfill("s", START - 9 * HOUR, START)
        await stage.until(lambda: started)
        # Slow enough for a node to claim what a cancellation sets free.
        stage.line.latency = 0.5
        assert await stage.app.schedules.delete("s", cancel_jobs=True) == 9
        await asyncio.sleep(60)
    assert started == [START - 9 * HOUR]


# The hour that comes twice


@in_virtual_time
async def test_a_backfill_of_the_hour_that_comes_twice_goes_by_real_time() -> None:
    stage, berlin = make_stage(), ZoneInfo("Europe/Berlin")
    await stage.app.schedules.create("s", "*/10 * * * *", "work")
    first = datetime(2029, 10, 28, 2, 50, tzinfo=berlin)
    second = datetime(2029, 10, 28, 2, 10, fold=1, tzinfo=berlin)
    assert len(await stage.app.schedules.backfill("s", first, second)) == 2
    with pytest.raises(ConfigError, match="must be after start"):
        await stage.app.schedules.backfill("s", second, first)


# Outages


@pytest.mark.parametrize("count", [2, 5])
@in_virtual_time
async def test_an_outage_longer_than_the_grace_costs_no_schedule_of_whichever_app(
    count: int,
) -> None:
    stage = Stage()
    apps = [stage.app, *(stage.new_app() for _ in range(count - 1))]
    for number, app in enumerate(apps):

        async def work() -> None: ...

        app.schedule("@hourly", name=f"s{number}")(app.task(name=f"work{number}")(work))
    async with AsyncExitStack() as nodes:
        for app in apps:
            await nodes.enter_async_context(stage.node(app))
        await asyncio.sleep(20 * 60)
        stage.line.lose(times=None)
        await asyncio.sleep(50 * 60)
        stage.line.heal()
        await asyncio.sleep(40 * 60)
    assert not stage.told(ScheduleRemoved)
    slots = sorted((slot.schedule, slot.slot) for slot in stage.tables.schedule_slots.values())
    assert slots == [(f"s{number}", START + HOUR) for number in range(count)]
