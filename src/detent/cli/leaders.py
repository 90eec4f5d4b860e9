"""`detent leaders`: which node does what only one may do."""

from collections.abc import Sequence
from typing import Any, Final

import click

from detent.cli.command import example, json_option, store_options
from detent.cli.groups import Part, listing
from detent.cli.moments import age, ago, iso, now
from detent.cli.output import (
    Column,
    one_line,
    print_next,
    print_table,
    show_all,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import with_session
from detent.spi.leadership import Leader

PARTS: Final = {
    "list": Part("detent.cli.leaders:list_command", "List who leads which role, by role."),
}
COLUMNS: Final = (
    Column("role", shrinks=True),
    Column("term", right=True),
    Column("leader", shrinks=True),
    Column("incarnation", drops=1),
    Column("since", right=True),
    Column("lease", right=True),
)


@listing("leaders", PARTS, "detent leaders", "detent leaders --json")
def leaders_command() -> None:
    """Look at who leads: chores, schedules and daemons.

    Without a command, they are listed.
    """


@click.command("list", epilog=example("detent leaders", "detent leaders list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List who leads which role, by role.

    In a pipe each role is a line: role, term, the name and the incarnation of its leader, since
    when, and until when unless it is confirmed, with tabs in between. What has no lease is held by
    a connection, for as long as that lives.
    """
    leaders = with_session(load_config(url, schema), lambda session: session.store.leaders())
    show_all(leaders, _record, _print_for_people, as_json=as_json)


def _record(leader: Leader) -> dict[str, Any]:
    return {
        "role": leader.role,
        "term": leader.term,
        "name": leader.name,
        "holder": None if leader.holder is None else str(leader.holder),
        "since": iso(leader.since),
        "lease_until": iso(leader.lease_until),
    }


def _print_for_people(leaders: Sequence[Leader]) -> None:
    if not leaders:
        click.echo("Nobody leads anything: no node is running.")
        print_next("detent node APP")
        return
    print_table(COLUMNS, [_row(leader) for leader in leaders])
    print_next("detent nodes", "detent daemons")


def _row(leader: Leader) -> tuple[Any, ...]:
    at = now()
    lease: Any = ""
    if leader.lease_until is not None:
        over = leader.lease_until <= at
        lease = (
            text(f"ended {ago(leader.lease_until, at)}", "bold red")
            if over
            else f"{age(leader.lease_until - at)} left"
        )
    return (
        one_line(leader.role),
        f"{leader.term:,}",
        text("nobody", "yellow") if leader.holder is None else one_line(leader.name or ""),
        "" if leader.holder is None else str(leader.holder),
        "" if leader.since is None else ago(leader.since, at),
        lease,
    )
