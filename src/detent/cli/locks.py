"""`detent locks`: who holds which lock, and how to take one from a holder that is gone."""

from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

import click

from detent.cli.command import Failed, NotUnderstood, example, json_option, store_options
from detent.cli.groups import Part, listing, meant
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
    show_all,
    text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.config.readers import check_label
from detent.spi.locks import LockInfo

PARTS: Final = {
    "list": Part("detent.cli.locks:list_command", "List the locks that are held, by name."),
    "release": Part("detent.cli.locks:release_command", "Take a lock from whoever holds it."),
}
COLUMNS: Final = (
    Column("lock", shrinks=True),
    Column("fence", right=True),
    Column("owner", shrinks=True),
    Column("holder", drops=1),
    Column("held", right=True),
    Column("runs out", right=True),
)


@listing("locks", PARTS, "detent locks", "detent locks release import --yes")
def locks_command() -> None:
    """Look at the locks that are held; release one.

    Without a command, they are listed.
    """


@click.command("list", epilog=example("detent locks", "detent locks list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the locks that are held, by name.

    In a pipe each lock is a line: name, fence, owner, the id of the holder, since when it is held
    and until when unless it is renewed, with tabs in between.
    """
    locks = with_session(load_config(url, schema), lambda session: session.store.locks())
    show_all(locks, _record, _print_for_people, as_json=as_json)


def _record(lock: LockInfo) -> dict[str, Any]:
    return {
        "name": lock.name,
        "fence": lock.fence,
        "owner": lock.owner,
        "holder": str(lock.holder),
        "acquired_at": iso(lock.acquired_at),
        "expires_at": iso(lock.expires_at),
    }


def _print_for_people(locks: Sequence[LockInfo]) -> None:
    if not locks:
        click.echo("No lock is held.")
        return
    at = now()
    rows = [
        (
            one_line(lock.name),
            f"{lock.fence:,}",
            one_line(lock.owner),
            str(lock.holder),
            age(at - lock.acquired_at),
            text(f"{ago(lock.expires_at, at)}", "bold red" if lock.expires_at <= at else ""),
        )
        for lock in locks
    ]
    print_table(COLUMNS, rows)
    print_next(f"detent locks release {quote(locks[0].name)}")


@click.command("release", epilog=example("detent locks release import --yes"))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options
@json_option
def release_command(
    name: str, yes: bool, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Take a lock from whoever holds it.

    The holder learns of it only with his next renewal, and believes to hold it until then: make
    sure that he is gone. A lock whose holder died is free by itself when its time is over.
    """
    check_label("lock", name)
    config = load_config(url, schema)
    if not yes:
        _ask(with_session(config, lambda session: _held(session, name)))
    taken = with_session(config, lambda session: session.locks.force_release(name))
    if taken is None:
        raise Failed(f"nobody holds the lock {name!r}")
    if as_json:
        print_json(_record(taken))
    elif on_terminal():
        click.echo(one_line(f"Took the lock {name} from {taken.owner} (fence {taken.fence})."))
        print_next("detent locks")
    else:
        print_lines([(name, "released")])


async def _held(session: Session, name: str) -> LockInfo:
    """Return the lock, or say that nobody holds one of that name."""
    locks = {lock.name: lock for lock in await session.store.locks()}
    if name not in locks:
        hint = meant(name, locks, "held are") if locks else "none is held"
        raise Failed(f"nobody holds a lock named {name!r}; {hint}")
    return locks[name]


def _ask(lock: LockInfo) -> None:
    if not can_ask():
        raise NotUnderstood("nobody is there to ask: say --yes")
    question = f"Take the lock {lock.name} from {lock.owner}, which may still rely on it?"
    if not confirm(one_line(question)):
        raise click.Abort
