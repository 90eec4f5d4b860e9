"""If these fail, the first minute with Detent goes wrong, or a file of somebody is lost."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from detent.cli.init import next_commands
from detent.config import SECTIONS, Config
from tests.cli.conftest import Detent
from tests.cli.snapshots import check

Terminal = Callable[[int], None]

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "src" / "detent" / "cli" / "templates" / "detent.toml"
LINES = TEMPLATE.read_text().splitlines()
KEYS = [number for number, line in enumerate(LINES) if re.match(r"#\w+ = ", line)]


def test_two_files_are_written(detent: Detent, tmp_path: Path) -> None:
    result = detent("init")
    assert (result.exit_code, result.output) == (0, "written\tdetent.toml\nwritten\ttasks.py\n")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["detent.toml", "tasks.py"]


def test_a_folder_is_made(detent: Detent, tmp_path: Path) -> None:
    document = json.loads(detent("init", "a/shop", "--json").output)
    assert document == {"written": ["a/shop/detent.toml", "a/shop/tasks.py"]}
    assert (tmp_path / "a" / "shop" / "tasks.py").is_file()


@pytest.mark.parametrize("there", [["tasks.py"], ["detent.toml"], ["detent.toml", "tasks.py"]])
def test_nothing_is_overwritten(detent: Detent, tmp_path: Path, there: list[str]) -> None:
    for name in there:
        (tmp_path / name).write_text("mine")
    result = detent("init")
    assert result.exit_code == 1
    assert result.stderr == (
        f"detent: error: {' and '.join(there)} already there; nothing was written\n"
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == there
    assert all((tmp_path / name).read_text() == "mine" for name in there)


def test_a_place_that_cannot_be_written_to_is_one_line(detent: Detent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert detent("init", "file").exit_code == 2
    result = detent("init", "file/inside")
    assert result.exit_code == 1
    assert result.stderr.startswith("detent: error: ")


def test_people_are_told_what_to_do_next(
    detent: Detent, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    terminal(100)
    check("terminal/init", detent("init", "shop").output)


# What the settings say


def test_the_settings_as_they_are_written_change_nothing() -> None:
    assert Config.load(path=TEMPLATE, environ={}) == Config()


@pytest.mark.parametrize("number", KEYS, ids=lambda number: LINES[number])
def test_each_setting_can_be_uncommented(tmp_path: Path, number: int) -> None:
    """It is read, and it is the default, unless the comment calls it an example."""
    lines = [*LINES[:number], LINES[number].removeprefix("#"), *LINES[number + 1 :]]
    file = tmp_path / "detent.toml"
    file.write_text("\n".join(lines))
    changed = Config.load(path=file, environ={}) != Config()
    assert changed is LINES[number - 1].endswith("example:")


def test_every_setting_stands_in_it() -> None:
    text = TEMPLATE.read_text()
    for section, kind in SECTIONS.items():
        part = text.partition(f"\n[{section}]\n")[2].partition("\n[")[0]
        assert [key for key in kind.names() if f"\n#{key} = " not in f"\n{part}"] == []


# What the tasks do


def test_the_commands_work_as_they_are_printed(detent: Detent, tmp_path: Path) -> None:
    """From an empty folder to a result, with what is printed and nothing else."""
    detent("init", "shop")
    environ = dict(os.environ)
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    folder, enqueue, node, look = next_commands(Path("shop"))
    assert folder == "cd shop"
    home = tmp_path / "shop"

    def run(command: str) -> str:
        return subprocess.run(
            shlex.split(command),
            cwd=home,
            env=environ,
            check=True,
            timeout=60,
            capture_output=True,
            text=True,
        ).stdout

    said = run(enqueue)
    job_id = re.search(r"enqueued job (\S+)", said)
    assert job_id, said
    with subprocess.Popen(
        shlex.split(f"{node} --log-level debug"),
        cwd=home,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if f"job {job_id[1]} (tasks.greet) succeeded" in line:
                break
        process.terminate()
        process.stderr.read()
        assert process.wait(60) == 0
    assert run(look).split("\t")[:4] == [job_id[1], "tasks.greet", "default", "succeeded"]


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "--no-cache"], ["ruff", "format", "--check"], ["mypy", "--strict"]],
)
def test_the_tasks_pass_the_usual_checks(
    detent: Detent, tmp_path: Path, command: list[str]
) -> None:
    detent("init")
    tool, *options = command
    program = Path(sys.executable).parent / tool
    result = subprocess.run(
        [program, *options, "tasks.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
