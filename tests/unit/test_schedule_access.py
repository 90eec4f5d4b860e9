"""If these fail, somebody changes or fires a schedule that the application's rule denies him."""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Any

import pytest

from detent import App, acting_as
from detent.calendars import Holidays
from detent.errors import NotAllowed, ScheduleNotFound
from detent.events import ScheduleFired
from detent.model.access import Action, Target
from detent.model.job import JobFilter
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time

HOUR = timedelta(hours=1)
Asked = tuple[str | None, Action, Target]


def ruled(app: App, allows: Callable[[str | None, Action, Target], bool]) -> list[Asked]:
    """Give an app a task and a rule; return what the rule is asked."""
    asked: list[Asked] = []

    @app.task(name="work", queue="mail", tags=["x"])
    async def work(number: int = 1) -> None: ...

    @app.authorize
    def rule(principal: str | None, action: Action, target: Target) -> bool:
        asked.append((principal, action, target))
        return allows(principal, action, target)

    return asked


async def scheduled(stage: Stage) -> list[Asked]:
    """Let ada make a schedule, which only she may touch."""
    asked = ruled(stage.app, lambda principal, _action, _target: principal == "ada")
    with acting_as("ada"):
        await stage.app.schedules.create("nightly", HOUR, "work", group="reports")
    asked.clear()
    return asked


OF_A_SCHEDULE = Target("work", "mail", None, ("x",), "ada", None, "schedule", "nightly")
FIRED_BY_HAND = Target("work", "mail", None, ("x",), "ada", None, None, "nightly")
OF_A_GROUP = Target(kind="schedule group", name="reports")
OF_A_CALENDAR = Target(kind="calendar", name="holidays")

