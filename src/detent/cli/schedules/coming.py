"""`detent schedules next`: the slots to come, of a schedule or of a trigger not yet stored."""

from collections.abc import Sequence
from datetime import datetime
from shlex import quote
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from detent.cli.command import NotUnderstood, Whole, example, json_option, store_options
from detent.cli.completion import complete_schedule
from detent.cli.moments import ago, iso, now
from detent.cli.output import Column, on_terminal, print_json, print_lines, print_next, print_table
from detent.cli.running import load_config
from detent.cli.schedules.record import found, when
from detent.cli.schedules.triggers import take_trigger, trigger_options
from detent.cli.session import Session, with_session
from detent.model.triggers import Trigger
from detent.scheduling import read_trigger, zone_in
from detent.slots import MOST_SLOTS

PREVIEW: Final = "preview"


@click.command(
    "next",
    epilog=example(
        "detent schedules next nightly --count 10",
        'detent schedules next --cron "0 9 * * MON-FRI" --timezone Europe/Berlin',
        "detent schedules next --every 15m --json",
        "detent schedules next --every '2 weeks' --at 09:00 --from 2026-01-05",
    ),
)
@click.argument("name", required=False, shell_complete=complete_schedule)
@click.option(
    "--count",
    type=Whole(1, MOST_SLOTS),
    default=5,
    show_default=True,
    metavar="N",
    help="How many.",
)
@trigger_options
@store_options
@json_option
def next_command(
    *,
    name: str | None,
    count: int,
    url: str | None,
    schema: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the next slots, and say it in words.

    Of a schedule, or of what --cron, --every or --at describe, which needs no store. In local time
    and in UTC. In a pipe each slot is a line with both, and a tab in between.
    """
    described = take_trigger(options)
    timezone = options["timezone"]
    if (name is None) == (described is None):
        raise NotUnderstood("give one of NAME, --cron, --every and --at")
    if name is None:
        trigger = read_trigger(PREVIEW, described, timezone)
        _print(None, trigger.describe(), trigger.timezone, _preview(trigger, count), as_json)
        return
    if timezone is not None:
        raise NotUnderstood("--timezone: a schedule has its own")

    async def look(session: Session) -> tuple[str, str, Sequence[datetime]]:
        schedule = (await found(session, name)).schedule
        slots = await session.schedules.next(name, count)
        return when(schedule), zone_in(schedule.trigger), slots

    words, place, slots = with_session(load_config(url, schema), look)
    _print(name, words, place, slots, as_json)


def _preview(trigger: Trigger, count: int) -> Sequence[datetime]:
    slots: list[datetime] = []
    slot = trigger.next_after(now())
    while slot is not None and len(slots) < count:
        slots.append(slot)
        slot = trigger.next_after(slot)
    return slots


def _print(
    name: str | None, words: str, place: str, slots: Sequence[datetime], as_json: bool
) -> None:
    local = [slot.astimezone(ZoneInfo(place)) for slot in slots]
    if as_json:
        record: dict[str, Any] = {} if name is None else {"name": name}
        print_json(
            record
            | {
                "when": words,
                "timezone": place,
                "slots": [
                    {"local": here.isoformat(), "utc": iso(slot)}
                    for here, slot in zip(local, slots, strict=True)
                ],
            }
        )
    elif on_terminal():
        _print_for_people(name, words, place, list(zip(local, slots, strict=True)))
    else:
        print_lines(
            [(here.isoformat(), iso(slot)) for here, slot in zip(local, slots, strict=True)]
        )


def _print_for_people(
    name: str | None, words: str, place: str, slots: Sequence[tuple[datetime, datetime]]
) -> None:
    click.echo(f"{words[:1].upper()}{words[1:]}.")
    if not slots:
        click.echo("There is no slot to come.")
        return
    click.echo()
    at = now()
    columns = (Column(place), Column("UTC"), Column("", right=True))
    rows = [
        (f"{here:%a %Y-%m-%d %H:%M:%S %z}", f"{slot:%Y-%m-%d %H:%M:%S}", ago(slot, at))
        for here, slot in slots
    ]
    print_table(columns, rows)
    if name is not None:
        print_next(f"detent schedules history {quote(name)}")
