"""`detent completion`: what a shell needs to complete commands, options, tasks and queues."""

import contextlib
import io
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from detent.cli.command import Failed, example
from detent.errors import DetentError

if TYPE_CHECKING:
    from detent.cli.session import Session

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_DETENT_COMPLETE"
PATIENCE: Final = timedelta(seconds=1)
"""How long a shell waits for the names of queues; somebody is holding a key down."""


@click.command(
    "completion",
    epilog=example(
        "detent completion bash > ~/.local/share/bash-completion/completions/detent",
        "detent completion zsh > ~/.zfunc/_detent   # with ~/.zfunc in fpath, before compinit",
        "detent completion fish > ~/.config/fish/completions/detent.fish",
        'eval "$(detent completion bash)"           # only for this shell',
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print what a shell needs to complete.

    Write it to where your shell looks for it, and start a new shell: see the examples. Commands,
    options, states, the tasks of an app and the names of queues are completed.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  only here

    kind = get_completion_class(shell)
    if kind is None:
        raise Failed(f"this version of click knows nothing about {shell}")
    program = click.get_current_context().find_root().command
    click.echo(kind(program, {}, "detent", VARIABLE).source())


def complete_task(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the tasks of the app that stands before."""
    from detent.cli.locate import find_app  # noqa: PLC0415  the app, and all it imports

    place = context.params.get("place")
    if not place:
        return []
    silence = io.StringIO()
    try:
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            app = find_app(place)
    except Exception:  # noqa: BLE001  the user's module may raise anything, in the middle of a line
        return []
    return [task.name for task in app.tasks if task.name.startswith(incomplete)]


def complete_queue(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the queues of the store, if it answers at once."""

    async def names(session: "Session") -> list[str]:
        return [queue.name for queue in await session.queues.list()]

    return _offered(context, incomplete, names)


def complete_schedule(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the schedules of the store, if it answers at once."""

    async def names(session: "Session") -> list[str]:
        return [info.schedule.name for info in await session.schedules.list(limit=1_000)]

    return _offered(context, incomplete, names)


def complete_breaker(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the circuit breakers of the store, if it answers at once."""

    async def names(session: "Session") -> list[str]:
        return [breaker.name for breaker in await session.breakers.list()]

    return _offered(context, incomplete, names)


def complete_limit(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the limits of the store, if it answers at once."""

    async def names(session: "Session") -> list[str]:
        return [each.limit.name for each in await session.limits.list()]

    return _offered(context, incomplete, names)


def _offered(
    context: click.Context,
    incomplete: str,
    names: "Callable[[Session], Awaitable[list[str]]]",
) -> list[str]:
    """Return the names that begin so, if the store answers at once."""
    from detent.cli.running import load_config  # noqa: PLC0415  the store, and its driver
    from detent.cli.session import with_session  # noqa: PLC0415

    try:
        config = load_config(context.params.get("url"), context.params.get("schema"))
        hasty = replace(config, store=replace(config.store, timeout=PATIENCE))
        found = with_session(hasty, names)
    except (DetentError, click.ClickException, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]