OPERATIONS: dict[str, tuple[Callable[[App], Awaitable[Any]], Action, Target]] = {
    "get": (lambda app: app.schedules.get("nightly"), Action.READ, OF_A_SCHEDULE),
    "next": (lambda app: app.schedules.next("nightly", 3), Action.READ, OF_A_SCHEDULE),
    "history": (lambda app: app.schedules.history("nightly"), Action.READ, OF_A_SCHEDULE),
    "update": (
        lambda app: app.schedules.update("nightly", overlap="skip"),
        Action.RESCHEDULE,
        OF_A_SCHEDULE,
    ),
    "reset": (lambda app: app.schedules.reset("nightly"), Action.RESCHEDULE, OF_A_SCHEDULE),
    "pause": (lambda app: app.schedules.pause("nightly"), Action.PAUSE, OF_A_SCHEDULE),
    "resume": (lambda app: app.schedules.resume("nightly"), Action.RESUME, OF_A_SCHEDULE),
    "pause_group": (lambda app: app.schedules.pause_group("reports"), Action.PAUSE, OF_A_GROUP),
    "resume_group": (lambda app: app.schedules.resume_group("reports"), Action.RESUME, OF_A_GROUP),
    "delete": (lambda app: app.schedules.delete("nightly"), Action.DELETE, OF_A_SCHEDULE),
    "trigger_now": (
        lambda app: app.schedules.trigger_now("nightly"),
        Action.CREATE,
        FIRED_BY_HAND,
    ),
    "backfill": (
        lambda app: app.schedules.backfill("nightly", START - 9 * HOUR, START),
        Action.CREATE,
        FIRED_BY_HAND,
    ),
    "save calendar": (
        lambda app: app.calendars.save("holidays", Holidays([date(2030, 1, 1)])),
        Action.CONFIGURE,
        OF_A_CALENDAR,
    ),
    "delete calendar": (
        lambda app: app.calendars.delete("holidays"),
        Action.CONFIGURE,
        OF_A_CALENDAR,
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@in_virtual_time
async def test_the_rule_is_asked_before_anything_is_done(operation: str) -> None:
    stage = Stage()
    asked = await scheduled(stage)
    do, action, target = OPERATIONS[operation]
    before = repr(stage.tables)
    with pytest.raises(NotAllowed) as raised, acting_as("bob"):
        await do(stage.app)
    assert asked == [("bob", action, target)]
    assert (raised.value.principal, raised.value.action) == ("bob", action)
    assert repr(stage.tables) == before
    asked.clear()
    with pytest.raises(NotAllowed, match="nobody in particular is not allowed"):
        await do(stage.app)
    assert asked == [(None, action, target)]


@in_virtual_time
async def test_creating_is_asked_with_the_schedule_as_it_would_be() -> None:
    stage = Stage()
    asked = ruled(stage.app, lambda principal, _action, _target: principal == "ada")
    words = "'bob' is not allowed to create the schedule nightly"
    with pytest.raises(NotAllowed, match=words), acting_as("bob"):
        await stage.app.schedules.create("nightly", HOUR, "work", queue="post", tags=["y"])
    expected = Target("work", "post", None, ("x", "y"), "bob", None, "schedule", "nightly")
    assert asked == [("bob", Action.CREATE, expected)]
    with pytest.raises(ScheduleNotFound), acting_as("ada"):
        await stage.app.schedules.get("nightly")


@in_virtual_time
async def test_those_who_may_do_everything_they_could_before() -> None:
    stage = Stage()
    await scheduled(stage)
    schedules, calendars = stage.app.schedules, stage.app.calendars
    with acting_as("ada"):
        await calendars.save("holidays", Holidays([date(2030, 1, 1)]))
        await schedules.update("nightly", calendars="holidays")
        await schedules.pause("nightly")
        await schedules.resume("nightly")
        assert (await schedules.trigger_now("nightly")).created
        assert len(await schedules.backfill("nightly", START - 3 * HOUR, START)) == 3
        assert await schedules.delete("nightly", cancel_jobs=True) == 4
        await calendars.delete("holidays")


@in_virtual_time
async def test_an_update_must_be_allowed_where_it_leads_too() -> None:
    stage = Stage()
    asked = ruled(stage.app, lambda _principal, _action, target: target.queue != "payments")
    with acting_as("ada"):
        made = await stage.app.schedules.create("nightly", HOUR, "work")
        with pytest.raises(NotAllowed):
            await stage.app.schedules.update("nightly", queue="payments")
        assert await stage.app.schedules.get("nightly") == made
    assert [each[1] for each in asked[1:3]] == [Action.RESCHEDULE] * 2


@in_virtual_time
async def test_lists_leave_out_what_may_not_be_read_and_pages_are_full() -> None:
    stage = Stage()
    ruled(
        stage.app,
        lambda principal, action, target: action is Action.CREATE or principal == target.owner,
    )
    for number in range(20):
        with acting_as("ada" if number % 4 else "bob"):
            await stage.app.schedules.create(f"s{number:02}", HOUR, "work")
    with acting_as("bob"):
        first = await stage.app.schedules.list(limit=2)
        rest = await stage.app.schedules.list(limit=5, after=first[-1].schedule.name)
    names = [info.schedule.name for info in (*first, *rest)]
    assert names == ["s00", "s04", "s08", "s12", "s16"]
    assert await stage.app.schedules.list() == []


@in_virtual_time
async def test_canceling_with_the_schedule_is_asked_before_it_is_deleted() -> None:
    stage = Stage()
    asked = ruled(stage.app, lambda _principal, action, _target: action is not Action.CANCEL)
    with acting_as("ada"):
        await stage.app.schedules.create("nightly", HOUR, "work")
        job = await stage.app.schedules.trigger_now("nightly")
        with pytest.raises(NotAllowed):
            await stage.app.schedules.delete("nightly", cancel_jobs=True)
        assert asked[-1][2] == Target("work", "mail", job.id, ("x",), "ada", name="nightly")
        await stage.app.schedules.get("nightly")
        assert await stage.app.schedules.delete("nightly") == 0


@in_virtual_time
async def test_history_of_a_schedule_that_is_gone_is_asked_by_its_name() -> None:
    stage = Stage()
    asked = await scheduled(stage)
    with acting_as("ada"):
        await stage.app.schedules.trigger_now("nightly")
        await stage.app.schedules.delete("nightly")
        assert len(await stage.app.schedules.history("nightly")) == 1
    assert asked[-1] == ("ada", Action.READ, Target(kind="schedule", name="nightly"))
    with pytest.raises(NotAllowed), acting_as("bob"):
        await stage.app.schedules.history("nightly")


@in_virtual_time
async def test_nobody_is_asked_when_nodes_declare_and_fire() -> None:
    stage = Stage()
    asked = ruled(stage.app, lambda _principal, action, _target: action is Action.EXECUTE)
    task: Any = stage.app.tasks.get("work")
    stage.app.schedule(HOUR, name="declared")(task)
    async with stage.node(queues={"mail": 1}):
        await stage.until(lambda: stage.told(ScheduleFired), limit=7200)
    assert len(await stage.store.list_jobs(JobFilter(), 10)) == 1
    assert {action for _, action, _ in asked} <= {Action.EXECUTE}
