"""If these fail, the words that people learn the command from have changed.

When that was meant, write them anew with DETENT_UPDATE_SNAPSHOTS=1.
"""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from detent import __version__
from detent.cli import main
from detent.cli.groups import CommandGroup
from tests.cli.parsing import understand
from tests.cli.snapshots import FOLDER, check

#: Commands that need no store, or make one of their own.
NO_STORE = {"init", "demo", "completion"}
#: Commands that print no data of their own.
NO_DATA = {"node", "completion"}


def walk(group: CommandGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the names of all commands, and of commands in commands."""
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, CommandGroup):
            yield from walk(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(walk(main))

each_command = pytest.mark.parametrize("path", COMMANDS, ids=lambda path: "-".join(path) or "all")


def command_of(path: tuple[str, ...]) -> click.Command:
    found: click.Command | None = main
    for name in path:
        assert isinstance(found, CommandGroup)
        found = found.get_command(click.Context(found), name)
    assert found is not None
    return found


def help_of(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(main, [*path, "-h"], prog_name="detent", terminal_width=80)
    assert result.exit_code == 0
    return result.output


def examples_of(path: tuple[str, ...]) -> list[str]:
    _, _, examples = help_of(path).partition("\n  Example")
    return [line.strip() for line in examples.splitlines()[1:] if line.strip()]


def file_of(path: tuple[str, ...]) -> str:
    return "help/" + "-".join(("detent", *path))


@each_command
def test_the_help_is_as_agreed(path: tuple[str, ...]) -> None:
    check(file_of(path), help_of(path))


def test_no_help_is_left_of_a_command_that_is_gone() -> None:
    files = {file.relative_to(FOLDER).as_posix() for file in (FOLDER / "help").iterdir()}
    assert files == {f"{file_of(path)}.txt" for path in COMMANDS}


@each_command
def test_every_command_has_examples_that_it_understands(path: tuple[str, ...]) -> None:
    examples = examples_of(path)
    assert examples
    for line in examples:
        for part in re.split(r" \| | > | && ", line):
            words = shlex.split(part.removeprefix("xargs "), comments=True)
            if words[:1] == ["detent"]:
                understand(words[1:])


@each_command
def test_what_prints_data_prints_it_as_json_too(path: tuple[str, ...]) -> None:
    command = command_of(path)
    if not isinstance(command, CommandGroup) and command.name not in NO_DATA:
        assert "--json" in [name for option in command.params for name in option.opts]


@each_command
def test_what_needs_a_store_can_be_told_which(path: tuple[str, ...]) -> None:
    command = command_of(path)
    if isinstance(command, CommandGroup) or path[0] in NO_STORE:
        return
    options = {name for option in command.params for name in option.opts}
    # A measurement makes a schema of its own.
    assert ({"--url"} if path == ("bench",) else {"--url", "--schema"}) <= options


@each_command
def test_the_listed_summary_is_the_commands_own(path: tuple[str, ...]) -> None:
    command = command_of(path)
    if isinstance(command, CommandGroup):
        context = click.Context(command)
        for name, part in command.parts.items():
            inner = command.get_command(context, name)
            assert inner is not None
            assert part.summary == (inner.help or "").partition("\n")[0]


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"detent {__version__}\n"


def test_without_a_command_there_is_help() -> None:
    result = CliRunner().invoke(main, [], prog_name="detent", terminal_width=80)
    assert (result.exit_code, result.output) == (0, help_of(()))
