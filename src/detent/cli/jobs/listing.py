"""`detent jobs list`: the newest jobs, narrowed down."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import click

from detent.cli.command import NotUnderstood, Whole, example, json_option, reading, store_options
from detent.cli.jobs.record import brief, when
from detent.cli.jobs.selection import filter_of, filter_options, read_id
from detent.cli.moments import iso, now
from detent.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_table,
    state_text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.ids import timestamp_of
from detent.jobs import MAX_LIMIT
from detent.model.job import JobFilter, JobInfo

COLUMNS: Final = (
    Column("id"),
    Column("task", shrinks=True),
    Column("queue", shrinks=True, drops=2),
    Column("state"),
    Column("try", right=True, drops=1),
    Column("when", shrinks=True),
)


@click.command(
    "list",
    epilog=example(
        "detent jobs list --state failed --since 1h",
        "detent jobs list --task shop.send --tag vip --limit 200 --json",
        "detent jobs list --state failed | cut -f1 | xargs detent jobs retry",
    ),
)
@filter_options
@click.option("--archived", is_flag=True, help="The jobs in the archive instead of the others.")
@click.option(
    "--limit",
    type=Whole(1, MAX_LIMIT),
    default=50,
    show_default=True,
    metavar="N",
    help="How many.",
)
@click.option(
    "--before", callback=reading(read_id), metavar="ID", help="Only older jobs: the next page."
)
@click.option(
    "--after", callback=reading(read_id), metavar="ID", help="Only newer jobs: what came since."
)
@store_options
@json_option
def list_command(
    *,
    url: str | None,
    schema: str | None,
    as_json: bool,
    limit: int,
    before: UUID | None,
    after: UUID | None,
    **filters: Any,
) -> None:
    """List jobs, the newest first.

    In a pipe each job is a line: id, task, queue, state, attempt, and the times at which it was
    enqueued, is due and ended, with tabs in between.
    """
    where = newer(filter_of(filters), after)

    async def look(session: Session) -> list[JobInfo]:
        return await session.store.list_jobs(where, limit, before)

    jobs = with_session(load_config(url, schema), look)
    if after is not None:
        jobs = [job for job in jobs if job.id > after]
    more = jobs[-1].id if len(jobs) == limit else None
    if as_json:
        print_json({"items": [brief(job) for job in jobs], "next": more and str(more)})
    elif on_terminal():
        _print_for_people(jobs, more)
    else:
        print_lines([_line(job) for job in jobs])


def newer(where: JobFilter, after: UUID | None) -> JobFilter:
    """Return a filter without most jobs that are not newer; ids begin with their time."""
    if after is None:
        return where
    if after.version != 7:
        raise NotUnderstood(f"--after {after}: has no time in it, as ids of jobs have")
    moment = timestamp_of(after)
    return replace(where, since=moment if where.since is None else max(moment, where.since))


def _print_for_people(jobs: Sequence[JobInfo], more: UUID | None) -> None:
    if not jobs:
        click.echo("No job matches.")
        print_next("detent queues   where jobs are", "detent jobs list -h   what else to look for")
        return
    at = now()
    rows = [
        (
            str(job.id),
            one_line(job.task),
            one_line(job.queue),
            state_text(str(job.state)),
            str(job.attempt),
            when(job, at),
        )
        for job in jobs
    ]
    print_table(COLUMNS, rows)
    steps = [f"detent jobs show {jobs[0].id}"]
    if more is not None:
        steps.append(f"--before {more}   for older ones")
    print_next(*steps)


def _line(job: JobInfo) -> tuple[object, ...]:
    times = (iso(job.enqueued_at), iso(job.due_at), iso(job.finished_at))
    return (job.id, job.task, job.queue, str(job.state), job.attempt, *times)
