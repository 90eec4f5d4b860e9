"""`detent breakers`: which calls are stopped and why, and the switch of each breaker."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Any, Final

import click

from detent.breakers import BreakerInfo
from detent.cli.command import example, json_option, reading, store_options
from detent.cli.completion import complete_breaker
from detent.cli.groups import CommandGroup, Part
from detent.cli.moments import age, ago, iso, local, now
from detent.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_pairs,
    print_table,
    show_all,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.config import parse_duration
from detent.model.circuit import Phase
from detent.model.retry import MAX_DELAY

PARTS: Final = {
    "list": Part("detent.cli.breakers:list_command", "List the circuit breakers, by name."),
    "show": Part("detent.cli.breakers:show_command", "Show one breaker with all that is known."),
    "reset": Part(
        "detent.cli.breakers:reset_command",
        "Close a breaker and forget what it counted; calls run as usual again.",
    ),
    "open": Part(
        "detent.cli.breakers:open_command", "Stop all calls under a breaker; those that run go on."
    ),
}
STYLES: Final = {Phase.OPEN: "bold red", Phase.HALF_OPEN: "yellow", Phase.CLOSED: "green"}
COLUMNS: Final = (
    Column("breaker", shrinks=True),
    Column("state"),
    Column("for", right=True),
    Column("failed", right=True),
    Column("trials"),
    Column("why", shrinks=True),
)


@click.group(
    "breakers",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example("detent breakers", "detent breakers reset stripe"),
)
def breakers_command() -> None:
    """Look at circuit breakers; open and reset them.

    Without a command, they are listed. A breaker is known once a node has run with it.
    """


@click.command("list", epilog=example("detent breakers", "detent breakers list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the circuit breakers, by name.

    In a pipe each breaker is a line: name, state, since when it is so, how many of the calls that
    it remembers failed and how many these are, when trials begin, how often it opened again,
    whether a person opened it, why it opened, and how many trials run and have passed, with tabs
    in between.
    """

    async def look(session: Session) -> list[BreakerInfo]:
        return await session.breakers.list()

    breakers = with_session(load_config(url, schema), look)
    show_all(breakers, _record, _print_for_people, as_json=as_json)


def _record(breaker: BreakerInfo) -> dict[str, Any]:
    return {
        "name": breaker.name,
        "state": str(breaker.phase),
        "since": iso(breaker.since),
        "failed": breaker.failed,
        "calls": breaker.total,
        "half_open_at": iso(breaker.half_open_at),
        "reopened": breaker.reopened,
        "forced": breaker.forced,
        "reason": breaker.reason,
        "trials_running": breaker.trials_running,
        "trials_passed": breaker.trials_passed,
    }


def _print_for_people(breakers: Sequence[BreakerInfo]) -> None:
    if not breakers:
        click.echo("No breaker is known: no node has run a task with one.")
        return
    at = now()
    rows = [
        (
            one_line(breaker.name),
            text(str(breaker.phase), STYLES[breaker.phase]),
            "" if breaker.since is None else age(at - breaker.since),
            f"{breaker.failed:,} of {breaker.total:,}" if breaker.total else "",
            _trials(breaker, at),
            one_line(_why(breaker)),
        )
        for breaker in breakers
    ]
    print_table(COLUMNS, rows)
    stopped = [breaker for breaker in breakers if breaker.phase is not Phase.CLOSED]
    shown = (stopped or breakers)[0].name
    print_next(
        f"detent breakers show {quote(shown)}",
        *([f"detent breakers reset {quote(shown)}"] if stopped else []),
    )


def _trials(breaker: BreakerInfo, at: datetime) -> str:
    if breaker.phase is Phase.CLOSED:
        return ""
    if breaker.phase is Phase.HALF_OPEN:
        return f"{breaker.trials_running} running, {breaker.trials_passed} passed"
    if breaker.half_open_at is None:
        return "when reset"
    return ago(breaker.half_open_at, at) if breaker.half_open_at > at else "with the next call"


def _why(breaker: BreakerInfo) -> str:
    if breaker.phase is Phase.CLOSED:
        return ""
    again = f" ({breaker.reopened + 1} times in a row)" if breaker.reopened else ""
    by_hand = "by hand" if breaker.forced else ""
    return ": ".join(part for part in (by_hand, breaker.reason or "") if part) + again


@click.command("show", epilog=example("detent breakers show stripe"))
@click.argument("name", shell_complete=complete_breaker)
@store_options
@json_option
def show_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Show one breaker with all that is known."""
    breaker = with_session(load_config(url, schema), lambda session: session.breakers.get(name))
    if as_json:
        print_json(_record(breaker))
        return
    print_pairs(_pairs(breaker))
    switch = "open" if breaker.phase is Phase.CLOSED else "reset"
    print_next(f"detent breakers {switch} {quote(name)}")


def _pairs(breaker: BreakerInfo) -> list[tuple[str, Any]]:
    at, pairs = now(), list[tuple[str, Any]]()
    state = str(breaker.phase)
    pairs.append(("breaker", one_line(breaker.name)))
    pairs.append(("state", text(state, STYLES[breaker.phase]) if on_terminal() else state))
    if breaker.since is not None:
        pairs.append(("since", f"{local(breaker.since)} ({ago(breaker.since, at)})"))
    known = f"{breaker.failed:,} of the last {breaker.total:,} failed"
    pairs.append(("calls", known if breaker.total else "none remembered"))
    if breaker.phase is not Phase.CLOSED:
        pairs.append(("trials", _trials(breaker, at)))
        pairs.append(("why", one_line(_why(breaker)) or "unknown"))
    return pairs


@click.command("reset", epilog=example("detent breakers reset stripe"))
@click.argument("name", shell_complete=complete_breaker)
@store_options
@json_option
def reset_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Close a breaker and forget what it counted; calls run as usual again.

    Jobs that wait because of it still wait for the time that they were given.
    """
    breaker = with_session(load_config(url, schema), lambda session: session.breakers.reset(name))
    _print_changed(breaker, f"{name} is closed; calls run as usual", as_json)


def _read_lasting(value: str) -> timedelta:
    lasting = parse_duration(value)
    if not timedelta(0) < lasting <= MAX_DELAY:
        raise ValueError("must be above 0, at most 24 hours")
    return lasting


@click.command(
    "open",
    epilog=example("detent breakers open stripe", "detent breakers open stripe --for 30m"),
)
@click.argument("name", shell_complete=complete_breaker)
@click.option(
    "--for",
    "lasting",
    metavar="30m",
    callback=reading(_read_lasting),
    help="Let trials begin after that long, instead of only after a reset.",
)
@click.option("--reason", metavar="TEXT", help="What to tell those who wonder.")
@store_options
@json_option
def open_command(
    name: str,
    lasting: timedelta | None,
    reason: str | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """Stop all calls under a breaker; those that run go on.

    Its jobs wait, uncharged, until it is reset or its time is over.
    """
    breaker = with_session(
        load_config(url, schema),
        lambda session: session.breakers.open(name, lasting=lasting, reason=reason),
    )
    _print_changed(breaker, f"{name} is open; trials begin {_trials(breaker, now())}", as_json)


def _print_changed(breaker: BreakerInfo, line: str, as_json: bool) -> None:
    if as_json:
        print_json(_record(breaker))
    elif on_terminal():
        click.echo(one_line(line))
        print_next(f"detent breakers show {quote(breaker.name)}")
    else:
        print_lines([(breaker.name, str(breaker.phase))])
