"""If these fail, an operator changes another schedule than he meant, or not what he meant in it."""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from detent import App
from detent.calendars import Holidays
from detent.events import DaemonStarted
from detent.model.schedule import Misfire, Overlap, Owner, ScheduleInfo
from detent.model.triggers import trigger_from
from detent.options import StoredRetry, read_options
from detent.triggers import CalendarInterval, DailyWindow, Interval, Once
from tests.cli.conftest import Detent
from tests.cli.stores import MODULE, Program

Call = Callable[..., Result]
MINUTE = timedelta(minutes=1)

#: What is refused before a store is asked is the same for all of them.
on_one_store = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@pytest.fixture
def program(store_url: str) -> Program:
    return Program(store_url)


@pytest.fixture
def run(detent: Detent, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call `detent` on the store, with an app in a module that no other test has imported."""
    (tmp_path / "shop_schedules.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "shop_schedules", raising=False)
    return lambda *arguments: detent(*arguments, DETENT_URL=store_url)


@pytest.fixture
def create(run: Call) -> Call:
    """Create a schedule of the task `hello`."""

    def create(name: str, *options: str) -> Result:
        given = options or ("--cron", "0 3 * * *")
        return run(
            "schedules", "create", "shop_schedules:app", name, "hello", '{"name": "Ada"}', *given
        )

    return create


def stored(program: Program, name: str) -> ScheduleInfo:
    return program.call(lambda app: app.schedules.get(name))


def test_a_schedule_is_created_with_the_words_of_code(create: Call, program: Program) -> None:
    result = create(
        "nightly",
        *("--cron", "0 3 * * MON-FRI", "--timezone", "Asia/Tokyo", "--group", "reports"),
        *("--misfire", "catch_up(5)", "--misfire-threshold", "2m", "--overlap", "skip"),
        *("--jitter", "30s", "--start", "2026-01-01T00:00Z", "--end", "2099-01-01T00:00Z"),
        *("--max-runs", "7", "--description", "Greets", "--queue", "mail", "--priority", "high"),
        *("--timeout", "30s", "--needs", "smtp", "--tag", "a", "--tag", "b"),
    )
    assert (result.exit_code, result.output) == (0, "nightly\tcreated\n")
    info = stored(program, "nightly")
    schedule, firing = info.schedule, info.schedule.firing
    assert (schedule.group, schedule.owner) == ("reports", Owner.OPERATOR)
    assert (schedule.misfire, schedule.catch_up_limit) == (Misfire.CATCH_UP, 5)
    assert (schedule.overlap, schedule.jitter) == (Overlap.SKIP, timedelta(seconds=30))
    assert (schedule.start_at, schedule.max_runs) == (datetime(2026, 1, 1, tzinfo=UTC), 7)
    assert (firing.task, firing.lane, firing.tags) == ("hello", "mail+smtp", ("a", "b"))
    assert json.loads(firing.args) == {"name": "Ada"}
    assert info.next_fire is not None
    assert info.next_fire.hour == 18


def test_it_fires_every_so_long_or_at_certain_times(create: Call, program: Program) -> None:
    assert create("often", "--every", "5m").exit_code == 0
    assert create("gift", "--at", "2099-12-24T18:00Z").exit_code == 0
    assert create("gifts", "--at", "2099-12-24T18:00Z", "--at", "2098-12-24T18:00Z").exit_code == 0
    assert stored(program, "gift").next_fire == datetime(2099, 12, 24, 18, tzinfo=UTC)
    assert stored(program, "gifts").next_fire == datetime(2098, 12, 24, 18, tzinfo=UTC)


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("--cron", "0 0 30 2 *"), "never happens"),
    (("--cron", "@daily", "--timezone", "Mars"), "timezone='Mars'"),
    (("--every", "5m", "--at", "2099-01-01"), "--at is one time of day"),
    (("--overlap", "skip"), "say when: --cron, --every or --at"),
    (("--every", "5m", "--jitter", "-1s"), "jitter"),
    (("--every", "5m", "--misfire", "catch_up"), "misfire = 'catch_up': must say how many"),
    (("--every", "5m", "--calendar", "nowhere"), "calendar 'nowhere' is unknown"),
    (("--at", "2001-01-01"), "has no slot after"),
    (
        ("--every", "5m", "--start", "2099-01-02T00:00Z", "--end", "2099-01-01T00:00Z"),
        "must be after start",
    ),
]


@on_one_store
@pytest.mark.parametrize("options, words", WRONG, ids=lambda value: str(value)[:30])
def test_what_cannot_be_right_is_one_line_and_nothing_is_stored(
    create: Call, run: Call, options: tuple[str, ...], words: str
) -> None:
    result = create("nightly", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert run("schedules", "--json").output == "[]\n"


def test_the_task_and_its_arguments_are_checked(run: Call) -> None:
    place = ("schedules", "create", "shop_schedules:app", "nightly")
    result = run(*place, "helo", "--every", "5m")
    assert result.stderr == "detent: error: no task is named 'helo'; did you mean hello?\n"
    result = run(*place, "hello", '{"nam": "Ada"}', "--every", "5m")
    assert result.exit_code == 2
    assert "hello()" in result.stderr
    result = run(*place, "hello", "{", "--every", "5m")
    assert "JSON" in result.stderr


def test_a_name_is_taken_once(create: Call) -> None:
    assert create("nightly").exit_code == 0
    result = create("nightly")
    assert (result.exit_code, result.stderr) == (
        1,
        "detent: error: cannot create schedule 'nightly': it is there already\n",
    )


def test_an_update_changes_what_it_names(create: Call, run: Call, program: Program) -> None:
    create("nightly", "--cron", "0 3 * * *", "--end", "2099-01-01T00:00Z", "--tag", "a")
    before = stored(program, "nightly")
    result = run(
        "schedules",
        "update",
        "nightly",
        "--cron",
        "0 4 * * *",
        "--overlap",
        "queue",
        "--end",
        "none",
    )
    assert (result.exit_code, result.output) == (0, "nightly\tchanged\n")
    after = stored(program, "nightly")
    assert after.next_fire is not None
    assert (after.next_fire.hour, after.schedule.end_at) == (4, None)
    assert (after.schedule.overlap, after.schedule.firing) == (
        Overlap.QUEUE,
        before.schedule.firing,
    )
    moved = json.loads(
        run("schedules", "update", "nightly", "--timezone", "Asia/Tokyo", "--json").output
    )
    assert (moved["timezone"], moved["next_fire"][11:16]) == ("Asia/Tokyo", "19:00")
    stale = run(
        "schedules", "update", "nightly", "--jitter", "1m", "--revision", str(before.revision)
    )
    assert stale.exit_code == 1
    assert "cannot update schedule 'nightly': it is at revision" in stale.stderr
    nothing = run("schedules", "update", "nightly")
    assert (nothing.exit_code, "nothing to change" in nothing.stderr) == (2, True)


@pytest.mark.parametrize(
    "options", [("--cron", "0 4 * * *"), ("--every", "1 day", "--at", "04:00")], ids=str
)
def test_other_times_stay_in_the_zone_of_the_schedule(
    create: Call, run: Call, options: tuple[str, ...]
) -> None:
    create("nightly", "--cron", "0 3 * * *", "--timezone", "Asia/Tokyo")
    moved = json.loads(run("schedules", "update", "nightly", *options, "--json").output)
    assert (moved["timezone"], moved["next_fire"][11:16]) == ("Asia/Tokyo", "19:00")
    said = (*options, "--timezone", "UTC", "--json")
    moved = json.loads(run("schedules", "update", "nightly", *said).output)
    assert (moved["timezone"], moved["next_fire"][11:16]) == ("UTC", "04:00")


def test_arguments_are_changed_with_the_app_that_checks_them(
    create: Call, run: Call, program: Program
) -> None:
    create("nightly")
    update = ("schedules", "update", "nightly", "--args")
    assert "say --app too" in run(*update, '["Bob"]').stderr
    assert run(*update, '{"nam": 1}', "--app", "shop_schedules:app").exit_code == 2
    assert run(*update, '["Bob"]', "--app", "shop_schedules:app").exit_code == 0
    assert json.loads(stored(program, "nightly").schedule.firing.args) == {"name": "Bob"}


def test_schedules_are_paused_and_resumed(create: Call, run: Call, program: Program) -> None:
    for name in ("a", "b"):
        create(name, "--every", "1h", "--group", "night")
    assert run("schedules", "pause", "a").output == "a\tpaused\n"
    assert stored(program, "a").paused_at is not None
    assert json.loads(run("schedules", "pause", "--group", "night", "--json").output) == {
        "group": "night",
        "paused": True,
        "count": 1,
    }
    assert run("schedules", "resume", "--group", "night").output == "night\tresumed\t2\n"
    assert run("schedules", "resume", "b").output == "b\tresumed\n"
    assert stored(program, "b").paused_at is None
    for wrong in ((), ("a", "--group", "night")):
        assert "give NAME or --group" in run("schedules", "pause", *wrong).stderr


def test_a_schedule_is_fired_by_hand_and_its_history_is_kept(
    create: Call, run: Call, program: Program
) -> None:
    create("nightly", "--cron", "0 3 * * *", "--overlap", "skip")
    result = run("schedules", "trigger", "nightly")
    job = result.output.strip()
    assert run("jobs", "show", job).exit_code == 0
    (slot,) = json.loads(run("schedules", "history", "nightly", "--json").output)
    assert (slot["job"], slot["state"], slot["manual"]) == (job, "fired", True)
    refused = run("schedules", "trigger", "nightly")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "kept back by its overlap rule" in refused.stderr
    deleted = run("schedules", "delete", "nightly", "--cancel-jobs", "--json")
    assert json.loads(deleted.output) == {
        "schedule": "nightly",
        "deleted": True,
        "canceled_jobs": 1,
    }
    assert len(run("schedules", "history", "nightly").output.splitlines()) == 2
    assert "canceled" in run("jobs", "show", job).output


def test_the_past_is_made_up_for_once(create: Call, run: Call) -> None:
    create("nightly", "--cron", "0 3 * * *")
    week = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-04T00:00Z")
    lines = run("schedules", "backfill", "nightly", *week).output.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        [f"2026-01-0{day}T03:00:00.000Z", "fired"] for day in (1, 2, 3)
    ]
    assert run("schedules", "backfill", "nightly", *week, "--json").output == "[]\n"
    too_many = run("schedules", "backfill", "nightly", "--from", "90d", "--limit", "10")
    assert (too_many.exit_code, "more than 10 slots" in too_many.stderr) == (2, True)
    future = run("schedules", "backfill", "nightly", "--from", "1d", "--to", "2099-01-01")
    assert "must not be in the future" in future.stderr
    backwards = run("schedules", "backfill", "nightly", "--from", "1h", "--to", "2h")
    assert re.search(r"--from \(2\S+Z\) must be before --to \(2\S+Z\)$", backwards.stderr)
    assert backwards.exit_code == 2


def test_next_is_told_in_both_times(create: Call, run: Call) -> None:
    create("nightly", "--cron", "0 3 * * *", "--timezone", "Asia/Tokyo")
    document = json.loads(run("schedules", "next", "nightly", "--count", "10", "--json").output)
    assert (document["name"], document["timezone"]) == ("nightly", "Asia/Tokyo")
    assert document["when"] == "at 03:00 every day, Asia/Tokyo"
    assert len(document["slots"]) == 10
    for slot in document["slots"]:
        assert slot["local"].endswith("T03:00:00+09:00")
        assert slot["utc"].endswith("T18:00:00.000Z")
    for wrong in ((), ("nightly", "--cron", "@daily"), ("nightly", "--timezone", "UTC")):
        assert run("schedules", "next", *wrong).exit_code == 2


def test_next_is_told_in_full_also_where_both_times_are_the_same(
    run: Call, terminal: Callable[[int], None]
) -> None:
    terminal(80)
    said = run("schedules", "next", "--cron", "30 3 1 1 *", "--count", "1").output
    assert re.search(r"^... 2\d{3}-01-01 03:30:00 \+0000  2\d{3}-01-01 03:30:00 ", said, re.M)


def test_what_to_type_next_is_quoted_for_the_shell(
    create: Call, run: Call, terminal: Callable[[int], None]
) -> None:
    create("every night", "--cron", "0 3 * * *")
    terminal(100)
    for words in (("list",), ("show", "every night"), ("next", "every night")):
        assert " 'every night'\n" in run("schedules", *words).output


def test_a_name_that_is_not_there_is_guessed(create: Call, run: Call) -> None:
    for words in (["show"], ["next"], ["pause"], ["trigger"], ["history"], ["delete"], ["reset"]):
        result = run("schedules", *words, "nightly")
        assert result.stderr == (
            "detent: error: there is no schedule 'nightly'; there is none yet\n"
        ), words
    create("nightly")
    result = run("schedules", "update", "nigthly", "--jitter", "5s")
    assert result.stderr == (
        "detent: error: there is no schedule 'nigthly'; did you mean nightly?\n"
    )


def test_code_gets_its_fields_back(run: Call, program: Program) -> None:
    async def work(app: App) -> list[Any]:
        @app.schedule(Once(datetime(2099, 1, 1, tzinfo=UTC)), name="declared", overlap="skip")
        async def declared() -> None: ...

        async with app.node():
            words = [("update", "declared", "--overlap", "queue"), ("delete", "declared")]
            results: list[Any] = [
                await asyncio.to_thread(run, "schedules", *each) for each in words
            ]
            results.append(await app.schedules.get("declared"))
            await asyncio.to_thread(run, "schedules", "reset", "declared")
            results.append(await app.schedules.get("declared"))
            return results

    updated, refused, edited, reset = program.call(work)
    assert updated.output == "declared\tchanged\n"
    assert refused.exit_code == 1
    assert "declared in code that runs; pause it, or remove it there" in refused.stderr
    assert (edited.schedule.overlap, edited.edited) == (Overlap.QUEUE, ("overlap",))
    # Code, which knows the rest, will do it within a minute.
    assert (reset.edited, reset.declared_at) == ((), None)


def test_calendars_are_saved_listed_and_deleted(create: Call, run: Call, program: Program) -> None:
    kinds = {
        "holidays": ("--date", "2099-12-25", "--date", "2099-12-26"),
        "years": ("--annual", "12-24"),
        "weekend": ("--weekday", "SAT", "--weekday", "SUN", "--base", "holidays"),
        "night": ("--daily", "22:00-06:00", "--timezone", "Europe/Berlin"),
        "lunch": ("--cron", "* 12 * * *"),
    }
    for name, options in kinds.items():
        assert run("calendars", "save", name, *options).output == f"{name}\tsaved\n"
    listed = [line.split("\t") for line in run("calendars").output.splitlines()]
    assert [line[0] for line in listed] == sorted(kinds)
    assert ["weekend", "not on Saturday and Sunday, UTC", "holidays"] in listed
    saved = program.call(lambda app: app.calendars.get("holidays"))
    assert isinstance(saved, Holidays)
    create("daily", "--cron", "0 12 * * *", "--calendar", "weekend", "--calendar", "night")
    result = run("calendars", "delete", "weekend")
    assert result.stderr == (
        "detent: error: cannot delete calendar 'weekend': it is used by the schedules daily\n"
    )
    assert run("calendars", "delete", "lunch", "--json").exit_code == 0
    assert run("calendars", "delete", "lunsh").stderr.startswith("detent: error: there is no")


@on_one_store
@pytest.mark.parametrize(
    "options, words",
    [
        ((), "give one kind"),
        (("--date", "2099-12-25", "--cron", "@daily"), "give one kind"),
        (("--date", "tomorrow"), "must be a date such as"),
        (("--daily", "22:00"), "must be two times such as"),
        (("--annual", "13-13"), "13-13"),
        (("--weekday", "SUNDAY", "--base", "nowhere"), "nowhere"),
        (("--weekday", "DOMINGO"), "DOMINGO"),
        (("--cron", "0 0 30 2 *"), "never happens"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused(
    run: Call, options: tuple[str, ...], words: str
) -> None:
    result = run("calendars", "save", "c", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert run("calendars", "--json").output == "[]\n"


def test_a_lock_is_taken_only_when_that_is_meant(run: Call, program: Program) -> None:
    async def hold(app: App) -> list[Result]:
        async with asyncio.timeout(30):
            held = await app.lock("import").acquire()
            words = [
                ("release", "import"),
                ("release", "imports", "--yes"),
                (),
                ("release", "import", "--yes"),
            ]
            results = [await asyncio.to_thread(run, "locks", *each) for each in words]
            await held.release()
            return results

    unsure, unknown, listed, released = program.call(hold)
    assert (unsure.exit_code, unsure.stderr) == (
        2,
        "detent: error: nobody is there to ask: say --yes\n",
    )
    assert unknown.stderr == "detent: error: nobody holds the lock 'imports'\n"
    assert listed.output.startswith("import\t")
    assert released.output == "import\treleased\n"
    assert run("locks").output == ""


def test_leaders_and_daemons_are_listed(run: Call, program: Program) -> None:
    async def lead(app: App) -> list[Result]:
        started = asyncio.Event()
        app.on(DaemonStarted, lambda _event: started.set())

        @app.daemon(name="feed")
        async def feed() -> None:
            await asyncio.Event().wait()

        async with asyncio.timeout(30), app.node(name="web-1"):
            await started.wait()
            return [await asyncio.to_thread(run, word, "--json") for word in ("leaders", "daemons")]

    leaders, daemons = (json.loads(result.output) for result in program.call(lead))
    assert [each["role"] for each in leaders] == ["daemon:feed", "maintenance", "scheduler"]
    assert {each["name"] for each in leaders} == {"web-1"}
    assert [(each["name"], each["state"], each["node"]) for each in daemons] == [
        ("feed", "running", "web-1")
    ]


# By the calendar, and what its jobs are given

KINDS: list[tuple[tuple[str, ...], Any]] = [
    (
        ("--every", "1 month", "--at", "09:00", "--from", "2026-01-31", "--timezone", "Asia/Tokyo"),
        CalendarInterval(1, "months", time(9), date(2026, 1, 31), "Asia/Tokyo"),
    ),
    (("--every", "week"), CalendarInterval(1, "weeks")),
    (("--every", "2d", "--at", "9:30"), CalendarInterval(2, "days", time(9, 30))),
    (
        ("--every", "15m", "--between", "22:00-6:00", "--weekday", "SAT-MON", "--weekday", "wed"),
        DailyWindow(MINUTE * 15, time(22), time(6), ("SAT", "SUN", "MON", "WED")),
    ),
    (
        ("--every", "90m", "--from", "2026-01-01 08:00", "--timezone", "Asia/Tokyo"),
        Interval(MINUTE * 90, datetime(2025, 12, 31, 23, tzinfo=UTC), "Asia/Tokyo"),
    ),
    (
        ("--at", "2099-12-24 18:00", "--timezone", "Asia/Tokyo"),
        Once(datetime.fromisoformat("2099-12-24 18:00"), "Asia/Tokyo"),
    ),
]


@pytest.mark.parametrize("options, trigger", KINDS, ids=lambda value: str(value)[:40])
def test_every_kind_of_trigger_can_be_said(
    create: Call, run: Call, program: Program, options: tuple[str, ...], trigger: Any
) -> None:
    assert create("new", *options).output == "new\tcreated\n"
    create("old")
    assert run("schedules", "update", "old", *options).output == "old\tchanged\n"
    for name in ("new", "old"):
        assert trigger_from(stored(program, name).schedule.trigger) == trigger
    preview = run("schedules", "next", "--json", *options)
    assert json.loads(preview.output)["when"] == trigger.describe()


def test_retries_and_params_are_said_as_in_code_and_taken_back(
    create: Call, run: Call, program: Program
) -> None:
    create(
        "nightly",
        *("--every", "5m", "--max-attempts", "3", "--retry-delay", "10s"),
        *("--retry-backoff", "fixed", "--retry-max-delay", "1h", "--no-retry-jitter"),
        *("--params", '{"tenant": "a"}', "--timeout", "30s", "--tag", "a", "--needs", "smtp"),
        *("--max-runs", "9"),
    )
    shown = json.loads(run("schedules", "show", "nightly", "--json").output)
    assert shown["retry"] == {
        "max_attempts": 3,
        "delay": 10.0,
        "backoff": "fixed",
        "max_delay": 3600.0,
        "jitter": False,
    }
    assert (shown["params"], shown["timeout"]) == ({"tenant": "a"}, 30.0)
    lines = run("schedules", "show", "nightly").output
    assert "up to 3 attempts, fixed from 10s to 1h" in lines
    assert '{"tenant": "a"}' in lines
    assert run("schedules", "update", "nightly", "--max-attempts", "2").exit_code == 0
    options = stored(program, "nightly").schedule.firing.options
    assert options is not None
    assert read_options(options).retry == StoredRetry(2, 2.0, "exponential", 86_400.0, True)
    taken = ("--max-attempts", "--params", "--timeout", "--tag", "--needs", "--max-runs")
    nothing = [word for option in taken for word in (option, "none")]
    assert run("schedules", "update", "nightly", *nothing).exit_code == 0
    schedule = stored(program, "nightly").schedule
    firing = schedule.firing
    assert (firing.options, firing.params, firing.tags, firing.lane) == (None, None, (), "default")
    assert schedule.max_runs is None


def test_calendars_are_taken_away(create: Call, run: Call, program: Program) -> None:
    run("calendars", "save", "holidays", "--date", "2099-12-25")
    create("nightly", "--every", "5m", "--calendar", "holidays")
    assert run("schedules", "update", "nightly", "--calendar", "none").exit_code == 0
    assert stored(program, "nightly").schedule.calendars == ()


MISSAID: list[tuple[tuple[str, ...], str]] = [
    (("--every", "5 parsecs"), "'--every': '5 parsecs' must be a length of time such as"),
    (("--every", "0 days"), "'--every': '0 days' must be 1 to 36,525 days"),
    (("--every", "36h", "--at", "09:00"), "--every and --at: 36h has no time of day"),
    (("--every", "5m", "--timezone", "Asia/Tokyo"), "every 5m is real time"),
    (("--every", "day", "--timezone", "Mars"), "timezone='Mars': unknown"),
    (("--every", "day", "--at", "2099-01-01"), "--at is one time of day"),
    (("--every", "day", "--at", "09:00", "--at", "10:00"), "--at is one time of day"),
    (("--every", "day", "--from", "2026-01-01 10:00"), "--from must be a day"),
    (("--every", "week", "--weekday", "MON"), "--weekday goes with --between"),
    (("--every", "2d", "--between", "09:00-10:00"), "--every must be 1s to 1d"),
    (("--every", "5m", "--between", "09:00-09:00"), "'09:00-09:00' must be two different times"),
    (("--every", "5m", "--between", "09:00"), "'--between': '09:00' must be two times"),
    (("--every", "5m", "--between", "09:00-10:00", "--from", "2026-01-01"), "begins anew each day"),
    (
        ("--every", "5m", "--between", "09:00-10:00", "--weekday", "MON-TUE-WED"),
        "'--weekday': 'MON-TUE-WED' must be one of MON",
    ),
    (("--at", "09:00"), "--at: a time of day goes with --every day"),
    (("--at", "25:00"), "'--at': '25:00' must be a time such as"),
    (("--from", "2026-01-01"), "--from: say --every too"),
    (("--cron", "@daily", "--at", "09:00"), "--cron and --at"),
    (("--every", "5m", "--max-attempts", "0"), "'--max-attempts': '0' must be a whole number"),
    (("--every", "5m", "--max-attempts", "99999"), "must be 1 to 10000, not 99999"),
    (
        ("--every", "5m", "--retry-delay", "2d", "--max-attempts", "2"),
        "must be 0 to 1d, not 2 days",
    ),
    (("--every", "5m", "--retry-delay", "2s"), "--retry-delay: say --max-attempts N too"),
    (("--every", "5m", "--max-attempts", "none", "--no-retry-jitter"), "--retry-jitter: say"),
    (("--every", "5m", "--params", "[1]"), "'--params': '[1]' must be a JSON object"),
    (("--every", "5m", "--params", "{"), "--params: JSON: "),
    (("--every", "5m", "--tag", "none", "--tag", "a"), "--tag none: takes all of them away"),
    (("--every", "5m", "--max-runs", "many"), "'--max-runs': 'many' must be a whole number"),
]


@on_one_store
@pytest.mark.parametrize("options, words", MISSAID, ids=lambda value: str(value)[:50])
def test_what_was_missaid_is_named_with_its_option(
    create: Call, run: Call, options: tuple[str, ...], words: str
) -> None:
    result = create("nightly", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert run("schedules", "--json").output == "[]\n"
