"""Reads a line as the command would: without this, examples could name options that are gone."""

import click

from detent.cli import main
from detent.cli.groups import CommandGroup


def understand(words: list[str]) -> None:
    """Parse a line as the real command does, and stop before it runs."""
    command: click.Command = main
    context = click.Context(main, info_name="detent")
    while isinstance(command, CommandGroup):
        name = words[0] if words and not words[0].startswith("-") else command.default
        assert name is not None, words
        words = words[1:] if words and words[0] == name else words
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    with command.make_context(command.name, words, parent=context):
        pass
