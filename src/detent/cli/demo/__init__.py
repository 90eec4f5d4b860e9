"""`detent demo`: what Detent does, in half a minute, on a throw-away store."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from detent.cli.command import Failed, Whole, example, json_option
from detent.cli.output import console, on_terminal, print_json, print_next, print_pairs, text

if TYPE_CHECKING:
    from detent.cli.demo.story import Audience

# Every so often a pipe is told how far it is; a terminal sees it all the time.
TELL_EVERY: Final = 1.0


@click.command("demo", epilog=example("detent demo", "detent demo --size 100"))
@click.option("--size", type=Whole(1, 1000), default=30, show_default=True)
@json_option
def demo_command(*, size: int, as_json: bool) -> None:
    """Run a few thousand jobs on three nodes, and kill one of them on the way.

    The store is a file in a temporary folder, which is removed at the end. SIZE times about a
    hundred jobs are enqueued.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="detent-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'demo.db'}"
        # Before the tasks are imported: their app says nothing of where its jobs live.
        os.environ["DETENT_URL"] = url
        ledger = _play(url, Path(folder), size, quiet=as_json)
    from detent.cli.demo.report import as_json as plain  # noqa: PLC0415  with the rest of it

    if as_json:
        print_json(plain(ledger))
    else:
        click.echo()
        print_pairs(ledger.lines())
        click.echo(f"\n{time.monotonic() - began:.1f} s in all")
        print_next("detent init", "detent node tasks:app", "detent --help")
    if ledger.lost:
        raise Failed(f"{ledger.lost} jobs were lost")


def _play(url: str, folder: Path, size: int, *, quiet: bool) -> Any:
    # Late, since the app of the tasks reads its settings when it is imported.
    from detent.cli.demo import story, tasks  # noqa: PLC0415  see above
    from detent.cli.running import run  # noqa: PLC0415  not for --help

    async def whole(audience: "Audience") -> Any:
        async with tasks.app:
            return await story.play(tasks.app, url, folder, audience, size)

    with _audience(quiet) as audience:
        return run(whole(audience), tasks.app.config, for_long=True)


@contextlib.contextmanager
def _audience(quiet: bool) -> "Iterator[Audience]":
    if quiet or not on_terminal():
        yield _Pipe(quiet)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress  # noqa: PLC0415  see output

    with Progress(BarColumn(), MofNCompleteColumn(), console=console(), transient=True) as bar:
        yield _Terminal(bar)


class _Pipe:
    """Hears plain lines."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._next = 0.0

    def tell(self, line: str) -> None:
        if not self._quiet:
            click.echo(line)

    def advance(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + TELL_EVERY
            self.tell(f"{done:,} of {total:,} jobs have ended")


class _Terminal:
    """Sees a bar, and above it what has happened."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task = bar.add_task("jobs", total=None)

    def tell(self, line: str) -> None:
        style = "bold red" if line.startswith("kill") else ""
        self._bar.console.print(text(line, style))

    def advance(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
