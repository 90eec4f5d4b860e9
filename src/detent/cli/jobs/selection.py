"""Which jobs are meant: an id, or the same filters wherever many are meant."""

from typing import Any, Final
from uuid import UUID

import click

from detent.cli.command import Command, NotUnderstood, reading
from detent.cli.completion import complete_queue
from detent.cli.moments import iso, read_moment
from detent.model.job import JobFilter
from detent.model.state import State

_TIME: Final = "1h|TIME"


def read_id(text: str) -> UUID:
    """Return the id of a job, as it is listed."""
    try:
        return UUID(text)
    except ValueError as error:
        raise ValueError("is no id of a job; `detent jobs list` has them") from error


def filter_options(command: Command) -> Command:
    """Give a command the options that say which jobs are meant."""
    options = (
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice([str(state) for state in State]),
            help="In this state; may be repeated.",
        ),
        click.option("--task", metavar="NAME", help="Of this task."),
        click.option(
            "--queue", metavar="NAME", help="In this queue.", shell_complete=complete_queue
        ),
        click.option("--tag", metavar="TAG", help="With this tag."),
        click.option("--key", metavar="KEY", help="With this key, of either kind."),
        click.option(
            "--since",
            metavar=_TIME,
            callback=reading(read_moment),
            help="Enqueued since then; 1h is an hour ago.",
        ),
        click.option(
            "--until", metavar=_TIME, callback=reading(read_moment), help="Enqueued until then."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def filter_of(filters: dict[str, Any]) -> JobFilter:
    """Return what the options say."""
    states = tuple(State(state) for state in filters["states"])
    where = JobFilter(**(filters | {"states": states}))
    if where.since is not None and where.until is not None and where.since > where.until:
        raise NotUnderstood("--since is later than --until: no job can be meant")
    return where


def described(where: JobFilter) -> str:
    """Return a filter in words, as it was typed."""
    words = [f"--state {state}" for state in where.states]
    values = {name: getattr(where, name) for name in ("task", "queue", "tag", "key")}
    moments = {name: getattr(where, name) for name in ("since", "until")}
    values |= {name: iso(moment) for name, moment in moments.items()}
    words += [f"--{name} {value}" for name, value in values.items() if value is not None]
    return " ".join(words)
