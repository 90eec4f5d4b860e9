"""If these fail, schedules do not fire, fire twice, or keep each other from firing."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from detent._engine.schedule import SLOTS_EACH, STEPS, Firer
from detent.app import App
from detent.config import Config, SchedulesConfig
from detent.context import JobContext
from detent.errors import StoreError
from detent.events import Bus, JobSucceeded, ScheduleFired, ScheduleTrouble, SlotsSkipped
from detent.model.calendars import DailyRange, calendar_bytes
from detent.model.firing import SKIPS_TOLD
from detent.model.job import lane_of
from detent.model.schedule import (
    FirePlan,
    Firing,
    Misfire,
    Overlap,
    Schedule,
    ScheduleInfo,
    SlotState,
)
from detent.model.triggers import Interval, trigger_bytes
from detent.spi.notifier import ScheduleHint
from detent.testing.simulation.stage import Stage
from detent.testing.simulation.store import Call
from detent.testing.virtual import in_virtual_time

SECOND = timedelta(seconds=1)
EVERY_SECOND = trigger_bytes(Interval(SECOND))
EVERY_MINUTE = trigger_bytes(Interval(timedelta(minutes=1)))


async def saved(stage: Stage, name: str = "tick", **said: Any) -> ScheduleInfo:
    """Keep a schedule that begins with the next full second, unless told otherwise."""
    now = stage.runtime.utcnow()
    firing = Firing(
        task=said.pop("task", "work"),
        queue="default",
        lane=lane_of("default"),
        priority=said.pop("priority", 2),
        args=b"{}",
        codec="json",
    )
    first = said.pop("next_fire", now.replace(microsecond=0) + SECOND)
    said.setdefault("trigger", EVERY_SECOND)
    info = ScheduleInfo(Schedule(name=name, firing=firing, **said), 0, first)
    kept = await stage.store.save_schedule(info, None)
    assert kept is not None
    return kept


async def seen(stage: Stage, name: str = "tick") -> ScheduleInfo:
    (found,) = await stage.store.get_schedules([name])
    return found


def worker(app: App, runs: list[tuple[str | None, datetime | None]] | None = None) -> None:
    @app.task(name="work")
    async def work(ctx: JobContext) -> None:
        if runs is not None:
            runs.append((ctx.schedule, ctx.slot))


@in_virtual_time
async def test_every_slot_is_fired_in_time_and_run_once() -> None:
    stage = Stage()
    runs: list[tuple[str | None, datetime | None]] = []
    worker(stage.app, runs)
    info = await saved(stage)
    async with stage.node():
        await stage.until(lambda: len(runs) >= 30, limit=40)
    slots = sorted(slot for _, slot in runs if slot is not None)
    assert slots == [info.next_fire + n * SECOND for n in range(len(runs)) if info.next_fire]
    assert {name for name, _ in runs} == {"tick"}
    fired = stage.told(ScheduleFired)
    assert max(event.late for event in fired) < 0.1
    (found,) = await stage.store.get_schedules(["tick"])
    assert found.runs == len(fired)


@in_virtual_time
async def test_jobs_that_no_schedule_fired_know_of_none() -> None:
    stage = Stage()
    runs: list[tuple[str | None, datetime | None]] = []
    worker(stage.app, runs)
    async with stage.node():
        await stage.app.tasks.get("work").enqueue()
        await stage.until(lambda: runs)
    assert runs == [(None, None)]


@in_virtual_time
async def test_many_nodes_fire_every_slot_once() -> None:
    stage = Stage()
    for n in range(10):
        await saved(stage, f"s{n}")
    async with AsyncExitStack() as stack:
        for _ in range(4):
            app = stage.new_app()
            worker(app)
            await stack.enter_async_context(stage.node(app))
        await asyncio.sleep(20)
    fired = Counter((event.schedule, event.slot) for event in stage.told(ScheduleFired))
    assert max(fired.values()) == 1
    assert len(fired) >= 190
    assert len(stage.tables.job) == len(fired)
    nodes = {event.node for event in stage.told(ScheduleFired)}
    assert len(nodes) > 1, "any node fires"


@in_virtual_time
async def test_only_nodes_with_the_role_fire() -> None:
    stage = Stage()
    worker(stage.app)
    await saved(stage)
    async with stage.node(roles=("worker",)):
        await asyncio.sleep(15)
        assert not stage.told(ScheduleFired)
        assert stage.line.count("due_schedules") == stage.line.count("next_fire") == 0
        other = stage.new_app()
        worker(other)
        async with stage.node(other, roles=("scheduler",)):
            await stage.until(lambda: stage.told(JobSucceeded))


@in_virtual_time
async def test_an_idle_node_asks_seldom() -> None:
    stage = Stage()
    worker(stage.app)
    async with stage.node():
        await asyncio.sleep(1)
        before = stage.line.count("next_fire")
        await asyncio.sleep(600)
        assert stage.line.count("next_fire") - before <= 80
        assert stage.line.count("due_schedules") <= 5, "others ask it for the time"


@in_virtual_time
async def test_a_new_schedule_is_noticed_at_once_when_told_and_soon_when_not() -> None:
    stage = Stage()
    worker(stage.app)
    async with stage.node():
        await asyncio.sleep(30)
        await saved(stage, "told")
        assert stage.notifier is not None
        stage.notifier.publish([ScheduleHint()])
        await stage.until(lambda: stage.told(ScheduleFired))
        assert stage.told(ScheduleFired)[0].late < 0.1
        await stage.store.delete_schedule("told")
        stage.events.clear()
        await asyncio.sleep(30)
        await saved(stage, "untold")
        await stage.until(lambda: stage.told(ScheduleFired))
        assert stage.told(ScheduleFired)[0].late < 31


@in_virtual_time
async def test_what_was_missed_follows_the_rule() -> None:
    stage = Stage()
    worker(stage.app)
    now = stage.runtime.utcnow().replace(microsecond=0)
    ago = now - timedelta(hours=1)
    for rule, limit in ((Misfire.SKIP, 1), (Misfire.FIRE_ONCE, 1), (Misfire.CATCH_UP, 7)):
        await saved(
            stage,
            str(rule),
            trigger=EVERY_MINUTE,
            next_fire=ago,
            misfire=rule,
            catch_up_limit=limit,
            misfire_threshold=SECOND,
        )
    async with stage.node():
        await asyncio.sleep(0.5)
    fired = Counter(event.schedule for event in stage.told(ScheduleFired))
    assert (fired["skip"], fired["fire_once"], fired["catch_up"]) in {(0, 1, 7), (1, 2, 8)}
    skipped = {event.schedule: event.reason for event in stage.told(SlotsSkipped)}
    assert skipped == dict.fromkeys(("skip", "fire_once", "catch_up"), "misfire")
    catch_up = await stage.store.slots_of("catch_up", limit=100)
    assert len({each.slot for each in catch_up if each.state is SlotState.FIRED}) >= 7


@in_virtual_time
async def test_much_to_catch_up_with_does_not_keep_the_node_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heartbeats and claims go on meanwhile: the loop has its turn after every few slots."""
    stage = Stage()
    worker(stage.app)
    now = stage.runtime.utcnow()
    first = now - timedelta(days=1)
    catching_up: Any = {"misfire": Misfire.CATCH_UP, "catch_up_limit": 10_000}
    for name in ("one", "two"):
        await saved(stage, name, next_fire=first, **catching_up)
    firer = Firer(stage.runtime, Bus(), stage.store, stage.app.tasks, SchedulesConfig())
    firer.node_id = stage.runtime.new_id()
    asked, most, turns = 0, 0, 0
    next_after = Interval.next_after

    def counted(self: Interval, moment: datetime) -> datetime | None:
        nonlocal asked
        asked += 1
        return next_after(self, moment)

    monkeypatch.setattr(Interval, "next_after", counted)
    page = asyncio.create_task(firer.run_once())
    while not page.done():
        most, asked, turns = max(most, asked), 0, turns + 1
        await asyncio.sleep(0)
    assert max(most, asked) <= 2 * STEPS
    assert turns > 20_000 // STEPS, "both were searched through"
    assert await page == 0.0, "there is more to do"
    # Of those that are late by more than a minute, the latest 10,000 and what is told of others.
    oldest = now - 60 * SECOND - (10_000 + SKIPS_TOLD) * SECOND
    states = [SlotState.SKIPPED_MISFIRE] * SKIPS_TOLD
    states += [SlotState.FIRED] * (SLOTS_EACH - SKIPS_TOLD)
    expected = [(oldest + number * SECOND, state) for number, state in enumerate(states)]
    for name in ("one", "two"):
        written = await stage.store.slots_of(name, limit=1_000)
        assert sorted((each.slot, each.state) for each in written) == expected


