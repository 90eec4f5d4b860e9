"""`detent queues`: what waits where, and the switch of each queue."""

from collections.abc import Sequence
from typing import Any, Final

import click

from detent.cli.command import NotUnderstood, example, json_option, reading, store_options
from detent.cli.completion import complete_queue
from detent.cli.groups import Part, listing
from detent.cli.limits import limit_from, limit_options, print_limit
from detent.cli.moments import age, iso, now
from detent.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_table,
    show_all,
    state_text,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, check_queue, with_session
from detent.config import check_name
from detent.config.readers import MAX_SLOTS
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.spi.store import QueueInfo

PARTS: Final = {
    "list": Part(
        "detent.cli.queues:list_command", "List the queues that hold live jobs or were paused."
    ),
    "pause": Part(
        "detent.cli.queues:pause_command",
        "Let no more jobs of a queue start, on any node; those that run go on.",
    ),
    "resume": Part("detent.cli.queues:resume_command", "Let the jobs of a queue start again."),
    "limit": Part(
        "detent.cli.queues:limit_command",
        "Let so many jobs of a queue run at once, or start in a time, in the whole cluster.",
    ),
    "scale": Part(
        "detent.cli.queues:scale_command",
        "Let every node that serves a queue run SLOTS of its jobs at once.",
    ),
}
COLUMNS: Final = (
    Column("queue", shrinks=True),
    Column(""),
    Column("pending", right=True),
    Column("due", right=True),
    Column("running", right=True),
    Column("started", right=True),
    Column("slots", right=True),
    Column("paused", right=True),
    Column("unknown", right=True),
    Column("oldest due", right=True),
)


@listing("queues", PARTS, "detent queues", "detent queues pause mail", "detent queues resume mail")
def queues_command() -> None:
    """Look at queues; pause, resume and scale them.

    Without a command, the queues are listed.
    """


def _read_slots(value: str) -> int | None:
    if value == "auto":
        return None
    if not value.isdecimal() or not 1 <= int(value) <= MAX_SLOTS:
        raise ValueError(f"must be 1 to {MAX_SLOTS:,}, or auto")
    return int(value)


