"""If these fail, the words that people learn the command from have changed.

When that was meant, write them anew: `python tests/cli/test_help.py`.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from detent import __version__
from detent.cli import main

FOLDER = Path(__file__).parent / "help"
COMMANDS = ["", *main.commands]


def help_of(command: str) -> str:
    arguments = [command, "-h"] if command else ["-h"]
    return CliRunner().invoke(main, arguments, prog_name="detent", terminal_width=80).output


def file_of(command: str) -> Path:
    return FOLDER / f"{command or 'detent'}.txt"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_as_agreed(command: str) -> None:
    assert help_of(command) == file_of(command).read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str) -> None:
    assert "\n  Example" in help_of(command)


def test_no_help_is_left_of_a_command_that_is_gone() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(file_of(command) for command in COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"detent {__version__}\n"


if __name__ == "__main__":
    for name in COMMANDS:
        file_of(name).write_text(help_of(name))