@in_virtual_time
async def test_a_search_that_takes_long_does_not_keep_the_node_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two calendars may leave out every slot there is; to find that out takes a while each time."""
    stage = Stage()
    worker(stage.app)
    for name, quiet in (("am", (time(0), time(12))), ("pm", (time(12), time(0)))):
        await stage.store.save_calendar(name, calendar_bytes(DailyRange(*quiet)))
    for number in range(10):
        await saved(stage, f"never {number}", calendars=("am", "pm"))
    await asyncio.sleep(2)
    firer = Firer(stage.runtime, Bus(), stage.store, stage.app.tasks, SchedulesConfig())
    firer.node_id = stage.runtime.new_id()
    clock = stage.runtime.monotonic()
    next_after = Interval.next_after

    def slow(self: Interval, moment: datetime) -> datetime | None:
        nonlocal clock
        clock += 0.0001
        return next_after(self, moment)

    monkeypatch.setattr(Interval, "next_after", slow)
    monkeypatch.setattr(stage.runtime, "monotonic", lambda: clock)
    page = asyncio.create_task(firer.run_once())
    longest, before = 0.0, clock
    while not page.done():
        longest, before = max(longest, clock - before), clock
        await asyncio.sleep(0)
    assert 0 < longest < 1, "none of them waits for more than one search"
    problem = (await seen(stage, "never 9")).problem
    assert problem is not None
    assert "leave out 5,000 slots in a row" in problem


@in_virtual_time
async def test_much_to_catch_up_with_does_not_keep_the_others_waiting() -> None:
    stage = Stage()
    worker(stage.app)
    now = stage.runtime.utcnow().replace(microsecond=0)
    await saved(
        stage,
        "behind",
        next_fire=now - timedelta(hours=1),
        misfire=Misfire.CATCH_UP,
        catch_up_limit=3600,
    )
    for n in range(20):
        await saved(stage, f"s{n}", next_fire=now)
    async with stage.node():
        await stage.until(lambda: len(stage.told(JobSucceeded)) > 3600, limit=600)
    calls = [call for call in stage.line.calls if call.statement == "fire"]
    largest = max(sum(len(plan.slots) for plan in call.args[0]) for call in calls)
    assert largest <= 2_000
    order = [event.schedule for event in stage.told(ScheduleFired)]
    assert order.index("s19") < 1000
    assert Counter(order)["behind"] >= 3600


@in_virtual_time
async def test_jitter_moves_the_job_and_not_the_slot() -> None:
    stage = Stage()
    worker(stage.app)
    info = await saved(stage, jitter=timedelta(seconds=30))
    async with stage.node():
        await stage.until(lambda: len(stage.told(ScheduleFired)) >= 20)
    delays = [
        (job.due_at - slot.slot).total_seconds()
        for slot in await stage.store.slots_of("tick", limit=100)
        for job in stage.tables.job.values()
        if job.new.id == slot.job
    ]
    assert info.next_fire is not None
    assert min(delays) >= 0
    assert max(delays) <= 30
    assert max(delays) - min(delays) > 5


@in_virtual_time
async def test_a_trigger_that_cannot_be_read_stops_nobody_else() -> None:
    stage = Stage()
    worker(stage.app)
    await saved(stage, "broken", trigger=b'{"kind":"sundial","version":1}')
    await saved(stage, "unzoned", trigger=b"not even JSON")
    await saved(stage, "calendared", calendars=("nobody",))
    await saved(stage, "fine")
    async with stage.node():
        await stage.until(lambda: len(stage.told(JobSucceeded)) >= 5)
        problems = {event.schedule: event.problem for event in stage.told(ScheduleTrouble)}
        assert "sundial" in problems["broken"]
        assert "JSON" in problems["unzoned"]
        assert "nobody" in problems["calendared"]
        found = await seen(stage, "broken")
        assert found.problem == problems["broken"]
        assert found.next_fire is not None, "kept, and still due"
        await asyncio.sleep(120)
        assert len(stage.told(ScheduleTrouble)) == 3, "told once each"
        found = await seen(stage, "broken")
        mended = replace(found, schedule=replace(found.schedule, trigger=EVERY_SECOND))
        assert await stage.store.save_schedule(mended, found.revision) is not None
        await stage.until(lambda: "broken" in {e.schedule for e in stage.told(ScheduleFired)})
        assert (await seen(stage, "broken")).problem is None


@in_virtual_time
async def test_calendars_leave_times_out() -> None:
    stage = Stage()
    worker(stage.app)
    begin = stage.runtime.utcnow().replace(microsecond=0)
    quiet = DailyRange((begin + 10 * SECOND).time(), (begin + 20 * SECOND).time())
    await stage.store.save_calendar("quiet", calendar_bytes(quiet))
    await stage.store.save_calendar("broken", b"?")
    await saved(stage, "fine", calendars=("quiet",))
    await saved(stage, "lost", calendars=("quiet", "broken"))
    async with stage.node():
        await asyncio.sleep(30)
    slots = [event.slot for event in stage.told(ScheduleFired)]
    left_out = [slot for slot in slots if begin + 10 * SECOND <= slot < begin + 20 * SECOND]
    assert (len(slots), left_out) == (19, [])
    (problem,) = [event.problem for event in stage.told(ScheduleTrouble)]
    assert "calendar 'broken' cannot be read" in problem


@in_virtual_time
async def test_a_task_that_no_node_knows_is_flagged_and_fires_when_one_does() -> None:
    stage = Stage()
    worker(stage.app)
    await saved(stage, "stranger", task="shop.later", trigger=EVERY_MINUTE)
    await saved(stage, "fine")
    async with stage.node():
        await asyncio.sleep(300)
        (event,) = stage.told(ScheduleTrouble)
        assert event.schedule == "stranger"
        assert "'shop.later'" in event.problem
        assert (await seen(stage, "stranger")).problem == event.problem
        assert len([e for e in stage.told(ScheduleFired) if e.schedule == "fine"]) > 250
        assert not [e for e in stage.told(ScheduleFired) if e.schedule == "stranger"]
        other = stage.new_app()

        @other.task(name="shop.later")
        async def later() -> None: ...

        async with stage.node(other):
            await stage.until(
                lambda: [e for e in stage.told(ScheduleFired) if e.schedule == "stranger"]
            )
            assert (await seen(stage, "stranger")).problem is None


@in_virtual_time
async def test_one_that_the_store_refuses_stops_nobody_else() -> None:
    stage = Stage()
    worker(stage.app)
    for n in range(7):
        await saved(stage, f"s{n}")
    await saved(stage, "guilty")

    def has_guilty(call: Call) -> bool:
        plans: list[FirePlan] = list(call.args[0])
        return any(plan.name == "guilty" and plan.slots for plan in plans)

    error = StoreError("what a strange job")
    stage.line.lose("fire", times=None, error=error, matching=has_guilty)
    async with stage.node():
        await stage.until(lambda: len(stage.told(JobSucceeded)) >= 30)
    fired = Counter(event.schedule for event in stage.told(ScheduleFired))
    assert set(fired) == {f"s{n}" for n in range(7)}
    assert [event.schedule for event in stage.told(ScheduleTrouble)] == ["guilty"]
    assert (await seen(stage, "guilty")).problem == "what a strange job"


@pytest.mark.parametrize("reply", [True, False])
@in_virtual_time
async def test_a_lost_call_is_made_up_for(reply: bool) -> None:
    stage = Stage()
    worker(stage.app)
    info = await saved(stage)
    stage.line.lose("fire", reply=reply, times=3)
    async with stage.node():
        await asyncio.sleep(10)
    slots = await stage.store.slots_of("tick", limit=100)
    assert info.next_fire is not None
    assert [each.slot for each in reversed(slots)] == [
        info.next_fire + n * SECOND for n in range(len(slots))
    ]
    assert len(slots) >= 9
    assert len({each.job for each in slots}) == len(slots) == len(stage.tables.job)


@in_virtual_time
async def test_queued_slots_run_one_after_the_other() -> None:
    stage = Stage()
    running: list[int] = []
    most = 0

    @stage.app.task(name="work")
    async def work() -> None:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        await asyncio.sleep(2.5)
        running.pop()

    await saved(stage, overlap=Overlap.QUEUE, max_runs=5)
    async with stage.node():
        await stage.until(lambda: len(stage.told(JobSucceeded)) == 5)
    assert most == 1
    assert (await seen(stage)).next_fire is None, "it has had its runs"


@in_virtual_time
async def test_old_slots_are_forgotten_by_whoever_leads() -> None:
    stage = Stage(Config(schedules=SchedulesConfig(keep_slots=timedelta(minutes=10))))
    worker(stage.app)
    await saved(stage, trigger=EVERY_MINUTE)
    async with stage.node():
        await asyncio.sleep(4 * 3600)
    assert len(stage.told(ScheduleFired)) >= 239
    assert len(await stage.store.slots_of("tick", limit=1000)) <= 42