@click.command("list", epilog=example("detent queues", "detent queues list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the queues that hold live jobs or were paused.

    In a pipe each queue is a line: name, whether it is paused, how many of its jobs are pending,
    due and running, since when the oldest is due, how many of them each node runs at once if that
    was set for all nodes, how many have started, how many are paused one by one, how many wait for
    a node that knows their task, and whether a live node serves it, with tabs in between. A job is
    running when a node has claimed it; it has started when the node called its function, as of the
    last heartbeat. A queue with due jobs that no live node serves is marked.
    """

    async def look(session: Session) -> list[QueueInfo]:
        return await session.queues.list()

    queues = with_session(load_config(url, schema), look)
    show_all(queues, _record, _print_for_people, as_json=as_json)


def _record(queue: QueueInfo) -> dict[str, Any]:
    return {
        "name": queue.name,
        "paused": queue.paused,
        "pending": queue.pending,
        "due": queue.due,
        "running": queue.running,
        "oldest_due_at": iso(queue.oldest_due_at),
        "slots": queue.slots,
        "started": queue.started,
        "paused_jobs": queue.paused_jobs,
        "unknown": queue.unknown,
        "served": queue.served,
    }


def _mark(queue: QueueInfo) -> Any:
    """Return what keeps the jobs of a queue from running, if anything does."""
    if queue.paused:
        return state_text("paused")
    return text("not served" if queue.due and not queue.served else "")


def _print_for_people(queues: Sequence[QueueInfo]) -> None:
    if not queues:
        click.echo("No queue holds a live job.")
        print_next("detent jobs list   the newest jobs, ended ones too")
        return
    at = now()
    rows = [
        (
            one_line(queue.name),
            _mark(queue),
            f"{queue.pending:,}",
            f"{queue.due:,}",
            f"{queue.running:,}",
            f"{queue.started:,}",
            "" if queue.slots is None else f"{queue.slots:,}",
            f"{queue.paused_jobs:,}",
            f"{queue.unknown:,}",
            "" if queue.oldest_due_at is None else age(at - queue.oldest_due_at),
        )
        for queue in queues
    ]
    print_table(COLUMNS, rows)
    paused = [queue.name for queue in queues if queue.paused]
    switch = f"resume {paused[0]}" if paused else f"pause {queues[0].name}"
    print_next(f"detent jobs list --queue {queues[0].name}", f"detent queues {switch}")


@click.command("pause", epilog=example("detent queues pause mail"))
@click.argument("name", shell_complete=complete_queue)
@store_options
@json_option
def pause_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Let no more jobs of a queue start, on any node; those that run go on."""

    async def pause(session: Session) -> None:
        await check_queue(session, name)
        await session.queues.pause(name)

    check_name("queue", name)
    with_session(load_config(url, schema), pause)
    _print_switched(name, "paused", as_json)
    if not as_json:
        print_next(f"detent queues resume {name}")


@click.command("resume", epilog=example("detent queues resume mail"))
@click.argument("name", shell_complete=complete_queue)
@store_options
@json_option
def resume_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Let the jobs of a queue start again."""

    async def resume(session: Session) -> None:
        await check_queue(session, name)
        await session.queues.resume(name)

    check_name("queue", name)
    with_session(load_config(url, schema), resume)
    _print_switched(name, "resumed", as_json)
    if not as_json:
        print_next(f"detent jobs list --queue {name}")


@click.command(
    "scale", epilog=example("detent queues scale mail 50", "detent queues scale mail auto")
)
@click.argument("name", shell_complete=complete_queue)
@click.argument("slots", callback=reading(_read_slots))
@store_options
@json_option
def scale_command(
    name: str, slots: int | None, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Let every node that serves a queue run SLOTS of its jobs at once.

    Nodes hear of it within a second. `auto` leaves it to the settings of each node again.
    """

    async def scale(session: Session) -> None:
        await check_queue(session, name)
        await session.queues.scale(name, slots)

    check_name("queue", name)
    with_session(load_config(url, schema), scale)
    if as_json:
        print_json({"queue": name, "slots": slots})
        return
    many = "as many as its own settings say" if slots is None else f"{slots:,}"
    click.echo(f"Each node runs {many} of {name} at once.")
    print_next("detent nodes")


@click.command(
    "limit",
    epilog=example(
        "detent queues limit mail --concurrency 5",
        "detent queues limit mail --rate 100/s --burst 10",
        "detent queues limit mail --off",
    ),
)
@click.argument("name", shell_complete=complete_queue)
@limit_options
@click.option("--off", is_flag=True, help="Let code's word hold again, or no limit at all.")
@store_options
@json_option
def limit_command(
    *,
    name: str,
    concurrency: int | None,
    rate: Rate | None,
    burst: int | None,
    off: bool,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """Let so many jobs of a queue run at once, or start in a time, in the whole cluster.

    It holds for what is claimed from now on: jobs that run already go on and are not counted. What
    is not said of a limit that there is stays as it is.
    """
    check_name("queue", name)
    whole = f"queue:{name}"
    if not off:
        limit_from(whole, concurrency, rate, burst)
    elif concurrency is not None or rate is not None or burst is not None:
        raise NotUnderstood("--off and a limit: say one of them")

    async def change(session: Session) -> Limit | None:
        await check_queue(session, name)
        if off:
            return await session.limits.reset(whole)
        known = await session.limits.get(whole)
        before = None if known is None else known.limit
        limit = limit_from(whole, concurrency, rate, burst, before)
        await session.limits.set(whole, concurrency=limit.concurrency, rate=limit.rate)
        return limit

    limit = with_session(load_config(url, schema), change)
    if limit is not None and not off:
        print_limit(limit, as_json)
    elif as_json:
        print_json({"queue": name, "limited": limit is not None})
    else:
        click.echo(f"The queue {name} has no limit of an operator any more.")
        print_next("detent limits")


def _print_switched(name: str, done: str, as_json: bool) -> None:
    if as_json:
        print_json({"queue": name, "paused": done == "paused"})
    elif on_terminal():
        click.echo(f"The queue {click.style(name, bold=True)} is {done}.")
    else:
        print_lines([(name, done)])
