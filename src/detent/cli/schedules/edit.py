"""`detent schedules create` and `update`: schedules by hand, with the same words as in code."""

import re
from collections.abc import Callable
from dataclasses import replace
from shlex import quote
from typing import Any, Final, TypeVar

import click

from detent.cli.command import NotUnderstood, example, json_option, reading, store_options
from detent.cli.completion import complete_schedule, complete_task
from detent.cli.enqueue import read_arguments
from detent.cli.groups import meant
from detent.cli.locate import aim, find_app
from detent.cli.moments import ago, now, read_time
from detent.cli.output import on_terminal, print_json, print_lines, print_next
from detent.cli.running import load_config, run
from detent.cli.schedules.record import found, full, when
from detent.cli.schedules.triggers import take_trigger, trigger_options
from detent.cli.session import Session, refuse_memory, with_session
from detent.config import parse_duration
from detent.model.job import Priority
from detent.model.retry import Retry
from detent.model.schedule import Overlap, ScheduleInfo
from detent.model.triggers import CalendarInterval, DailyWindow
from detent.schedules import Schedules
from detent.scheduling import zone_in

Command = TypeVar("Command", bound=Callable[..., Any])
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,11}")
NOTHING: Final = "none"
"""What takes away what was said before."""


def _or_nothing(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda value: NOTHING if value == NOTHING else read(value)


def _read_count(value: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise ValueError(f'must be a whole number from 1 to 999,999,999,999, or "{NOTHING}"')
    return int(value)


def _read_params(value: str) -> dict[str, Any]:
    try:
        in_order, by_name = read_arguments(value)
    except NotUnderstood as error:
        raise NotUnderstood(f"--params: {error.message}", error.details) from error
    if in_order:
        raise ValueError("must be a JSON object")
    return by_name


def settings(command: Command) -> Command:
    """Give a command an option for each thing that can be said about a schedule."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return trigger_options(command)


_OPTIONS: Final = (
    click.option("--group", metavar="NAME", help="What it is paused with."),
    click.option(
        "--calendar",
        "calendars",
        metavar="NAME",
        multiple=True,
        help="Times to leave out; may be repeated.",
    ),
    click.option("--misfire", metavar="RULE", help="skip, fire_once or catch_up(N)."),
    click.option("--misfire-threshold", metavar="60s", help="Fired later, a slot was missed."),
    click.option(
        "--overlap",
        type=click.Choice([str(rule) for rule in Overlap]),
        help="While an earlier job lives.",
    ),
    click.option("--jitter", metavar="30s", help="Spread its jobs over this long."),
    click.option(
        "--start", metavar="TIME", callback=reading(_or_nothing(read_time)), help="Not before this."
    ),
    click.option(
        "--end", metavar="TIME", callback=reading(_or_nothing(read_time)), help="Not after this."
    ),
    click.option(
        "--max-runs",
        metavar="N",
        callback=reading(_or_nothing(_read_count)),
        help="Only so often.",
    ),
    click.option("--description", metavar="TEXT", help="For people."),
    click.option("--queue", metavar="NAME", help="Of its jobs, instead of the task's."),
    click.option(
        "--priority",
        type=click.Choice([priority.name.lower() for priority in Priority]),
        help="Of its jobs, instead of the task's.",
    ),
    click.option(
        "--timeout",
        metavar="30s",
        callback=reading(_or_nothing(parse_duration)),
        help="How long an attempt may take, instead of the task's.",
    ),
    click.option(
        "--max-attempts",
        metavar="N",
        callback=reading(_or_nothing(_read_count)),
        help="How often a job is tried, instead of the task's.",
    ),
    click.option(
        "--retry-delay",
        metavar="2s",
        callback=reading(parse_duration),
        help="With --max-attempts: the first wait.  [default: 2s]",
    ),
    click.option(
        "--retry-backoff",
        type=click.Choice(["exponential", "fixed"]),
        help="With --max-attempts: how waits grow.  [default: exponential]",
    ),
    click.option(
        "--retry-max-delay",
        metavar="24h",
        callback=reading(parse_duration),
        help="With --max-attempts: the longest wait.  [default: 24h]",
    ),
    click.option(
        "--retry-jitter/--no-retry-jitter",
        default=None,
        help="With --max-attempts: vary the waits, so that not all come back together.",
    ),
    click.option(
        "--params",
        metavar="JSON",
        callback=reading(_or_nothing(_read_params)),
        help="What its jobs bring along, as an object.",
    ),
    click.option("--needs", metavar="NAME", multiple=True, help="A capability; may be repeated."),
    click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated."),
)
_MANY: Final = {"calendars": "--calendar", "needs": "--needs", "tags": "--tag"}
_RETRY: Final = {
    "retry_delay": "delay",
    "retry_backoff": "backoff",
    "retry_max_delay": "max_delay",
    "retry_jitter": "jitter",
}


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """Return what was said, as `app.schedules` takes it."""
    retry = _retry(options)
    said = {name: value for name, value in options.items() if value not in (None, ())}
    if "priority" in said:
        said["priority"] = Priority[said["priority"].upper()]
    for name, option in _MANY.items():
        if NOTHING in said.get(name, ()):
            if len(said[name]) > 1:
                raise NotUnderstood(f"{option} {NOTHING}: takes all of them away; give it alone")
            said[name] = ()
    single = {name: None for name, value in said.items() if value == NOTHING and name in _SINGLE}
    return said | single | retry


_SINGLE: Final = ("start", "end", "max_runs", "timeout", "params")


def _retry(options: dict[str, Any]) -> dict[str, Any]:
    """Take the retry policy out of the options; it is said as a whole."""
    attempts = options.pop("max_attempts")
    said = {option: options.pop(option) for option in _RETRY}
    given = {option: value for option, value in said.items() if value is not None}
    if given and attempts in (None, NOTHING):
        words = " and ".join(f"--{option.replace('_', '-')}" for option in given)
        raise NotUnderstood(f"{words}: say --max-attempts N too; a policy is given as a whole")
    if attempts is None:
        return {}
    if attempts == NOTHING:
        return {"retry": None}
    try:
        fields: dict[str, Any] = {_RETRY[option]: value for option, value in given.items()}
        return {"retry": Retry(attempts, **fields)}
    except ValueError as error:
        raise NotUnderstood(str(error)) from error


@click.command(
    "create",
    epilog=example(
        "detent schedules create shop.jobs:app nightly shop.jobs.clean --cron '0 3 * * *'",
        """detent schedules create shop.jobs:app ping shop.jobs.ping '{"host": "a"}' --every 5m""",
        "detent schedules create shop.jobs:app gift shop.jobs.send --at '2026-12-24 18:00'",
        "detent schedules create shop.jobs:app bills shop.jobs.bill --every '1 month' --at 09:00",
        "detent schedules create shop.jobs:app poll shop.jobs.poll --every 15m"
        " --between 09:00-17:00",
    ),
)
@click.argument("place", metavar="APP")
@click.argument("name")
@click.argument("task", shell_complete=complete_task)
@click.argument("arguments", metavar="[JSON]", required=False, default="{}")
@settings
@store_options
@json_option
def create_command(
    *,
    place: str,
    name: str,
    task: str,
    arguments: str,
    url: str | None,
    schema: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Create a schedule for a task of APP.

    APP is module:attribute. JSON holds the arguments of the task: an object by name, an array in
    order; "-" reads them from standard input, "@FILE" from a file. Nodes of APP need not be told.
    """
    trigger = take_trigger(options)
    if trigger is None:
        raise NotUnderstood("say when: --cron, --every or --at")
    args, kwargs = read_arguments(arguments)
    app = find_app(place)
    aim(app, url, schema)
    refuse_memory(app.config)
    if app.tasks.find(task) is None:
        names = [known.name for known in app.tasks]
        hint = meant(task, names, "the tasks are") if names else "the app has no tasks"
        raise NotUnderstood(f"no task is named {task!r}; {hint}")

    async def create() -> ScheduleInfo:
        async with app:
            said = _changes(options)
            return await app.schedules.create(name, trigger, task, args=args, kwargs=kwargs, **said)

    info = run(create(), app.config)
    _print(info, "Created", as_json)


@click.command(
    "update",
    epilog=example(
        "detent schedules update nightly --cron '0 4 * * *' --timezone Europe/Berlin",
        "detent schedules update nightly --overlap skip --jitter 5m",
        """detent schedules update ping --app shop.jobs:app --args '{"host": "b"}'""",
    ),
)
@click.argument("name", shell_complete=complete_schedule)
@settings
@click.option("--args", "arguments", metavar="JSON", help="Of the task; needs --app.")
@click.option(
    "--app",
    "place",
    metavar="APP",
    help="module:attribute, which checks --args and has the limits of the task.",
)
@click.option(
    "--revision", type=int, metavar="N", help="Only if it is still as `show` has shown it."
)
@store_options
@json_option
def update_command(
    *,
    name: str,
    arguments: str | None,
    place: str | None,
    revision: int | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Change some fields of a schedule.

    What is not named stays, the zone of its times too. In a schedule that code declares, what was
    changed stays so, whatever code says, until `detent schedules reset`. The word none takes away
    what was said: --end none, --calendar none, --timeout none, --max-attempts none.
    """
    keeps_zone = options["timezone"] is None
    trigger = take_trigger(options)
    keeps_zone = keeps_zone and isinstance(trigger, CalendarInterval | DailyWindow)
    changes = _changes(options)
    if arguments is not None:
        if place is None:
            raise NotUnderstood("--args: say --app too, which can check them")
        changes["args"], changes["kwargs"] = read_arguments(arguments)
    if not changes and trigger is None:
        raise NotUnderstood("nothing to change (see: detent schedules update -h)")
    words: dict[str, Any] = {"revision": revision, **changes}
    if place is None:

        async def update(session: Session) -> ScheduleInfo:
            await found(session, name)
            return await _update(session.schedules, name, trigger, words, keeps_zone)

        info = with_session(load_config(url, schema), update)
    else:
        app = find_app(place)
        aim(app, url, schema)
        refuse_memory(app.config)

        async def within() -> ScheduleInfo:
            async with app:
                return await _update(app.schedules, name, trigger, words, keeps_zone)

        info = run(within(), app.config)
    _print(info, "Changed", as_json)


async def _update(
    schedules: Schedules, name: str, trigger: Any, words: dict[str, Any], keeps_zone: bool
) -> ScheduleInfo:
    if keeps_zone:
        stored = (await schedules.get(name)).schedule
        trigger = replace(trigger, timezone=zone_in(stored.trigger))
    return await schedules.update(name, trigger, **words)


def _print(info: ScheduleInfo, done: str, as_json: bool) -> None:
    name = info.schedule.name
    if as_json:
        print_json(full(info))
    elif on_terminal():
        coming = "" if info.next_fire is None else f"; next {ago(info.next_fire, now())}"
        click.echo(f"{done} {click.style(name, bold=True)}: {when(info.schedule)}{coming}.")
        print_next(f"detent schedules next {quote(name)}", f"detent schedules show {quote(name)}")
    else:
        print_lines([(name, done.lower())])
