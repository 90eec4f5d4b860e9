"""`detent limits`: what may run at once and how often, and how to change it while jobs run."""

from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

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
from detent.cli.completion import complete_limit, complete_queue
from detent.cli.groups import CommandGroup, Part, meant
from detent.cli.output import (
    Column,
    one_line,
    print_json,
    print_next,
    print_table,
    show_all,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, check_queue, with_session
from detent.config import parse_duration
from detent.fair_queues import share_limit
from detent.limits import full_name, make_limit
from detent.model.gates import unescaped
from detent.model.limits import MAX_CONCURRENCY, MAX_WEIGHT, Limit
from detent.model.rates import Rate
from detent.spi.limits import LimitInfo

PARTS: Final = {
    "list": Part(
        "detent.cli.limits:list_command",
        "List the limits, and how much of each is taken by running jobs.",
    ),
    "set": Part(
        "detent.cli.limits:set_command",
        "Change a limit; it holds from the next claim on, whatever code says.",
    ),
    "share": Part(
        "detent.cli.limits:share_command",
        "Give a key of a queue that shares fairly WEIGHT turns for each of another.",
    ),
    "reset": Part(
        "detent.cli.limits:reset_command",
        "Let a limit be what code says again; one that is in no code is no more.",
    ),
}
COLUMNS: Final = (
    Column("limit", shrinks=True),
    Column("running", right=True),
    Column("at once", right=True),
    Column("rate", right=True),
    Column("weight", right=True),
    Column(""),
)


@click.group(
    "limits",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example("detent limits", "detent limits set smtp --concurrency 5"),
)
def limits_command() -> None:
    """Look at limits; change them while jobs run.

    Without a command, they are listed. A resource is called by its name; others are
    `task:NAME`, `task:NAME#` (for each key), `rate:NAME`, `rate:NAME#` and `queue:NAME`;
    `fair:QUEUE#KEY` is the share of a key in a queue that shares fairly.
    """


def read_concurrency(value: str) -> int:
    """Return how many may run at once."""
    if not value.isdecimal() or not 1 <= int(value) <= MAX_CONCURRENCY:
        raise ValueError(f"must be 1 to {MAX_CONCURRENCY:,}")
    return int(value)


def read_rate(value: str) -> Rate:
    """Return the rate that `100/s` or `10/1m` says."""
    count, _, per = value.partition("/")
    length = per if per[:1].isdigit() else f"1{per or 's'}"
    try:
        return Rate(int(count), parse_duration(length))
    except ValueError:
        raise ValueError("must be like 100/s, 10/1m or 5/2h30m") from None


def limit_options(command: Any) -> Any:
    """Give a command the options that say what a limit is."""
    for option in (
        click.option("--burst", type=Whole(1), help="How many may come at once after a pause."),
        click.option(
            "--rate", callback=reading(read_rate), help="How often one may start, such as 100/s."
        ),
        click.option(
            "--concurrency",
            callback=reading(read_concurrency),
            help="How many may run at once, in the whole cluster.",
        ),
    ):
        command = option(command)
    return command


def limit_from(
    name: str,
    concurrency: int | None,
    rate: Rate | None,
    burst: int | None,
    known: Limit | None = None,
) -> Limit:
    """Return the limit that options say; what they do not say stays as it is known."""
    if burst is not None and rate is None:
        raise NotUnderstood("--burst needs a --rate")
    if concurrency is None and rate is None:
        raise NotUnderstood("say --concurrency, --rate or both")
    before = None if known is None else known.rate
    if known is not None and concurrency is None:
        concurrency = known.concurrency
    return make_limit(name, concurrency, before if rate is None else _like(rate, burst, before))


def _like(rate: Rate, burst: int | None, before: Rate | None) -> Rate:
    """Return a rate that is kept in the same way as the one before it."""
    if before is not None and burst is None and not before.has_default_burst:
        burst = before.burst
    algorithm = rate.algorithm if before is None else before.algorithm
    try:
        return Rate(rate.count, rate.per, burst, algorithm)
    except ValueError as error:
        raise NotUnderstood(str(error)) from None


def words(limit: Limit) -> str:
    """Return what a limit says, in words."""
    parts = [] if limit.concurrency is None else [f"{limit.concurrency:,} at once"]
    parts += ["in order"] if limit.ordered else []
    parts += [] if limit.weight is None else [f"weight {limit.weight:,}"]
    return ", ".join([*parts, *([] if limit.rate is None else [_rate(limit.rate)])])


def _rate(rate: Rate) -> str:
    seconds = rate.per.total_seconds()
    per = "s" if seconds == 1 else f"{seconds:g}s"
    burst = "" if rate.has_default_burst else f", burst {rate.burst:,}"
    return f"{rate.count:,}/{per}{burst}"


@click.command("list", epilog=example("detent limits", "detent limits list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the limits, and how much of each is taken by running jobs.

    In a pipe each limit is a line: name, how much is taken, how many may run at once, how many may
    start in which time (in seconds) with which burst and by which algorithm, whether it was changed
    by hand, the weight of a fair share, and whether its jobs keep their order, with tabs in
    between.
    """

    async def look(session: Session) -> list[LimitInfo]:
        return await session.limits.list()

    limits = with_session(load_config(url, schema), look)
    show_all(limits, _record, _print_for_people, as_json=as_json)


def _record(info: LimitInfo) -> dict[str, Any]:
    rate = info.limit.rate
    return {
        "name": info.limit.name,
        "running": info.running,
        "concurrency": info.limit.concurrency,
        "rate": None if rate is None else rate.count,
        "per": None if rate is None else rate.per.total_seconds(),
        "burst": None if rate is None else rate.burst,
        "algorithm": None if rate is None else str(rate.algorithm),
        "edited": info.edited,
        "weight": info.limit.weight,
        "ordered": info.limit.ordered,
    }


def _print_for_people(limits: Sequence[LimitInfo]) -> None:
    if not limits:
        click.echo("No limit is known: no node and no client has declared one.")
        return
    rows = [
        (
            one_line(each.limit.name),
            f"{each.running:,}",
            "" if each.limit.concurrency is None else f"{each.limit.concurrency:,}",
            "" if each.limit.rate is None else _rate(each.limit.rate),
            "" if each.limit.weight is None else f"{each.limit.weight:,}",
            _remarks(each),
        )
        for each in limits
    ]
    print_table(COLUMNS, rows)
    edited = [each.limit.name for each in limits if each.edited]
    print_next(f"detent limits reset {edited[0]}" if edited else _change_of(limits[0].limit))


def _remarks(info: LimitInfo) -> Any:
    remarks = [*(["in order"] if info.limit.ordered else []), *(["by hand"] if info.edited else [])]
    return text(", ".join(remarks), "yellow" if info.edited else "dim")


def _change_of(limit: Limit) -> str:
    """Return the command that would change a limit."""
    if limit.weight is not None:
        queue, _, key = limit.name.partition(":")[2].partition("#")
        return f"detent limits share {queue} {quote(unescaped(key))} {limit.weight + 1}"
    if limit.concurrency is None:
        return f"detent limits set {limit.name} --rate 10/s"
    return f"detent limits set {limit.name} --concurrency 5"


@click.command(
    "set",
    epilog=example(
        "detent limits set smtp --concurrency 5", "detent limits set rate:send --rate 10/s"
    ),
)
@click.argument("name", shell_complete=complete_limit)
@limit_options
@store_options
@json_option
def set_command(
    *,
    name: str,
    concurrency: int | None,
    rate: Rate | None,
    burst: int | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
) -> None:
    """Change a limit; it holds from the next claim on, whatever code says.

    What runs goes on, and what is not said stays as it is. Nodes hear of it at once.
    """
    wanted = limit_from(name, concurrency, rate, burst)

    async def change(session: Session) -> Limit:
        known = {each.limit.name: each.limit for each in await session.limits.list()}
        kind, _, whose = wanted.name.partition(":")
        if kind == "queue":
            await check_queue(session, whose)
        elif wanted.name not in known:
            hint = meant(wanted.name, list(known), "known are") if known else "there is none yet"
            raise Failed(f"no limit is named {wanted.name!r}; {hint}")
        limit = limit_from(name, concurrency, rate, burst, known.get(wanted.name))
        await session.limits.set(limit.name, concurrency=limit.concurrency, rate=limit.rate)
        now = await session.limits.get(limit.name)
        return limit if now is None else now.limit

    print_limit(with_session(load_config(url, schema), change), as_json)


def print_limit(limit: Limit, as_json: bool) -> None:
    """Say what a limit is now."""
    if as_json:
        print_json(_record(LimitInfo(limit, None, True, 0)))
        return
    click.echo(f"{limit.name}: {words(limit)}.")
    print_next(f"detent limits reset {limit.name}")


def read_weight(value: str) -> int | None:
    """Return how many turns a key has; None for as many as code says."""
    if value == "auto":
        return None
    if not value.isdecimal() or not 1 <= int(value) <= MAX_WEIGHT:
        raise ValueError(f"must be 1 to {MAX_WEIGHT:,}, or auto")
    return int(value)


@click.command(
    "share",
    epilog=example("detent limits share mail gold 3", "detent limits share mail gold auto"),
)
@click.argument("queue", shell_complete=complete_queue)
@click.argument("key")
@click.argument("weight", callback=reading(read_weight))
@store_options
@json_option
def share_command(
    queue: str, key: str, weight: int | None, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Give a key of a queue that shares fairly WEIGHT turns for each of another.

    It holds from the next turn on. `auto` leaves it to code again, or to one turn.
    """
    limit = share_limit(queue, key, weight or 1)

    async def change(session: Session) -> None:
        if weight is not None:
            await check_queue(session, queue)
        await session.limits.share(queue, key, weight)

    with_session(load_config(url, schema), change)
    if weight is not None:
        print_limit(limit, as_json)
    elif as_json:
        print_json({"name": limit.name, "weight": None})
    else:
        click.echo(f"{limit.name}: as many turns as code says.")
        print_next("detent limits")


@click.command("reset", epilog=example("detent limits reset smtp"))
@click.argument("name", shell_complete=complete_limit)
@store_options
@json_option
def reset_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Let a limit be what code says again; one that is in no code is no more."""
    wanted = full_name(name)

    async def reset(session: Session) -> Limit | None:
        known = [each.limit.name for each in await session.limits.list()]
        if wanted not in known:
            hint = meant(wanted, known, "known are") if known else "there is none"
            raise Failed(f"no limit is named {wanted!r}; {hint}")
        return await session.limits.reset(wanted)

    code = with_session(load_config(url, schema), reset)
    if as_json:
        print_json({"name": wanted, "limited": code is not None})
        return
    click.echo(f"{wanted}: {'no limit' if code is None else words(code)}.")
    print_next("detent limits")
