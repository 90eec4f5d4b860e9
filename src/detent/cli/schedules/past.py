"""`detent schedules history`, `trigger` and `backfill`: slots that were, and slots by hand."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Final, TypeVar

import click

from detent.cli.command import (
    Failed,
    NotUnderstood,
    Whole,
    example,
    json_option,
    reading,
    store_options,
)
from detent.cli.completion import complete_schedule
from detent.cli.moments import ago, iso, now, read_moment, span
from detent.cli.output import (
    Column,
    on_terminal,
    print_json,
    print_lines,
    print_next,
    print_table,
    text,
)
from detent.cli.running import load_config, run
from detent.cli.schedules.record import found, hint, slot_record
from detent.cli.session import Session, refuse_memory, with_session
from detent.errors import ScheduleNotFound, SealError
from detent.handle import Job
from detent.jobs import MAX_LIMIT
from detent.model.schedule import FiredSlot, Overlap, SlotInfo, SlotState
from detent.slots import MOST_SLOTS

if TYPE_CHECKING:
    from detent.app import App

Fired = TypeVar("Fired")

COLUMNS: Final = (
    Column("slot (UTC)"),
    Column("became"),
    Column("late", right=True),
    Column("job"),
    Column("", drops=1),
)
STYLES: Final = {SlotState.FIRED: "green"}


@click.command(
    "history",
    epilog=example(
        "detent schedules history nightly", "detent schedules history nightly --limit 200 --json"
    ),
)
@click.argument("name", shell_complete=complete_schedule)
@click.option(
    "--limit",
    type=Whole(1, MAX_LIMIT),
    default=20,
    show_default=True,
    metavar="N",
    help="How many.",
)
@click.option(
    "--before",
    callback=reading(read_moment),
    metavar="TIME",
    help="Only slots before that: the next page.",
)
@store_options
@json_option
def history_command(
    name: str,
    limit: int,
    before: datetime | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """List what became of the slots of a schedule, the latest first.

    In a pipe each slot is a line: slot, what became of it, its job, when it was fired and whether
    by hand, with tabs in between.
    """

    async def look(session: Session) -> Sequence[SlotInfo]:
        try:
            return await session.schedules.history(name, before=before, limit=limit)
        except ScheduleNotFound as error:
            raise Failed(f"{error}; {await hint(session, name)}") from error

    slots = with_session(load_config(url, schema), look)
    if as_json:
        print_json([slot_record(slot) for slot in slots])
    elif on_terminal():
        print_slots(slots)
        if slots and slots[0].job is not None:
            print_next(f"detent jobs show {slots[0].job}")
    else:
        print_lines([tuple(slot_record(slot).values()) for slot in slots])


def print_slots(slots: Sequence[SlotInfo]) -> None:
    """Print slots of the past for people."""
    if not slots:
        click.echo("None of its slots is on record.")
        return
    rows = [
        (
            f"{slot.slot:%Y-%m-%d %H:%M:%S}",
            text(str(slot.state).replace("_", " "), STYLES.get(slot.state, "yellow")),
            "" if slot.manual else span(slot.fired_at - slot.slot),
            "" if slot.job is None else str(slot.job),
            "by hand" if slot.manual else "",
        )
        for slot in slots
    ]
    print_table(COLUMNS, rows)


app_option: Final = click.option(
    "--app",
    "place",
    metavar="APP",
    help="module:attribute; only where its keys come from a provider.",
)


def _firing(
    place: str | None,
    url: str | None,
    schema: str | None,
    fire: "Callable[[Session | App], Awaitable[Fired]]",
) -> Fired:
    """Fire through an app if one is given, which knows its keys, or else through the store."""
    try:
        if place is None:
            return with_session(load_config(url, schema), fire)
        from detent.cli.locate import aim, find_app  # noqa: PLC0415  an app takes a while

        app = find_app(place)
        aim(app, url, schema)
        refuse_memory(app.config)

        async def within() -> Fired:
            async with app:
                return await fire(app)

        return run(within(), app.config)
    except SealError as error:
        raise Failed(
            f"{error}; give the keys in DETENT_ENCRYPTION_KEYS or [encryption] keys, or the app "
            "that has them with --app"
        ) from error


@click.command(
    "trigger",
    epilog=example(
        "detent schedules trigger nightly", "detent schedules trigger nightly --app shop.jobs:app"
    ),
)
@click.argument("name", shell_complete=complete_schedule)
@app_option
@store_options
@json_option
def trigger_command(
    name: str, place: str | None, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Fire a schedule once, now.

    Also one that is paused. Its next slot stays, and its overlap rule holds.
    """

    async def fire(session: "Session | App") -> Job[object]:
        await found(session, name)
        return await session.schedules.trigger_now(name)

    job = _firing(place, url, schema, fire)
    if as_json:
        print_json({"schedule": name, "job": str(job.id)})
    elif on_terminal():
        click.echo(f"Fired {click.style(name, bold=True)}: job {job.id}.")
        print_next(f"detent jobs show {job.id}")
    else:
        click.echo(str(job.id))


@click.command(
    "backfill",
    epilog=example(
        "detent schedules backfill nightly --from 2026-11-01 --to 2026-11-08",
        "detent schedules backfill nightly --from 12h --to 1h --overlap allow",
    ),
)
@click.argument("name", shell_complete=complete_schedule)
@click.option(
    "--from",
    "start",
    required=True,
    metavar="TIME",
    callback=reading(read_moment),
    help="From this time on, or that long ago.",
)
@click.option(
    "--to",
    "end",
    metavar="TIME",
    callback=reading(read_moment),
    help="Up to before this time.  [default: now]",
)
@click.option(
    "--overlap",
    type=click.Choice([str(rule) for rule in Overlap]),
    help="Instead of one after another (at once if the schedule allows it).",
)
@click.option(
    "--limit",
    type=Whole(1, MOST_SLOTS),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Refuse more slots than these.",
)
@app_option
@store_options
@json_option
def backfill_command(  # noqa: PLR0913  each is one word of the command
    *,
    name: str,
    start: datetime,
    end: datetime | None,
    overlap: str | None,
    limit: int,
    place: str | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """Fire the slots of a time in the past that were never fired.

    Slots that have a job stay as they are. A time without a zone is local. In a pipe each slot is
    a line: slot, what became of it and its job, with tabs in between.
    """

    async def fire(session: "Session | App") -> Sequence[FiredSlot]:
        await found(session, name)
        last = end or (await session.store.due_schedules([], 0)).now
        if start >= last:
            raise NotUnderstood(f"--from ({iso(start)}) must be before --to ({iso(last)})")
        return await session.schedules.backfill(name, start, last, overlap=overlap, limit=limit)

    slots = _firing(place, url, schema, fire)
    rows = [
        {"slot": iso(slot.slot), "state": str(slot.state), "job": _text(slot.job)} for slot in slots
    ]
    if as_json:
        print_json(rows)
    elif on_terminal():
        fired = sum(slot.job is not None for slot in slots)
        until = "now" if end is None else ago(end, now())
        click.echo(f"Fired {fired:,} slots from {ago(start, now())} to {until}.")
        print_next(f"detent schedules history {quote(name)}")
    else:
        print_lines([tuple(row.values()) for row in rows])


def _text(value: object) -> str | None:
    return None if value is None else str(value)
