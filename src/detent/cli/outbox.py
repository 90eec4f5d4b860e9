"""`detent outbox`: which events wait for a sink, and which it would not take."""

from collections.abc import Sequence
from typing import Any, Final

import click

from detent.cli.command import Failed, NotUnderstood, Whole, example, json_option, store_options
from detent.cli.groups import CommandGroup, Part
from detent.cli.moments import ago, iso, now
from detent.cli.output import (
    Column,
    can_ask,
    confirm,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_table,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.outbox import Outbox
from detent.spi.outbox import EventInfo

PARTS: Final = {
    "list": Part(
        "detent.cli.outbox:list_command",
        "List the events that no sink has taken yet, the oldest first.",
    ),
    "retry": Part(
        "detent.cli.outbox:retry_command",
        "Let undeliverable events be tried again, as if they were new.",
    ),
    "discard": Part(
        "detent.cli.outbox:discard_command", "Remove events that nobody is to get any more."
    ),
}
COLUMNS: Final = (
    Column("event", right=True),
    Column("sink", shrinks=True),
    Column("kind"),
    Column("job"),
    Column("task", shrinks=True, drops=3),
    Column("created", right=True, drops=2),
    Column("tries", right=True),
    Column("state"),
    Column("problem", shrinks=True, drops=1),
)


@click.group(
    "outbox",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example(
        "detent outbox", "detent outbox list --undeliverable", "detent outbox retry --sink billing"
    ),
)
def outbox_command() -> None:
    """Look at events that no sink has taken yet; try them again.

    Without a command, they are listed.
    """


@click.command(
    "list",
    epilog=example("detent outbox", "detent outbox list --sink billing --undeliverable --json"),
)
@click.option("--sink", metavar="NAME", help="Only the events for this sink.")
@click.option("--undeliverable", is_flag=True, help="Only those that nobody tries any more.")
@click.option(
    "--limit",
    metavar="COUNT",
    type=Whole(1, 10_000),
    default=100,
    help="At most so many, the oldest.  [default: 100]",
)
@store_options
@json_option
def list_command(
    sink: str | None,
    undeliverable: bool,
    limit: int,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """List the events that no sink has taken yet, the oldest first.

    In a pipe each event is a line: number, sink, kind, job, task, when it was created, how often
    it was tried, when it is tried next (empty for an undeliverable one) and what came of the last
    try, with tabs in between.
    """

    async def look(session: Session) -> Sequence[EventInfo]:
        outbox = Outbox(session.store)
        return await outbox.list(sink=sink, undeliverable=undeliverable or None, limit=limit)

    events = with_session(load_config(url, schema), look)
    if as_json:
        print_json([_record(info) for info in events])
    elif on_terminal():
        _print_for_people(events)
    else:
        print_lines([_line(info) for info in events])


def _record(info: EventInfo) -> dict[str, Any]:
    event = info.event
    return {
        "id": event.id,
        "sink": event.sink,
        "kind": event.kind,
        "job": str(event.job),
        "task": event.task,
        "alert": event.alert,
        "created_at": iso(info.created_at),
        "tries": event.tries,
        "undeliverable": info.parked_at is not None,
        "next_try_at": None if info.parked_at is not None else iso(info.due_at),
        "problem": info.problem,
    }


def _line(info: EventInfo) -> tuple[object, ...]:
    record = _record(info)
    del record["alert"], record["undeliverable"]
    return tuple(record.values())


def _print_for_people(events: Sequence[EventInfo]) -> None:
    if not events:
        click.echo("No event waits: all have been delivered, or none was asked for.")
        return
    at = now()
    rows = [
        (
            str(info.event.id),
            one_line(info.event.sink),
            info.event.kind,
            str(info.event.job),
            one_line(info.event.task),
            ago(info.created_at, at),
            str(info.event.tries),
            text("waits") if info.parked_at is None else text("undeliverable", "bold red"),
            one_line(info.problem or ""),
        )
        for info in events
    ]
    print_table(COLUMNS, rows)
    parked = [info.event.id for info in events if info.parked_at is not None]
    print_next(f"detent outbox retry {parked[0]}" if parked else "detent nodes")


@click.command(
    "discard",
    epilog=example("detent outbox discard 4711", "detent outbox discard --sink billing --yes"),
)
@click.argument("events", nargs=-1, type=Whole(1), metavar="[EVENT]...")
@click.option("--sink", metavar="NAME", help="All events for this sink, also those that wait.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options
@json_option
def discard_command(
    events: tuple[int, ...],
    sink: str | None,
    yes: bool,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """Remove events that nobody is to get any more.

    EVENT is a number from `detent outbox list`. Of a sink that no program declares any more, all
    events wait until somebody removes them.
    """
    if sink is None and not events:
        raise click.UsageError("name events, or a --sink", click.get_current_context())
    if not events and not yes:
        if not can_ask():
            raise NotUnderstood("detent outbox discard: nobody to ask here; add --yes")
        if not confirm(f"Discard all events for {one_line(str(sink))}? Nobody will get them."):
            raise Failed("nothing was discarded")

    async def discard(session: Session) -> int:
        return await Outbox(session.store).discard(*events, sink=sink)

    count = with_session(load_config(url, schema), discard)
    if events and not count:
        raise Failed(f"no event is numbered {_numbers(events)}; see: detent outbox list")
    _tell_count(count, "discarded", "discarded", as_json)


@click.command(
    "retry",
    epilog=example(
        "detent outbox retry 4711 4712",
        "detent outbox retry --sink billing",
        "detent outbox retry --all",
    ),
)
@click.argument("events", nargs=-1, type=Whole(1), metavar="[EVENT]...")
@click.option("--sink", metavar="NAME", help="All undeliverable events for this sink.")
@click.option("--all", "everything", is_flag=True, help="All undeliverable events.")
@store_options
@json_option
def retry_command(
    events: tuple[int, ...],
    sink: str | None,
    everything: bool,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """Let undeliverable events be tried again, as if they were new.

    EVENT is a number from `detent outbox list`.
    """
    if not events and sink is None and not everything:
        raise click.UsageError("name events, a --sink, or --all", click.get_current_context())

    async def retry(session: Session) -> int:
        return await Outbox(session.store).retry(*events, sink=sink)

    count = with_session(load_config(url, schema), retry)
    if events and not count:
        numbers = _numbers(events)
        raise Failed(f"no undeliverable event is numbered {numbers}; see: detent outbox list")
    _tell_count(count, "retried", "tried again", as_json)


def _numbers(events: Sequence[int]) -> str:
    return ", ".join(map(str, events))


def _tell_count(count: int, key: str, words: str, as_json: bool) -> None:
    """Say what became of how many events."""
    if as_json:
        print_json({key: count})
        return
    click.echo(f"{count:,} events are {words}." if count != 1 else f"1 event is {words}.")
    print_next("detent outbox")
