"""If these fail, a mistake about a schedule is stored, half stored, or ends in a traceback."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, time, timedelta, timezone
from math import nan
from typing import Any

import pytest

from detent import App, ConfigError
from detent.calendars import DailyRange, Weekly
from detent.errors import DetentError
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time
from detent.triggers import Dates, Once

DAY = timedelta(days=1)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-11))
LAST = datetime.max.replace(tzinfo=WEST)
FIRST = datetime.min.replace(tzinfo=EAST)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"start": LAST}, "start = .*must be in the years 2 to 9998"),
    ({"end": FIRST}, "end = .*must be in the years 2 to 9998"),
    ({"tags": None}, "tags = None: must be a list of texts"),
    ({"tags": "abc"}, "tags = 'abc': must be a list of texts"),
    ({"tags": [1]}, "tags = 1: must be a text that is not empty"),
    ({"tags": [""]}, "tags = '': must be a text that is not empty"),
    ({"tags": ["a\0"]}, "unprintable characters"),
    ({"tags": ["\ud800"]}, "unprintable characters"),
    ({"tags": ["x" * 1_000]}, "1000 characters, the limit is"),
    ({"tags": [str(number) for number in range(500)]}, "500 tags, more than the limit"),
    ({"needs": 5}, "needs = 5: must be a name or a list of names"),
    ({"params": [1]}, r"options\(params=\[1\]\): must be a dict"),
    ({"params": {"a": "x" * 2_000_000}}, "params"),
    ({"kwargs": {1: 1}}, r"kwargs = \{1: 1\}: must be a mapping by name"),
    ({"kwargs": {"nope": 1}}, "nope"),
    ({"args": [1, 2]}, "argument"),
    ({"description": "\ud800"}, "description = .*must be a text"),
    ({"description": "x" * 1_001}, "description = .*at most 1,000 characters"),
    ({"jitter": -1}, "jitter = -1: must be 0 to 24 hours"),
    ({"jitter": nan}, "jitter = nan: must be a duration"),
    ({"calendars": "nowhere"}, "calendar 'nowhere' is unknown"),
    ({"start": START + DAY, "end": START}, "end = .*must be after start"),
    ({"group": ""}, "group '': must be 1 to 255"),
    ({"nope": 1}, "nope: unknown option"),
]


def app_of(stage: Stage) -> App:
    @stage.app.task(name="clean")
    async def clean(depth: int = 1) -> None: ...

    return stage.app


@pytest.mark.parametrize("said, words", WRONG, ids=[str(said)[:40] for said, _ in WRONG])
@in_virtual_time
async def test_what_makes_no_sense_is_refused_wherever_it_is_said(
    said: dict[str, Any], words: str
) -> None:
    stage = Stage()
    app = app_of(stage)
    before = await app.schedules.create("base", DAY, "clean")
    with pytest.raises(DetentError, match=words) as raised:
        await app.schedules.create("new", DAY, "clean", **said)
    assert "\n" not in str(raised.value)
    with pytest.raises(DetentError, match=words):
        await app.schedules.update("base", **said)
    assert await app.schedules.list() == [before], "nothing is half stored"


@pytest.mark.parametrize("task", [5, None, print, ["clean"]], ids=repr)
@in_virtual_time
async def test_what_is_no_task_is_named(task: Any) -> None:
    stage = Stage()
    with pytest.raises(ConfigError, match=r"schedule 'new': task = .*must be a task of this app"):
        await app_of(stage).schedules.create("new", DAY, task)


@in_virtual_time
async def test_a_task_with_options_is_told_where_they_belong() -> None:
    stage = Stage()
    task: Any = app_of(stage).tasks.get("clean").options(queue="other")
    with pytest.raises(ConfigError, match="other options for its jobs are said here"):
        await stage.app.schedules.create("new", DAY, task)


ASKED: dict[str, tuple[Callable[[App], Awaitable[Any]], str]] = {
    "next, no number": (lambda app: app.schedules.next("base", "3"), "count = '3': must be 1 to"),  # type: ignore[arg-type]
    "next, none": (lambda app: app.schedules.next("base", 0), "count = 0: must be 1 to 10,000"),
    "list, no number": (lambda app: app.schedules.list(limit=nan), "limit = nan: must be 1"),  # type: ignore[arg-type]
    "list, yes": (lambda app: app.schedules.list(limit=True), "limit = True: must be 1 to"),
    "list, group": (lambda app: app.schedules.list(group=""), "group ''"),
    "list, after": (lambda app: app.schedules.list(after="\ud800"), "schedule '.ud800'"),
    "history, naive": (
        lambda app: app.schedules.history("base", before=datetime(2030, 1, 1)),  # noqa: DTZ001  the mistake
        "before = .*must have a time zone",
    ),
    "history, of no year": (
        lambda app: app.schedules.history("base", before=datetime.max.replace(tzinfo=UTC)),
        "before = .*must be in the years 2 to 9998",
    ),
    "history, text": (
        lambda app: app.schedules.history("base", before="2030"),  # type: ignore[arg-type]
        "before = '2030': must be a datetime",
    ),
    "backfill, years ago": (
        lambda app: app.schedules.backfill("base", FIRST, START),
        "must be in 1970 or later",
    ),
    "backfill, limit": (
        lambda app: app.schedules.backfill("base", START - DAY, START, limit="9"),  # type: ignore[arg-type]
        "limit = '9': must be 1 to",
    ),
}


@pytest.mark.parametrize("what", ASKED)
@in_virtual_time
async def test_questions_that_make_no_sense_are_refused(what: str) -> None:
    stage = Stage()
    app = app_of(stage)
    await app.schedules.create("base", DAY, "clean")
    ask, words = ASKED[what]
    with pytest.raises(ConfigError, match=words):
        await ask(app)


@pytest.mark.parametrize(
    "moment", [LAST, FIRST, LAST.replace(tzinfo=None), LAST.replace(tzinfo=UTC)]
)
def test_times_that_other_zones_do_not_have_are_refused(moment: datetime) -> None:
    for make in (Once, lambda moment: Dates([moment]), lambda moment: Dates([moment.date()])):
        with pytest.raises(ValueError, match="must be a time in the years 2 to 9998"):
            make(moment)


@in_virtual_time
async def test_a_calendar_does_not_stand_on_itself() -> None:
    calendars = Stage().app.calendars
    with pytest.raises(ConfigError, match="base = 'a': calendar 'a' is unknown"):
        await calendars.save("b", Weekly(base="a"))
    with pytest.raises(ConfigError, match="calendar 'a': base = 'a': stands on this one itself"):
        await calendars.save("a", Weekly(base="a"))
    await calendars.save("a", Weekly())
    await calendars.save("b", Weekly(base="a"))
    await calendars.save("c", DailyRange(time(1), time(2), base="b"))
    with pytest.raises(ConfigError, match="calendar 'a': base = 'c': stands on this one itself"):
        await calendars.save("a", Weekly(base="c"))
    for name in ("c", "b", "a"):
        await calendars.delete(name)
    assert await calendars.list() == {}
