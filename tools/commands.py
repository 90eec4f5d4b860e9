"""Without this program docs/reference/cli.md would describe a command that was."""

import click

from detent.cli import main
from detent.cli.groups import CommandGroup

INTRODUCTION = """\
`--url` and `--schema`, or `DETENT_URL`, say which store is meant; without them it is the one of
`detent.toml` in the current directory ([all settings](configuration.md)).

- At a terminal there are tables, colours (unless `NO_COLOR` is set) and progress bars, and the last
  lines say what to do next. In a pipe there are plain lines: one for each row, with tabs between
  the columns, times in UTC.
- `--json` prints one JSON document. Listings of jobs are `{"items": [...], "next": ...}`, where
  `next` is what `--before` takes for the next page.
- The exit code is 0 when it is done, 1 when it failed, 2 when what was asked makes no sense. An
  error is one line on standard error that begins with `detent: error:`.
"""


def commands_page(note: str) -> str:
    """Return the page: the help of every command, as it is printed."""
    parts = [f"# The command\n\n{note}\n\n{INTRODUCTION}"]
    parts += [f"## {path}\n\n```text\n{text}```\n" for path, text in helps()]
    return "\n".join(parts)


def helps() -> list[tuple[str, str]]:
    """Return the help of every command, the whole one first."""
    context = click.Context(main, info_name="detent", terminal_width=90, max_content_width=90)
    return _helps(main, context)


def _helps(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    context.help_option_names = ["-h", "--help"]
    found = [(context.command_path, command.get_help(context) + "\n")]
    if isinstance(command, CommandGroup):
        for name in command.list_commands(context):
            part = command.get_command(context, name)
            assert part is not None
            inner = click.Context(part, parent=context, info_name=name)
            found += _helps(part, inner)
    return found
