"""`detent daemons`: what runs once in the cluster, where, and how it is doing."""

from collections.abc import Sequence
from typing import Any, Final

import click

from detent.cli.command import example, json_option, store_options
from detent.cli.groups import Part, listing
from detent.cli.moments import ago, iso, now
from detent.cli.output import (
    Column,
    one_line,
    print_next,
    print_table,
    show_all,
    state_text,
)
from detent.cli.running import load_config
from detent.cli.session import with_session
from detent.spi.daemons import DaemonInfo

PARTS: Final = {
    "list": Part("detent.cli.daemons:list_command", "List the daemons that any node has run."),
}
COLUMNS: Final = (
    Column("daemon", shrinks=True),
    Column("state"),
    Column("node", shrinks=True),
    Column("term", right=True, drops=1),
    Column("since", right=True),
    Column("restarts", right=True),
    Column("last error", shrinks=True),
)


@listing("daemons", PARTS, "detent daemons", "detent daemons --json")
def daemons_command() -> None:
    """Look at the daemons: where each runs, and how it is doing.

    Without a command, they are listed.
    """


@click.command("list", epilog=example("detent daemons", "detent daemons list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the daemons that any node has run.

    In a pipe each daemon is a line: name, state, the name and the incarnation of its node, term,
    since when it is in that state, how often it was started again under this term, its last error
    and when that was, with tabs in between.
    """
    daemons = with_session(load_config(url, schema), lambda session: session.store.daemons())
    show_all(daemons, _record, _print_for_people, as_json=as_json)


def _record(daemon: DaemonInfo) -> dict[str, Any]:
    return {
        "name": daemon.name,
        "state": daemon.state,
        "node": daemon.node_name,
        "incarnation": None if daemon.node is None else str(daemon.node),
        "term": daemon.term,
        "since": iso(daemon.since),
        "restarts": daemon.restarts,
        "last_error": daemon.last_error,
        "failed_at": iso(daemon.failed_at),
    }


def _print_for_people(daemons: Sequence[DaemonInfo]) -> None:
    if not daemons:
        click.echo("No node has run a daemon yet.")
        print_next("detent nodes")
        return
    at = now()
    rows = [
        (
            one_line(daemon.name),
            state_text(daemon.state),
            one_line(daemon.node_name or ""),
            "" if daemon.term is None else f"{daemon.term:,}",
            "" if daemon.since is None else ago(daemon.since, at),
            f"{daemon.restarts:,}",
            one_line(daemon.last_error or ""),
        )
        for daemon in daemons
    ]
    print_table(COLUMNS, rows)
    print_next("detent leaders", "detent nodes")
