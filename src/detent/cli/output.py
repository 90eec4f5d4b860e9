"""How commands speak: tables and colours to people at a terminal, plain lines to programs."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from detent.cli.command import Failed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Thing = TypeVar("Thing")

REPLACEMENT: Final = "\ufffd"
NONE: Final = "-"
"""What stands in a column of plain lines that has nothing to say."""

GAP: Final = 2
NARROWEST: Final = 6

STATE_STYLES: Final = {
    "running": "bold blue",
    "active": "green",
    "succeeded": "green",
    "failed": "bold red",
    "dead": "bold red",
    "waiting": "yellow",
    "paused": "yellow",
    "draining": "yellow",
    "recycled": "yellow",
    "joining": "yellow",
    "canceled": "dim",
}


def on_terminal() -> bool:
    """Whether somebody looks at what is printed."""
    return sys.stdout.isatty()


def can_ask() -> bool:
    """Whether there is somebody to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def console(*, stderr: bool = False) -> "Console":
    """Return a terminal to print on; imported late, since programs never need it."""
    from rich.console import Console  # noqa: PLC0415  30 ms that a pipe does not pay

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)


def text(value: str, style: str = "") -> "Text":
    """Return a text that is printed as it is."""
    from rich.text import Text  # noqa: PLC0415  see `console`

    return Text(value, style)


def state_text(state: str) -> "Text":
    """Return a state in its colour."""
    return text(state, STATE_STYLES.get(state, ""))


def one_line(value: str, limit: int | None = None) -> str:
    """Return a text that cannot break a line or the terminal, cut to a limit.

    It may come from anybody who can enqueue a job.
    """
    words = "".join(char if char.isprintable() else REPLACEMENT for char in " ".join(value.split()))
    return words if limit is None or len(words) <= limit else words[: limit - 1] + "…"


def print_json(document: object) -> None:
    """Print one JSON document."""
    print_whole(json.dumps(document, indent=2, ensure_ascii=False))


def print_lines(rows: Sequence[Sequence[object]]) -> None:
    """Print a table for programs: a line for each row, tabs between the columns."""
    lines = ("\t".join(_cell(value) for value in row) for row in rows)
    if rows:
        print_whole("\n".join(lines))


def print_whole(words: str) -> None:
    """Print what programs read, all of it: a disk that is full is an error of one line."""
    try:
        click.echo(words)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # whoever reads has seen enough
        # What is left in the buffer would be tried again, and be told of, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failed(f"the output could not be written: {error.strerror}") from error


def show_all(
    things: Sequence[Thing],
    record: Callable[[Thing], Mapping[str, Any]],
    for_people: Callable[[Sequence[Thing]], None],
    *,
    as_json: bool,
) -> None:
    """Print a list in the way that suits whoever reads it: as JSON, as a table, as plain lines."""
    if as_json:
        print_json([record(thing) for thing in things])
    elif on_terminal():
        for_people(things)
    else:
        print_lines([tuple(record(thing).values()) for thing in things])


def _cell(value: object) -> str:
    match value:
        case None | "":
            return NONE
        case bool():
            return str(value).lower()
        case _:
            return one_line(str(value))


class Column(NamedTuple):
    """A column of a table for people."""

    name: str
    right: bool = False
    shrinks: bool = False
    """Whether it may lose its end where the terminal is too narrow."""
    drops: int = 0
    """Whether it is left out there altogether, before any other shrinks; 1 is the first to go."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence["str | Text"]]) -> None:
    """Print a table for people."""
    from rich.table import Table  # noqa: PLC0415  see `console`

    terminal = console()
    cells = [[text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    natural = [
        max(len(column.name), *(row[number].cell_len for row in cells))
        for number, column in enumerate(columns)
    ]
    widths = _fitting(columns, natural, terminal.width)
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim", pad_edge=False)
    for number, width in widths.items():
        side: Any = "right" if columns[number].right else "left"
        table.add_column(columns[number].name, justify=side, no_wrap=True, width=width)
    for row in cells:
        table.add_row(*(row[number] for number in widths))
    terminal.print(table)


def _fitting(columns: Sequence[Column], natural: Sequence[int], limit: int) -> dict[int, int]:
    """Return the numbers of the columns that a terminal has room for, and how wide each is."""
    widths = dict(enumerate(natural))

    def too_wide() -> bool:
        return sum(widths.values()) + GAP * (len(widths) - 1) > limit

    for number in sorted(widths, key=lambda number: columns[number].drops):
        if columns[number].drops and too_wide():
            del widths[number]
    shrinking = [number for number in widths if columns[number].shrinks]
    while shrinking and too_wide():
        widest = max(shrinking, key=widths.__getitem__)
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def print_pairs(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, aligned, for people and programs alike."""
    width = max((len(name) for name, _ in pairs), default=0)
    if not on_terminal():
        indent = "\n" + " " * (width + GAP)
        lines = (f"{name:<{width}}  {value}".replace("\n", indent) for name, value in pairs)
        click.echo("\n".join(lines))
        return
    from rich.table import Table  # noqa: PLC0415  see `console`

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, text(value) if isinstance(value, str) else value)
    console().print(table)


def say(line: str) -> None:
    """Print a sentence to people; programs have no use for it."""
    if on_terminal():
        click.echo(line)


def warn(line: str) -> None:
    """Say what is not as it should be, to people and to logs alike; the command goes on."""
    # Not err=True, which would write into the line of a status that is shown.
    click.echo(f"detent: {line}", file=sys.stderr)


def print_next(*commands: str) -> None:
    """Tell people what they can do now."""
    if on_terminal() and commands:
        click.echo()
        for number, command in enumerate(commands):
            label = "next" if number == 0 else ""
            click.echo(click.style(f"{label:<6}{command}", dim=True))


@contextmanager
def status(line: str) -> Iterator[None]:
    """Say what is going on, to people only."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(text(line)):
        yield


@contextmanager
def progress(line: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how far something is, to people only; yields what is called with each step."""
    if not sys.stderr.isatty():
        yield lambda _steps: None
        return
    from rich.progress import (  # noqa: PLC0415  see `console`
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(line, total=total)
        yield lambda steps: bar.advance(task, steps)


def confirm(question: str) -> bool:
    """Ask, and return whether the answer was yes; no answer is no."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
