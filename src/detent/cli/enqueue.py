"""`detent enqueue`: one job from the command line."""

import asyncio
import contextlib
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from detent.app import App
from detent.cli.command import (
    FAILED,
    Failed,
    NotUnderstood,
    example,
    json_option,
    reading,
    store_options,
)
from detent.cli.completion import complete_task
from detent.cli.groups import meant
from detent.cli.locate import aim, find_app
from detent.cli.moments import now, read_time
from detent.cli.output import on_terminal, print_json, print_next, status, warn
from detent.cli.running import run
from detent.cli.session import refuse_memory
from detent.config import parse_duration
from detent.errors import DetentError, JobCanceled, JobFailed, JobTimeout
from detent.handle import Job
from detent.model.job import JobInfo, Priority
from detent.model.state import State
from detent.serving import served_queues
from detent.tasks import ON_CONFLICT, ON_KEY_MISMATCH, BoundCall

FOR_EVER: Final = ""
PATIENCE: Final = 2.0
"""How many seconds a job may be pending before it is asked who could run it."""
AROUND: Final = 60
"""How many characters of a line are shown on each side of a mistake."""


@click.command(
    "enqueue",
    epilog=example(
        """detent enqueue shop.jobs:app shop.jobs.send '{"to": "ada@example.com"}'""",
        """detent enqueue shop.jobs:app shop.jobs.send '["ada@example.com"]' --delay 5m""",
        "detent enqueue shop.jobs:app shop.jobs.load @orders.json --queue bulk --wait 1m",
    ),
)
@click.argument("place", metavar="APP")
@click.argument("task", shell_complete=complete_task)
@click.argument("arguments", metavar="[JSON]", required=False, default="{}")
@click.option(
    "--delay", metavar="5m", callback=reading(parse_duration), help="Due after that long."
)
@click.option("--at", metavar="TIME", callback=reading(read_time), help="Due at this time.")
@click.option("--queue", metavar="NAME", help="Instead of the task's queue.")
@click.option(
    "--priority",
    type=click.Choice([priority.name.lower() for priority in Priority]),
    help="Instead of the task's priority.",
)
@click.option(
    "--key", metavar="KEY", help="Idempotency key: its first job of the task is the only one."
)
@click.option(
    "--on-key-mismatch",
    type=click.Choice(ON_KEY_MISMATCH),
    default=ON_KEY_MISMATCH[0],
    show_default=True,
    help="What to do when that job has other arguments.",
)
@click.option("--unique", metavar="KEY", help="Business key: one live job of the task holds it.")
@click.option(
    "--on-conflict",
    type=click.Choice(ON_CONFLICT),
    default=ON_CONFLICT[0],
    show_default=True,
    help="What to do when a live job holds it.",
)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated.")
@click.option(
    "--timeout",
    metavar="30s",
    callback=reading(parse_duration),
    help="How long an attempt may take.",
)
@click.option("--needs", metavar="NAME", multiple=True, help="A capability; may be repeated.")
@click.option(
    "--wait",
    metavar="[1m]",
    is_flag=False,
    flag_value=FOR_EVER,
    help="Wait for the end, at most that long, and print the result. Give it last.",
)
@store_options
@json_option
def enqueue_command(
    *,
    place: str,
    task: str,
    arguments: str,
    wait: str | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue one job of APP.

    APP is module:attribute, TASK the name of one of its tasks. JSON holds the arguments: an object
    by name, an array in order. "-" reads them from standard input, "@FILE" from a file.
    """
    limit = _waiting_time(wait)
    positional, named = read_arguments(arguments)
    app = find_app(place)
    aim(app, url, schema)
    refuse_memory(app.config)
    call = _call(app, task, positional, named, options)
    run(_enqueue(app, call, place, limit, as_json), app.config)


def _waiting_time(wait: str | None) -> timedelta | None:
    """Return how long to wait; zero is not at all, None for ever."""
    if wait is None:
        return timedelta(0)
    if wait == FOR_EVER:
        return None
    try:
        return parse_duration(wait)
    except ValueError as error:
        raise NotUnderstood(f"--wait {wait!r} {error}; give --wait last") from error


def read_arguments(given: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments in order and by name, or say where the JSON goes wrong."""
    source, content = _read(given)
    try:
        value = json.loads(content, object_pairs_hook=_no_twins)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise NotUnderstood(f"{source}: {error.msg} at {place}", _spot(error)) from error
    except RecursionError as error:
        raise NotUnderstood(f"{source}: is nested too deep") from error
    except ValueError as error:
        raise NotUnderstood(f"{source}: {error}") from error
    match value:
        case dict():
            return [], value
        case list():
            return value, {}
    kind = json.dumps(value)[:40]
    raise NotUnderstood(f"{source}: must be an object or an array of arguments, not {kind}")


def _read(given: str) -> tuple[str, str]:
    """Return where the JSON stands, in words, and the JSON."""
    try:
        if given == "-":
            return "standard input", sys.stdin.read()
        if given.startswith("@"):
            return given[1:], Path(given[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise NotUnderstood(f"{given[1:]}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NotUnderstood(f"{given}: is not UTF-8: {error}") from error
    return "JSON", given


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names something twice: one of the values would be lost."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def _spot(error: json.JSONDecodeError) -> str:
    """Return the line with the mistake, and a mark below it."""
    line = (error.doc.splitlines() or [""])[error.lineno - 1 : error.lineno]
    content = line[0].replace("\t", " ") if line else ""
    column = error.colno - 1
    first = max(0, column - AROUND)
    return f"  {content[first : column + AROUND]}\n  {' ' * (column - first)}^"


def _call(
    app: App, name: str, positional: list[Any], named: dict[str, Any], options: dict[str, Any]
) -> BoundCall[Any]:
    """Return the call, checked as far as it can be without the store."""
    if options["delay"] is not None and options["at"] is not None:
        raise NotUnderstood("--delay and --at: give one of them, not both")
    task = app.tasks.find(name)
    if task is None:
        names = [known.name for known in app.tasks]
        hint = meant(name, names, "the tasks are") if names else "the app has no tasks"
        raise NotUnderstood(f"no task is named {name!r}; {hint}")
    priority = options.pop("priority")
    options["priority"] = None if priority is None else Priority[priority.upper()]
    options["needs"] = options["needs"] or None
    bound = task.options(**options).bind()
    call: BoundCall[Any] = BoundCall(task, positional, named, bound.options)
    app.client.prepare(call)
    return call


async def _enqueue(
    app: App, call: BoundCall[Any], place: str, limit: timedelta | None, as_json: bool
) -> None:
    async with app:
        job = await app.enqueue(call)
        if limit == timedelta(0):
            _print(call, job, as_json)
        else:
            await _wait(app, job, place, limit, as_json)


def _print(call: BoundCall[Any], job: Job[Any], as_json: bool) -> None:
    if as_json:
        print_json({"id": str(job.id), "created": job.created})
    elif on_terminal():
        what = "Enqueued" if job.created else "A job with this key is already there:"
        click.echo(f"{what} {click.style(str(job.id), bold=True)} ({call.task.name}).")
        print_next(f"detent jobs show {job.id}")
    else:
        click.echo(str(job.id))


async def _wait(
    app: App, job: Job[Any], place: str, limit: timedelta | None, as_json: bool
) -> None:
    """Wait for the end of the job and print what came of it."""
    record: dict[str, Any] = {"id": str(job.id), "created": job.created}
    lookout = asyncio.create_task(_miss_a_node(app, job, place))
    try:
        with status(f"waiting for job {job.id}"):
            # Not of the task's type: what is stored is what is printed.
            result = await app.jobs.result(job.id, limit)
    except (JobFailed, JobCanceled) as error:
        if not as_json:
            raise Failed(f"{error}; see: detent jobs show {job.id}") from error
        state = "failed" if isinstance(error, JobFailed) else "canceled"
        print_json(record | {"state": state, "error": str(error)})
        click.get_current_context().exit(FAILED)
    except JobTimeout as error:
        raise Failed(f"{error}, and goes on; see: detent jobs show {job.id}") from error
    finally:
        lookout.cancel()
    if as_json:
        print_json(record | {"state": "succeeded", "result": result})
    else:
        click.echo(json.dumps(result, ensure_ascii=False))


async def _miss_a_node(app: App, job: Job[Any], place: str) -> None:
    """Say once that nobody is there who could run a job, as soon as that is so."""
    with contextlib.suppress(DetentError):  # who waits for the job hears of it anyway
        while True:
            await asyncio.sleep(PATIENCE)
            found = await app.jobs.get(job.id)
            if found.state is State.PENDING and not await _is_served(app, found):
                break
        node = f"serves the queue {found.queue}"
        command = f"detent node {place}"
        if found.queue not in served_queues(app.config.node, app.tasks):
            command += f" --queues {found.queue}=10"
        if found.needs:
            needs = ",".join(found.needs)
            node += f" and has {needs}"
            command += f" --capabilities {needs}"
        warn(f"no active node {node}; the job waits for one: {command}")


async def _is_served(app: App, job: JobInfo) -> bool:
    """Tell whether a living node can run a job."""
    return any(
        node.state == "active"
        and node.lease_until > now()
        and job.queue in node.queues
        and set(job.needs) <= set(node.capabilities)
        for node in await app.nodes.list()
    )
