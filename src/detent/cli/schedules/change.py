"""`detent schedules pause`, `resume`, `reset` and `delete`."""

from shlex import quote

import click

from detent.cli.command import NotUnderstood, example, json_option, store_options
from detent.cli.completion import complete_schedule
from detent.cli.output import on_terminal, print_json, print_lines, print_next
from detent.cli.running import load_config
from detent.cli.schedules.record import found, full
from detent.cli.session import Session, with_session
from detent.model.schedule import ScheduleInfo


def _one_of(name: str | None, group: str | None) -> None:
    if (name is None) == (group is None):
        raise NotUnderstood("give NAME or --group, one of them")


@click.command(
    "pause",
    epilog=example("detent schedules pause nightly", "detent schedules pause --group reports"),
)
@click.argument("name", required=False, shell_complete=complete_schedule)
@click.option("--group", metavar="NAME", help="All of a group, those that join it later too.")
@store_options
@json_option
def pause_command(
    name: str | None, group: str | None, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Let schedules fire no more for now.

    Jobs that were fired go on.
    """
    _one_of(name, group)

    async def pause(session: Session) -> int:
        if name is None:
            return await session.schedules.pause_group(group or "")
        await found(session, name)
        await session.schedules.pause(name)
        return 1

    count = with_session(load_config(url, schema), pause)
    _print_switched(name, group, count, "paused", as_json)


@click.command(
    "resume",
    epilog=example("detent schedules resume nightly", "detent schedules resume --group reports"),
)
@click.argument("name", required=False, shell_complete=complete_schedule)
@click.option("--group", metavar="NAME", help="All of a group.")
@store_options
@json_option
def resume_command(
    name: str | None, group: str | None, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Let schedules fire again.

    What they missed meanwhile follows their misfire rule.
    """
    _one_of(name, group)

    async def resume(session: Session) -> int:
        if name is None:
            return await session.schedules.resume_group(group or "")
        await found(session, name)
        await session.schedules.resume(name)
        return 1

    count = with_session(load_config(url, schema), resume)
    _print_switched(name, group, count, "resumed", as_json)


def _print_switched(
    name: str | None, group: str | None, count: int, done: str, as_json: bool
) -> None:
    what = "schedule" if name is not None else "group"
    which = name or group or ""
    if as_json:
        print_json({what: which, "paused": done == "paused", "count": count})
    elif not on_terminal():
        print_lines([(which, done)] if name is not None else [(which, done, count)])
    elif name is not None:
        click.echo(f"The schedule {click.style(name, bold=True)} is {done}.")
        print_next(f"detent schedules {'resume' if done == 'paused' else 'next'} {quote(name)}")
    else:
        click.echo(f"The group {click.style(which, bold=True)} is {done}: {count:,} schedules.")
        print_next(f"detent schedules list --group {quote(which)}")


@click.command(
    "reset",
    epilog=example(
        "detent schedules reset nightly", "detent schedules reset nightly trigger overlap"
    ),
)
@click.argument("name", shell_complete=complete_schedule)
@click.argument("fields", nargs=-1, metavar="[FIELD]...")
@store_options
@json_option
def reset_command(
    name: str, fields: tuple[str, ...], url: str | None, schema: str | None, as_json: bool
) -> None:
    """Give edited fields back to the code that declares the schedule.

    All of them, unless some are named. They change when a running node looks next, within a
    minute or so.
    """

    async def reset(session: Session) -> ScheduleInfo:
        await found(session, name)
        return await session.schedules.reset(name, *fields)

    info = with_session(load_config(url, schema), reset)
    if as_json:
        print_json(full(info))
    elif on_terminal():
        click.echo(f"Code decides about {click.style(name, bold=True)} again, within a minute.")
        print_next(f"detent schedules show {quote(name)}")
    else:
        print_lines([(name, "reset")])


@click.command(
    "delete",
    epilog=example(
        "detent schedules delete nightly", "detent schedules delete nightly --cancel-jobs"
    ),
)
@click.argument("name", shell_complete=complete_schedule)
@click.option("--cancel-jobs", is_flag=True, help="Cancel its jobs that have not ended, too.")
@store_options
@json_option
def delete_command(
    name: str, cancel_jobs: bool, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Remove a schedule.

    What became of its slots stays as history. One that running code declares would come back: it
    is refused; pause it, or remove it there.
    """

    async def delete(session: Session) -> int:
        await found(session, name)
        return await session.schedules.delete(name, cancel_jobs=cancel_jobs)

    canceled = with_session(load_config(url, schema), delete)
    if as_json:
        print_json({"schedule": name, "deleted": True, "canceled_jobs": canceled})
    elif on_terminal():
        jobs = f", and {canceled:,} jobs are canceled" if cancel_jobs else ""
        click.echo(f"The schedule {click.style(name, bold=True)} is gone{jobs}.")
        print_next("detent schedules")
    else:
        print_lines([(name, "deleted", canceled)])
