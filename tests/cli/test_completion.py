"""If these fail, the tab key offers nothing, the wrong thing, or a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete, ShellComplete

from detent.cli import main
from tests.cli.conftest import Detent
from tests.cli.stores import MODULE, Program

SHELLS = ("bash", "zsh", "fish")


def offered(words: str, incomplete: str = "") -> list[str]:
    """Return what is offered after some words."""
    complete = ShellComplete(main, {}, "detent", "_DETENT_COMPLETE")
    return [item.value for item in complete.get_completions(words.split(), incomplete)]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_the_command(detent: Detent, shell: str) -> None:
    result = detent("completion", shell)
    assert result.exit_code == 0
    assert "_DETENT_COMPLETE" in result.output
    assert f"{shell}_complete" in result.output


def test_the_script_is_valid_bash(detent: Detent) -> None:
    script = detent("completion", "bash").output
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_commands_and_options_are_offered(detent: Detent) -> None:
    assert offered("", "j") == ["jobs"]
    assert offered("jobs", "re") == ["retry", "resume"]
    assert "--state" in offered("jobs list", "--s")
    assert offered("jobs list --state", "s") == ["succeeded"]


def test_the_tasks_of_an_app_are_offered(detent: Detent, tmp_path: Path) -> None:
    (tmp_path / "completed_shop.py").write_text(f"print('noise')\n{MODULE}")
    assert offered("enqueue completed_shop:app") == ["hello", "ship", "fail"]
    assert offered("enqueue completed_shop:app", "sh") == ["ship"]


@pytest.mark.parametrize("code", ["raise RuntimeError('no')", "1 +", "import nothing_such"])
def test_a_module_that_cannot_be_imported_offers_nothing(
    detent: Detent, tmp_path: Path, code: str
) -> None:
    sys.modules.pop("broken_shop", None)
    (tmp_path / "broken_shop.py").write_text(code)
    assert offered("enqueue broken_shop:app") == []


def test_queues_are_offered(detent: Detent, sqlite_url: str) -> None:
    Program(sqlite_url).enqueue(queue="mail")
    assert offered(f"queues pause --url {sqlite_url}", "m") == ["mail"]
    assert offered(f"jobs list --url {sqlite_url} --queue") == ["mail"]


def test_a_database_that_is_away_offers_nothing(detent: Detent) -> None:
    assert offered("queues pause --url postgresql://127.0.0.1:1/nowhere") == []


def test_the_shell_gets_its_answer_from_the_real_command(tmp_path: Path) -> None:
    environ = os.environ | {
        "_DETENT_COMPLETE": "bash_complete",
        "COMP_WORDS": "detent jobs sh",
        "COMP_CWORD": "2",
    }
    said = subprocess.run(
        [Path(sys.executable).parent / "detent"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (said.stdout, said.stderr) == ("plain,show\n", "")


def test_click_still_makes_the_same_scripts() -> None:
    assert isinstance(BashComplete(main, {}, "detent", "_X").source_template, str)
    assert isinstance(main, click.Group)
