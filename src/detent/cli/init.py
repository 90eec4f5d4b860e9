"""`detent init`: the first two files of somebody who begins."""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from detent.cli.command import Failed, example, json_option
from detent.cli.output import on_terminal, print_json, print_lines, print_next

FILES: Final = ("detent.toml", "tasks.py")


@click.command("init", epilog=example("detent init", "detent init shop"))
@click.argument(
    "folder",
    metavar="[DIR]",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
)
@json_option
def init_command(folder: Path, as_json: bool) -> None:
    """Write a first detent.toml and tasks.py.

    Into DIR, or here. What is there already is never touched: then nothing is written at all.
    """
    targets = [folder / name for name in FILES]
    there = [str(target) for target in targets if target.exists() or target.is_symlink()]
    if there:
        raise Failed(f"{' and '.join(there)} already there; nothing was written")
    written = _write(folder)
    if as_json:
        print_json({"written": written})
    elif not on_terminal():
        print_lines([("written", path) for path in written])
    else:
        for path in written:
            click.echo(f"written  {click.style(path, bold=True)}")
        print_next(*next_commands(folder))


def _write(folder: Path) -> list[str]:
    """Write the files; return their paths."""
    written: list[str] = []
    templates = files("detent.cli") / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            # "x" fails rather than overwrite what somebody has just put there.
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write((templates / name).read_text(encoding="utf-8"))
            written.append(str(folder / name))
    except OSError as error:
        raise Failed(f"{error.filename}: cannot be written: {error.strerror}") from error
    return written


def next_commands(folder: Path) -> list[str]:
    """Return the commands that bring the first job from its enqueue to its result."""
    python = "python" if shutil.which("python") else "python3"
    steps = [] if folder == Path() else [f"cd {folder}"]
    return [*steps, f"{python} tasks.py", "detent node tasks:app", "detent jobs list"]
