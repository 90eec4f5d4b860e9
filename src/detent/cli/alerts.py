"""`detent alerts`: which kinds of failures there were, how often, and who has seen it."""

import getpass
from collections.abc import Sequence
from typing import Any, Final

import click

from detent.alerts import Alerts
from detent.cli.command import NotUnderstood, Whole, example, json_option, store_options
from detent.cli.groups import CommandGroup, Part
from detent.cli.moments import ago, iso, local, now
from detent.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_pairs,
    print_table,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.clock import SystemRuntime
from detent.events import Bus
from detent.spi.outbox import AlertInfo

PARTS: Final = {
    "list": Part("detent.cli.alerts:list_command", "List the kinds of failures, the newest first."),
    "show": Part(
        "detent.cli.alerts:show_command", "Show one alert, whom it was told to and who saw it."
    ),
    "ack": Part("detent.cli.alerts:ack_command", "Note that somebody has seen an alert."),
}
WORDS: Final = {
    "told": "told to",
    "undeliverable": "given up for",
    "retried": "retried for",
    "discarded": "discarded for",
    "acked": "seen by",
}
COLUMNS: Final = (
    Column("alert", right=True),
    Column("task", shrinks=True),
    Column("count", right=True),
    Column("last", right=True),
    Column("error", shrinks=True),
    Column("first job", drops=1),
    Column("told", drops=2),
    Column("seen by", shrinks=True),
)


@click.group(
    "alerts",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example(
        "detent alerts",
        "detent alerts list --open",
        "detent alerts show 12",
        "detent alerts ack 12",
    ),
)
def alerts_command() -> None:
    """Look at the kinds of failures; note that somebody has seen one.

    Without a command, they are listed.
    """


@click.command(
    "list", epilog=example("detent alerts", "detent alerts list --task shop.send --json")
)
@click.option("--task", metavar="NAME", help="Only those of this task.")
@click.option("--open", "unseen", is_flag=True, help="Only those that nobody has acknowledged.")
@click.option(
    "--limit",
    metavar="COUNT",
    type=Whole(1, 10_000),
    default=100,
    help="At most so many, the newest.  [default: 100]",
)
@store_options
@json_option
def list_command(
    task: str | None, unseen: bool, limit: int, url: str | None, schema: str | None, as_json: bool
) -> None:
    """List the kinds of failures, the newest first.

    Each stands for all jobs of a task that failed for good in the same way, in one window of time.
    In a pipe each is a line: number, task, how many jobs, type of the error, its words, where the
    task's own code was, the first job, the last one, when that failed, when somebody was told,
    when and by whom it was acknowledged, with tabs in between.
    """

    async def look(session: Session) -> Sequence[AlertInfo]:
        acked = False if unseen else None
        return await _face(session).list(task=task, acked=acked, limit=limit)

    alerts = with_session(load_config(url, schema), look)
    if as_json:
        print_json([_record(alert) for alert in alerts])
    elif on_terminal():
        _print_for_people(alerts, filtered=unseen or task is not None)
    else:
        print_lines([_line(alert) for alert in alerts])


def _face(session: Session) -> Alerts:
    return Alerts(lambda: session.store, SystemRuntime(), Bus())


def _record(alert: AlertInfo) -> dict[str, Any]:
    return {
        "id": alert.id,
        "task": alert.task,
        "count": alert.times,
        "type": alert.type,
        "message": alert.message,
        "frame": alert.frame,
        "fingerprint": alert.fingerprint,
        "window_start": iso(alert.window_start),
        "first_job": str(alert.first_job),
        "last_job": str(alert.last_job),
        "first_at": iso(alert.first_at),
        "last_at": iso(alert.last_at),
        "delivered_at": iso(alert.delivered_at),
        "acked_at": iso(alert.acked_at),
        "acked_by": alert.acked_by,
        "trail": [
            {"at": iso(step.at), "what": step.what, "who": step.who, "note": step.note}
            for step in alert.trail
        ],
    }


def _line(alert: AlertInfo) -> tuple[object, ...]:
    record = _record(alert)
    for key in ("fingerprint", "window_start", "first_at", "trail"):
        del record[key]
    return tuple(record.values())


def _print_for_people(alerts: Sequence[AlertInfo], *, filtered: bool) -> None:
    if not alerts:
        why = "no job has failed for good, or nobody asked to be told"
        click.echo("There is no such alert." if filtered else f"There is no alert: {why}.")
        print_next("detent jobs list --state failed")
        return
    at = now()
    rows = [
        (
            str(alert.id),
            one_line(alert.task),
            f"{alert.times:,}",
            ago(alert.last_at, at),
            one_line(f"{alert.type}: {alert.message}"),
            str(alert.first_job),
            "" if alert.delivered_at is None else ago(alert.delivered_at, at),
            text("nobody", "bold red")
            if alert.acked_by is None
            else text(one_line(alert.acked_by)),
        )
        for alert in alerts
    ]
    print_table(COLUMNS, rows)
    unseen = [alert.id for alert in alerts if alert.acked_at is None]
    ack = (f"detent alerts ack {unseen[0]}",) if unseen else ()
    print_next(f"detent jobs show {alerts[0].first_job}", *ack)


@click.command("show", epilog=example("detent alerts show 12"))
@click.argument("alert", type=Whole(1))
@store_options
@json_option
def show_command(alert: int, url: str | None, schema: str | None, as_json: bool) -> None:
    """Show one alert, whom it was told to and who saw it.

    ALERT is a number from `detent alerts list`.
    """
    found = with_session(load_config(url, schema), lambda session: _face(session).get(alert))
    if as_json:
        print_json(_record(found))
        return
    print_pairs(_pairs(found))
    ack = (f"detent alerts ack {found.id}",) if found.acked_at is None else ()
    print_next(f"detent jobs show {found.first_job}", *ack)


def _pairs(alert: AlertInfo) -> list[tuple[str, Any]]:
    at = now()
    trail = [
        f"{local(step.at)} {WORDS.get(step.what, step.what)} {step.who}"
        + ("" if step.note is None else f", {step.note}")
        for step in alert.trail
    ]
    return [
        ("alert", str(alert.id)),
        ("task", one_line(alert.task)),
        ("error", one_line(f"{alert.type}: {alert.message}")),
        *((("in", one_line(alert.frame)),) if alert.frame else ()),
        ("jobs", f"{alert.times:,}"),
        ("first", f"{alert.first_job}  {local(alert.first_at)} ({ago(alert.first_at, at)})"),
        ("last", f"{alert.last_job}  {local(alert.last_at)} ({ago(alert.last_at, at)})"),
        ("trail", "\n".join(map(one_line, trail)) or "nobody was told yet"),
    ]


@click.command("ack", epilog=example("detent alerts ack 12", "detent alerts ack 12 --by ada"))
@click.argument("alert", type=Whole(1))
@click.option("--by", metavar="NAME", help="Who has seen it.  [default: your login name]")
@store_options
@json_option
def ack_command(
    alert: int, by: str | None, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Note that somebody has seen an alert.

    ALERT is a number from `detent alerts list`. The first who says so stands.
    """
    who = _login_name() if by is None else by
    seen = with_session(load_config(url, schema), lambda session: _face(session).ack(alert, who))
    if as_json:
        print_json(_record(seen))
        return
    click.echo(one_line(f"Alert {seen.id} was seen by {seen.acked_by}."))
    print_next("detent alerts list --open")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        raise NotUnderstood("--by: this account has no name; say who has seen it") from None
