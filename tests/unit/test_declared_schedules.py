"""If these fail, what code says about schedules is misread, or a deploy moves or loses them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from detent import App, ConfigError, InvalidArguments, JobContext, Retry
from detent.calendars import Weekly
from detent.config import Config, SchedulesConfig
from detent.errors import StoreUnavailable
from detent.events import ScheduleDeclared, ScheduleRemoved, ScheduleTrouble
from detent.model.schedule import Misfire, Overlap, Owner, ScheduleInfo
from detent.options import read_options
from detent.spi.locks import LockAnswer
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.testing.virtual import START, VirtualRuntime, in_virtual_time
from detent.triggers import Cron, Interval, Once, catch_up

HOUR = timedelta(hours=1)
EVENTS = (ScheduleDeclared, ScheduleRemoved, ScheduleTrouble)


class Cluster:
    """Apps of different code on one store, in virtual time."""

    def __init__(self, **settings: Any) -> None:
        self.clock = VirtualRuntime(0)
        self.store = MemoryStore(self.clock.utcnow)
        self.config = Config(schedules=SchedulesConfig(**settings))
        self.events: list[Any] = []
        self._apps = 0

    def app(self) -> App:
        self._apps += 1
        app = App(
            config=self.config,
            store=self.store,
            notifier=MemoryNotifier(),
            runtime=VirtualRuntime(self._apps),
        )
        for kind in EVENTS:
            app.on(kind, self.events.append)
        return app

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if type(event) is kind]

    async def names(self) -> list[str]:
        return [info.schedule.name for info in await self.store.list_schedules()]

    async def get(self, name: str) -> ScheduleInfo:
        (info,) = await self.store.get_schedules([name])
        return info


def app_with(cluster: Cluster, trigger: Any = "0 9 * * *", **settings: Any) -> App:
    """An app whose code declares one schedule, `report`."""
    app = cluster.app()

    @app.schedule(trigger, name="report", **settings)
    async def report() -> None: ...

    return app


# What code says


def test_a_function_becomes_a_task_and_can_be_called() -> None:
    app = App("memory://")

    @app.schedule("0 9 * * MON-FRI", timezone="Europe/Berlin", queue="mail", timeout=30)
    async def report(day: str = "today") -> str:
        return day

    assert asyncio.run(report()) == "today"
    assert app.tasks.get(report.name) is report
    assert report.options_declared.queue == "mail"
    assert report.options_declared.timeout == timedelta(seconds=30)
    (declared,) = app._declared_schedules()
    assert declared.name == report.name
    assert declared.owner is Owner.CODE
    assert declared.firing.queue == "mail"


def test_a_task_gets_several_schedules_each_with_its_own_words() -> None:
    app = App("memory://")

    @app.schedule(
        timedelta(minutes=5),
        name="often",
        kwargs={"depth": 1},
        priority=4,
        tags=["light"],
        retry=Retry(max_attempts=2),
        params={"by": "clock"},
    )
    @app.schedule(Cron("0 3 * * *", "Asia/Tokyo"), name="nightly", args=[9], needs="disk")
    @app.task(name="crawl", queue="web", tags=["crawl"])
    def crawl(ctx: JobContext, depth: int) -> None: ...

    nightly, often = sorted(app._declared_schedules(), key=lambda schedule: schedule.name)
    assert (nightly.firing.task, often.firing.task) == ("crawl", "crawl")
    assert nightly.firing.args == b'{"depth":9}'
    assert (nightly.firing.queue, nightly.firing.lane) == ("web", "web+disk")
    assert often.firing.priority == 4
    assert often.firing.tags == ("crawl", "light")
    assert often.firing.params == b'{"by":"clock"}'
    assert often.firing.options is not None
    retry = read_options(often.firing.options).retry
    assert retry is not None
    assert retry.max_attempts == 2


def test_all_that_can_be_said_is_kept() -> None:
    app = App("memory://")
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)

    @app.schedule(
        "@daily",
        name="report",
        group="reports",
        calendars=["holidays", "weekend"],
        misfire=catch_up(5),
        misfire_threshold="10m",
        overlap="replace",
        jitter=90,
        start=start,
        end=end,
        max_runs=3,
        description="What happened",
    )
    async def report() -> None: ...

    (schedule,) = app._declared_schedules()
    assert schedule.group == "reports"
    assert schedule.calendars == ("holidays", "weekend")
    assert (schedule.misfire, schedule.catch_up_limit) == (Misfire.CATCH_UP, 5)
    assert schedule.misfire_threshold == timedelta(minutes=10)
    assert schedule.overlap is Overlap.REPLACE
    assert schedule.jitter == timedelta(seconds=90)
    assert (schedule.start_at, schedule.end_at, schedule.max_runs) == (start, end, 3)
    assert schedule.description == "What happened"


@in_virtual_time
async def test_what_is_not_said_comes_from_the_settings() -> None:
    cluster = Cluster(misfire_threshold=timedelta(minutes=7))
    app = app_with(cluster)
    (schedule,) = app._declared_schedules()
    assert schedule.misfire_threshold == timedelta(minutes=7)
    assert (schedule.misfire, schedule.overlap) == (Misfire.FIRE_ONCE, Overlap.ALLOW)


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  that is what is wrong with it
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ("0 0 30 2 *", {}, "30"),
    ("61 * * * *", {}, "61"),
    ("* * *", {}, "fields"),
    ("0 9 * * *", {"timezone": "Europe/Berln"}, "Europe/Berlin"),
    (timedelta(0), {}, "every"),
    (timedelta(hours=1), {"timezone": "UTC"}, "timezone"),
    (5, {}, "must be a cron such as"),
    (Cron, {}, "must be a cron such as"),
    ("@daily", {"jitter": -1}, "jitter = -1: must be"),
    ("@daily", {"jitter": "2 days"}, "jitter"),
    ("@daily", {"overlap": "sometimes"}, "overlap = 'sometimes': must be one of allow, skip"),
    ("@daily", {"misfire": "later"}, "misfire = 'later': must be 'skip', 'fire_once' or catch_up"),
    ("@daily", {"misfire": "catch_up"}, r"catch_up\(10\)"),
    ("@daily", {"misfire": catch_up(0)}, "must catch up 1 to 10,000"),
    ("@daily", {"misfire_threshold": 0}, "misfire_threshold = 0: must be above 0"),
    ("@daily", {"max_runs": 0}, "max_runs = 0: must be 1"),
    ("@daily", {"max_runs": True}, "max_runs = True"),
    ("@daily", {"start": NAIVE}, "start = .*must have a time zone"),
    ("@daily", {"start": "tomorrow"}, "start = 'tomorrow': must be a datetime"),
    ("@daily", {"start": START + HOUR, "end": START}, "end = .*: must be after start"),
    ("@daily", {"calendars": ["a\nb"]}, "calendar"),
    ("@daily", {"group": ""}, "group"),
    ("@daily", {"priority": 9}, "priority = 9"),
    ("@daily", {"queue": "a+b"}, "queue 'a\\+b'"),
    ("@daily", {"args": "abc"}, "args = 'abc': must be a list"),
    ("@daily", {"kwargs": [1]}, "kwargs"),
    ("@daily", {"overlapp": "skip"}, "overlapp: unknown option; did you mean overlap?"),
    ("@daily", {"name": "x" * 300}, "schedule 'x"),
]


@pytest.mark.parametrize("trigger, settings, words", WRONG, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("as_task", [False, True])
def test_what_cannot_be_right_is_refused_where_it_stands(
    trigger: Any, settings: dict[str, Any], words: str, as_task: bool
) -> None:
    app = App("memory://")

    async def report() -> None: ...

    function: Any = app.task(report) if as_task else report
    with pytest.raises(ConfigError, match=words):
        app.schedule(trigger, **settings)(function)
    assert len(app._schedules) == 0
    assert len(app.tasks) == (1 if as_task else 0)


def test_arguments_are_checked_when_the_schedule_is_declared() -> None:
    app = App("memory://")

    async def send(to: str, times: int = 1) -> None: ...

    for settings in ({}, {"args": [1]}, {"args": ["a", "b"]}, {"kwargs": {"to": "a", "cc": "b"}}):
        with pytest.raises(InvalidArguments):
            app.schedule("@daily", **settings)(send)
    assert len(app.tasks) == 0
    app.schedule("@daily", kwargs={"to": "ada"})(send)


def test_two_schedules_of_one_name_are_a_mistake() -> None:
    app = App("memory://")

    @app.schedule("@daily")
    async def report() -> None: ...

    with pytest.raises(ConfigError, match="two schedules are named"):
        app.schedule("@hourly")(report)


def test_the_task_of_another_app_is_a_mistake() -> None:
    @App("memory://").task
    async def report() -> None: ...

    with pytest.raises(ConfigError, match="another app"):
        App("memory://").schedule("@daily")(report)


def test_hashed_fields_differ_by_schedule_and_stay() -> None:
    app = App("memory://")
    for number in range(20):

        async def report() -> None: ...

        app.task(name=f"task-{number}")(report)
        declared: Any = app.tasks.get(f"task-{number}")
        app.schedule("H H * * *", name=f"s{number}")(declared)
    again = [schedule.trigger for schedule in app._declared_schedules()]
    assert again == [schedule.trigger for schedule in app._declared_schedules()]
    assert len(set(again)) == 20


# What a deploy does


@in_virtual_time
async def test_a_node_stores_what_its_code_declares_before_it_is_ready() -> None:
    cluster = Cluster()
    async with app_with(cluster).node():
        info = await cluster.get("report")
    assert info.schedule.owner is Owner.CODE
    assert info.next_fire == START + timedelta(hours=9)
    (told,) = cluster.told(ScheduleDeclared)
    assert (told.schedule, told.created, told.next_fire) == ("report", True, info.next_fire)


@in_virtual_time
async def test_a_deploy_that_changes_nothing_moves_nothing() -> None:
    cluster = Cluster()
    async with app_with(cluster, 2 * HOUR).node():
        before = await cluster.get("report")
    assert before.next_fire == START + 2 * HOUR
    # The slot comes and goes while nobody is there: it is still the next one.
    await asyncio.sleep(3 * 3_600)
    async with app_with(cluster, 2 * HOUR).node(roles=["worker"]):
        after = await cluster.get("report")
    assert after.next_fire == before.next_fire
    assert len(cluster.told(ScheduleDeclared)) == 1


@in_virtual_time
async def test_a_changed_trigger_moves_the_next_slot_and_others_do_not() -> None:
    cluster = Cluster()
    async with app_with(cluster).node():
        pass
    async with app_with(cluster, description="new", overlap="skip").node():
        same = await cluster.get("report")
    assert same.next_fire == START + timedelta(hours=9)
    assert (same.schedule.description, same.schedule.overlap) == ("new", Overlap.SKIP)
    async with app_with(cluster, "0 10 * * *").node():
        moved = await cluster.get("report")
    assert moved.next_fire == START + timedelta(hours=10)
    assert moved.schedule.overlap is Overlap.ALLOW
    assert [told.created for told in cluster.told(ScheduleDeclared)] == [True, False, False]


@in_virtual_time
async def test_old_and_new_code_do_not_undo_each_others_changes_while_both_run() -> None:
    cluster = Cluster()
    old, new = app_with(cluster, "0 9 * * *"), app_with(cluster, "0 10 * * *")
    async with old.node(name="old"):
        await asyncio.sleep(60)
        async with new.node(name="new"):
            for _ in range(30):
                await asyncio.sleep(60)
                assert (await cluster.get("report")).next_fire == START + timedelta(hours=10)
    assert len(cluster.told(ScheduleDeclared)) == 2


@in_virtual_time
async def test_old_code_that_starts_last_and_goes_leaves_no_schedule_that_nobody_fires() -> None:
    cluster = Cluster()
    old, new = cluster.app(), cluster.app()

    @old.schedule("*/5 * * * *", name="report")
    async def before() -> None: ...

    @new.schedule("*/5 * * * *", name="report")
    async def after() -> None: ...

    async with new.node(name="new"):
        async with old.node(name="old"):
            for _ in range(30):
                await asyncio.sleep(60)
                assert (await cluster.get("report")).schedule.firing.task == before.name
        fired = (await cluster.get("report")).runs
        assert fired >= 5
        await asyncio.sleep(3_600)
        report = await cluster.get("report")
        assert (report.schedule.firing.task, report.problem) == (after.name, None)
        assert report.runs >= fired + 11
    assert len(cluster.told(ScheduleDeclared)) == 3


@in_virtual_time
async def test_what_no_node_declares_is_removed_after_the_grace_and_not_before() -> None:
    cluster = Cluster()
    old, new = app_with(cluster), cluster.app()
    async with new.node(name="new"):
        async with old.node(name="old"):
            await asyncio.sleep(3_600)
            # An old node still declares it.
            assert await cluster.names() == ["report"]
        # Renewed every third of it, so two thirds are sure.
        await asyncio.sleep(300)
        assert await cluster.names() == ["report"]
        await asyncio.sleep(900)
        assert await cluster.names() == []
    (told,) = cluster.told(ScheduleRemoved)
    assert told.schedule == "report"
    assert 600 <= told.unseen < 1_200


@in_virtual_time
async def test_a_rollback_within_the_grace_finds_everything_as_it_was() -> None:
    cluster = Cluster()
    async with app_with(cluster).node():
        before = await cluster.get("report")
    async with cluster.app().node():
        await asyncio.sleep(120)
    async with app_with(cluster).node():
        after = await cluster.get("report")
        assert after.next_fire == before.next_fire
        await asyncio.sleep(7_200)
        assert await cluster.names() == ["report"]
    assert len(cluster.told(ScheduleDeclared)) == 1


@in_virtual_time
async def test_kept_for_ever_means_that_nothing_is_removed() -> None:
    cluster = Cluster(grace=None)
    async with app_with(cluster).node():
        pass
    async with cluster.app().node():
        await asyncio.sleep(86_000)
        assert await cluster.names() == ["report"]


@in_virtual_time
async def test_operators_schedules_are_never_removed() -> None:
    cluster = Cluster()
    app = cluster.app()

    @app.task(name="clean")
    async def clean() -> None: ...

    async with app.node():
        await app.schedules.create("nightly", Once(START + timedelta(days=9)), "clean")
        await asyncio.sleep(7_200)
        assert await cluster.names() == ["nightly"]


@in_virtual_time
async def test_an_operators_edit_survives_deploys_until_it_is_reset() -> None:
    cluster = Cluster()
    app = app_with(cluster, queue="mail")
    async with app.node():
        edited = await app.schedules.update("report", "0 12 * * *", timeout=5)
    assert edited.edited == ("timeout", "trigger")
    assert edited.next_fire == START + timedelta(hours=12)
    newer = app_with(cluster, "0 10 * * *", queue="bulk", description="newer")
    async with newer.node():
        info = await cluster.get("report")
        assert info.next_fire == START + timedelta(hours=12)
        assert (info.schedule.firing.queue, info.schedule.description) == ("bulk", "newer")
        assert info.schedule.firing.options is not None
        assert cluster.told(ScheduleDeclared)[-1].kept == ("timeout", "trigger")
        info = await newer.schedules.reset("report", "trigger")
        assert (info.next_fire, info.edited) == (START + timedelta(hours=10), ("timeout",))
        info = await newer.schedules.reset("report")
        assert (info.schedule.firing.options, info.edited) == (None, ())


@in_virtual_time
async def test_a_reset_from_elsewhere_takes_effect_within_a_minute() -> None:
    cluster = Cluster()
    app, desk = app_with(cluster), cluster.app()
    async with app.node():
        await desk.schedules.update("report", "0 12 * * *")
        info = await desk.schedules.reset("report")
        assert info.next_fire == START + timedelta(hours=12)
        await asyncio.sleep(61)
        info = await cluster.get("report")
        assert info.next_fire == START + timedelta(hours=9)
        assert info.declared_at is not None


@in_virtual_time
async def test_an_operators_schedule_of_the_same_name_is_kept() -> None:
    cluster = Cluster()
    desk = cluster.app()

    @desk.task(name="clean")
    async def clean() -> None: ...

    await desk.schedules.create("report", Interval(HOUR), "clean")
    async with app_with(cluster).node():
        info = await cluster.get("report")
        await asyncio.sleep(600)
    assert (info.schedule.owner, info.schedule.firing.task) == (Owner.OPERATOR, "clean")
    (told,) = cluster.told(ScheduleTrouble)
    assert told.problem == "an operator made one of that name, which is kept"


@in_virtual_time
async def test_a_calendar_that_is_missing_is_told_and_healed_when_it_is_saved() -> None:
    cluster = Cluster()
    app = app_with(cluster, calendars="weekend")
    async with app.node():
        info = await cluster.get("report")
        assert info.next_fire is None
        assert info.problem == (
            "schedule 'report': calendars: calendar 'weekend' is unknown; known are none"
        )
        await app.calendars.save("weekend", Weekly())
        info = await cluster.get("report")
        assert (info.problem, info.next_fire) == (None, START + timedelta(hours=9))
    assert len(cluster.told(ScheduleTrouble)) == 1


@in_virtual_time
async def test_edits_outlive_code_that_names_a_calendar_which_is_missing() -> None:
    cluster = Cluster()
    app = app_with(cluster)
    async with app.node():
        await app.schedules.update("report", overlap="queue", args=[])
    async with app_with(cluster, calendars="weekend").node():
        info = await cluster.get("report")
    assert (info.edited, info.schedule.overlap) == (("args", "overlap"), Overlap.QUEUE)
    assert info.problem is not None


@in_virtual_time
async def test_nodes_that_start_together_declare_one_after_another() -> None:
    cluster = Cluster()
    apps = [app_with(cluster) for _ in range(5)]
    nodes = [app.node(name=f"n{number}") for number, app in enumerate(apps)]
    await asyncio.gather(*(node.start() for node in nodes))
    await asyncio.sleep(60)
    await asyncio.gather(*(node.drain() for node in nodes))
    assert len(cluster.told(ScheduleDeclared)) == 1
    assert cluster.told(ScheduleTrouble) == []


@in_virtual_time
async def test_who_finds_the_lock_taken_declares_when_it_is_free() -> None:
    cluster = Cluster()
    held = await cluster.store.acquire_lock(
        "detent:schedules", cluster.clock.new_id(), "somebody", timedelta(seconds=20)
    )
    assert held != LockAnswer(None)
    async with app_with(cluster).node():
        assert await cluster.names() == []
        await asyncio.sleep(25)
        assert await cluster.names() == ["report"]


@in_virtual_time
async def test_a_store_that_is_away_for_a_moment_does_not_keep_a_node_from_starting() -> None:
    cluster = Cluster()
    seen, trouble = (
        cluster.store.save_schedule,
        [StoreUnavailable("gone"), StoreUnavailable("gone")],
    )

    async def save_schedule(info: ScheduleInfo, expected: int | None) -> ScheduleInfo | None:
        if trouble:
            raise trouble.pop()
        return await seen(info, expected)

    cluster.store.save_schedule = save_schedule  # type: ignore[method-assign]
    async with app_with(cluster).node():
        assert await cluster.names() == []
        await asyncio.sleep(10)
        assert await cluster.names() == ["report"]
        assert await cluster.store.locks() == []


@in_virtual_time
async def test_an_edit_in_the_middle_of_a_declaration_is_not_lost() -> None:
    cluster = Cluster()
    async with app_with(cluster).node():
        pass
    seen = cluster.store.get_schedules

    async def get_schedules(names: Any) -> list[ScheduleInfo]:
        found = await seen(names)
        if found and not found[0].edited:
            edited = replace(
                found[0],
                schedule=replace(found[0].schedule, overlap=Overlap.QUEUE),
                edited=("overlap",),
            )
            await cluster.store.save_schedule(edited, found[0].revision)
        return found

    cluster.store.get_schedules = get_schedules  # type: ignore[method-assign]
    async with app_with(cluster, "0 10 * * *").node():
        pass
    info = await cluster.get("report")
    assert (info.schedule.overlap, info.edited) == (Overlap.QUEUE, ("overlap",))
    assert info.next_fire == START + timedelta(hours=10)


def test_a_function_that_needs_nothing_else_is_left_alone() -> None:
    declare: Callable[..., Any] = App("memory://").schedule("@daily")
    with pytest.raises(ConfigError, match="put on a function"):
        declare(queue="mail")(lambda: None)
