"""`detent schedules list`: what fires next, and what does not."""

from collections.abc import Sequence
from shlex import quote
from typing import Final

import click

from detent.cli.command import Whole, example, json_option, store_options
from detent.cli.moments import ago, now
from detent.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_table,
    text,
)
from detent.cli.running import load_config
from detent.cli.schedules.record import brief, state_of, when
from detent.cli.session import Session, with_session
from detent.jobs import MAX_LIMIT
from detent.model.schedule import ScheduleInfo

COLUMNS: Final = (
    Column("schedule", shrinks=True),
    Column("state"),
    Column("when", shrinks=True),
    Column("task", shrinks=True, drops=2),
    Column("next", right=True),
    Column("last", right=True),
    Column("runs", right=True, drops=1),
)
STYLES: Final = {"active": "green", "paused": "yellow", "problem": "bold red", "over": "dim"}


@click.command(
    "list",
    epilog=example(
        "detent schedules", "detent schedules list --group reports", "detent schedules list --json"
    ),
)
@click.option("--group", metavar="NAME", help="Only those of this group.")
@click.option(
    "--limit",
    type=Whole(1, MAX_LIMIT),
    default=100,
    show_default=True,
    metavar="N",
    help="How many.",
)
@click.option("--after", metavar="NAME", help="Only those behind this name: the next page.")
@store_options
@json_option
def list_command(
    group: str | None,
    limit: int,
    after: str | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """List schedules by name.

    In a pipe each schedule is a line: name, group, state, task, when it fires, its next slot, the
    last one, how often it ran, who declared it and its problem, with tabs in between.
    """

    async def look(session: Session) -> Sequence[ScheduleInfo]:
        return await session.schedules.list(group=group, after=after, limit=limit)

    schedules = with_session(load_config(url, schema), look)
    if as_json:
        print_json([brief(info) for info in schedules])
    elif on_terminal():
        _print_for_people(schedules, limit)
    else:
        print_lines([tuple(brief(info).values()) for info in schedules])


def _print_for_people(schedules: Sequence[ScheduleInfo], limit: int) -> None:
    if not schedules:
        click.echo("There are no schedules.")
        print_next("detent schedules create APP NAME TASK --cron '0 9 * * *'")
        return
    at = now()
    rows = [
        (
            one_line(info.schedule.name),
            text(state_of(info), STYLES[state_of(info)]),
            one_line(when(info.schedule)),
            one_line(info.schedule.firing.task),
            "" if info.next_fire is None else ago(info.next_fire, at),
            "" if info.prev_fire is None else ago(info.prev_fire, at),
            f"{info.runs:,}",
        )
        for info in schedules
    ]
    print_table(COLUMNS, rows)
    troubled = [info for info in schedules if info.problem is not None]
    for info in troubled:
        click.echo(f"{one_line(info.schedule.name)}: {one_line(info.problem or '')}")
    chosen = (troubled or schedules)[0].schedule.name
    more = [f"detent schedules list --after {quote(schedules[-1].schedule.name)}"]
    print_next(f"detent schedules show {quote(chosen)}", *(more if len(schedules) == limit else ()))
