"""`detent completion`: what a shell needs to complete commands, options, tasks and queues."""

import contextlib
import io
from dataclasses import replace
from datetime import timedelta
from typing import Final

import click

from detent.cli.command import Failed, example
from detent.errors import DetentError

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
    from detent.cli.running import load_config  # noqa: PLC0415  the store, and its driver
    from detent.cli.session import Session, with_session  # noqa: PLC0415

    async def names(session: Session) -> list[str]:
        return [queue.name for queue in await session.queues.list()]

    try:
        config = load_config(context.params.get("url"), context.params.get("schema"))
        hasty = replace(config, store=replace(config.store, timeout=PATIENCE))
        found = with_session(hasty, names)
    except (DetentError, click.ClickException, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]
