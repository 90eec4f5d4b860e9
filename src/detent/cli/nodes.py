"""`detent nodes`: who works, on what, and whether it is still alive."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import click

from detent.cli.command import NotUnderstood, example, json_option, store_options
from detent.cli.groups import Part, listing
from detent.cli.moments import age, ago, iso, now
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
    state_text,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.nodes import DEAD
from detent.spi.nodes import NodeInfo

PARTS: Final = {
    "list": Part("detent.cli.nodes:list_command", "List the nodes, the oldest first."),
    "drain": Part("detent.cli.nodes:drain_command", "Let a node end what it has begun, and leave."),
    "forget": Part(
        "detent.cli.nodes:forget_command", "Give the jobs of a lost node to others now."
    ),
}
COLUMNS: Final = (
    Column("node", shrinks=True),
    Column("incarnation", drops=1),
    Column("state"),
    Column("host", shrinks=True, drops=4),
    Column("pid", right=True, drops=3),
    Column("version", drops=2),
    Column("queues", shrinks=True),
    Column("running", right=True),
    Column("heartbeat", right=True),
    Column("lease", right=True),
)

LINE: Final = (
    "name",
    "incarnation",
    "state",
    "host",
    "pid",
    "version",
    "queues",
    "running",
    "heartbeat_at",
    "lease_until",
)
"""What a program that reads lines is told of a node; more is in the JSON document."""


@listing("nodes", PARTS, "detent nodes", "detent nodes --json", "detent nodes drain web-1")
def nodes_command() -> None:
    """Look at the nodes; let them drain, or forget them.

    Without a command, they are listed.
    """


@click.command("list", epilog=example("detent nodes", "detent nodes list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the nodes, the oldest first.

    In a pipe each node is a line: name, incarnation, state, host, pid, version, queues, how many
    jobs it runs, its last heartbeat and the end of its lease, with tabs in between.
    """

    async def look(session: Session) -> list[tuple[NodeInfo, int]]:
        nodes = await session.store.nodes()
        return [(node, len(await session.store.claims_of(node.incarnation))) for node in nodes]

    nodes = with_session(load_config(url, schema), look)
    if as_json:
        print_json([_record(node, running) for node, running in nodes])
    elif on_terminal():
        _print_for_people(nodes)
    else:
        print_lines([_line(node, running) for node, running in nodes])


def _record(node: NodeInfo, running: int) -> dict[str, Any]:
    return {
        "name": node.name,
        "incarnation": str(node.incarnation),
        "state": node.state,
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "roles": list(node.roles),
        "capabilities": list(node.capabilities),
        "queues": dict(node.queues),
        "running": running,
        "load": dict(node.load),
        "info": dict(node.info),
        "started_at": iso(node.started_at),
        "heartbeat_at": iso(node.heartbeat_at),
        "lease_until": iso(node.lease_until),
        "dead_at": iso(node.dead_at),
        "death": node.death,
    }


def _line(node: NodeInfo, running: int) -> tuple[object, ...]:
    record = _record(node, running) | {"queues": _queues(node)}
    return tuple(record[name] for name in LINE)


def _queues(node: NodeInfo) -> str:
    """Return the queues as `--queues` takes them."""
    return ",".join(f"{queue}={slots}" for queue, slots in sorted(node.queues.items()))


def _print_for_people(nodes: Sequence[tuple[NodeInfo, int]]) -> None:
    if not nodes:
        click.echo("No node is running.")
        print_next("detent node APP")
        return
    at = now()
    rows = [
        (
            one_line(node.name),
            str(node.incarnation),
            state_text(node.state),
            one_line(node.host),
            str(node.pid),
            one_line(node.version),
            one_line(_queues(node)),
            f"{running:,}",
            ago(node.heartbeat_at, at),
            _lease(node, at),
        )
        for node, running in nodes
    ]
    print_table(COLUMNS, rows)
    print_next("detent jobs list --state running", "detent queues")


def _lease(node: NodeInfo, at: datetime) -> Any:
    """Return how long the lease lasts; one that has run out is what to look at."""
    if node.death is not None:
        return text(one_line(node.death), "dim")
    if node.lease_until <= at:
        return text(f"ended {ago(node.lease_until, at)}", "bold red")
    return f"{age(node.lease_until - at)} left"


@click.command("drain", epilog=example("detent nodes drain web-1"))
@click.argument("node")
@store_options
@json_option
def drain_command(node: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Let a node end what it has begun, and leave.

    NODE is its name, or its incarnation if several have that name. It takes on nothing more; what
    it cannot end within its drain timeout is given back, uncharged.
    """
    drained = with_session(load_config(url, schema), lambda session: session.nodes.drain(node))
    ended = drained.state == DEAD
    line = f"{drained.name} is dead already" if ended else f"{drained.name} is draining"
    _print_changed(drained, line, as_json)


@click.command("forget", epilog=example("detent nodes forget web-1"))
@click.argument("node")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options
@json_option
def forget_command(
    node: str, yes: bool, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Give the jobs of a lost node to others now.

    Its lease is not waited for. NODE is its name, or its incarnation if several have that name.
    Should it live after all, it stops what it does and joins anew: jobs that it runs begin again
    elsewhere. Of a node whose lease has not run out, the command asks for confirmation.
    """
    config = load_config(url, schema)
    if not yes:
        _ask(with_session(config, lambda session: _living(session, node)))
    dead = with_session(config, lambda session: session.nodes.forget(node))
    _print_changed(dead, f"{dead.name} is dead; its jobs go to others", as_json)


async def _living(session: Session, wanted: str) -> NodeInfo | None:
    """Return the node that is meant, if it is the only one and its lease has not run out."""
    named = [
        node
        for node in await session.nodes.list()
        if wanted in (node.name, str(node.incarnation)) and node.state != DEAD
    ]
    return named[0] if len(named) == 1 and named[0].lease_until > now() else None


def _ask(node: NodeInfo | None) -> None:
    """Ask whether a node that seems to live is to be forgotten."""
    if node is None:
        return
    at = now()
    heard = f"{node.name} was heard of {ago(node.heartbeat_at, at)}"
    if not can_ask():
        raise NotUnderstood(f"{heard} and seems to live; cannot ask, so say --yes")
    if not confirm(one_line(f"{heard} and seems to live. Give its jobs to others?")):
        raise click.Abort


def _print_changed(node: NodeInfo, line: str, as_json: bool) -> None:
    if as_json:
        print_json({"node": str(node.incarnation), "name": node.name, "state": node.state})
        return
    click.echo(one_line(line))
    print_next("detent nodes")
