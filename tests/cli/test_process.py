"""If these fail, the command misbehaves where only a process can: in pipes, at terminals."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.stores import MODULE, Program

DETENT = str(Path(sys.executable).parent / "detent")
PATIENCE = 60


@pytest.fixture
def environ(sqlite_url: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    return inherited | {"DETENT_URL": sqlite_url}


def at_terminal(command: list[str], environ: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run a command with a terminal of its own; return its exit code and what it printed."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environ, cwd=folder
    ) as process:
        os.close(slave)
        said = bytearray()
        # A terminal whose other end is gone answers with an error instead of an end.
        try:
            while data := os.read(master, 4096):
                said += data
        except OSError:
            pass
        os.close(master)
        code = process.wait(PATIENCE)
    return code, said.decode()


def test_a_reader_that_goes_away_is_no_error(
    environ: dict[str, str], sqlite_url: str, tmp_path: Path
) -> None:
    """`detent jobs list | head -1`, with more lines than a pipe holds."""
    Program(sqlite_url).enqueue_many("a_task_with_a_long_name" * 8, 600)
    script = f"{DETENT} jobs list --limit 600 | head -1"
    said = subprocess.run(
        ["bash", "-c", script],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert len(said.stdout.splitlines()) == 1
    assert said.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("command", ["jobs list", "jobs list --json", "migrate --sql"])
def test_a_full_disk_is_an_error_of_one_line(
    environ: dict[str, str], sqlite_url: str, tmp_path: Path, command: str
) -> None:
    Program(sqlite_url).enqueue(count=3)
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [DETENT, *command.split()],
            env=environ,
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    problem = "the output could not be written: No space left on device"
    assert (said.returncode, said.stderr) == (1, f"detent: error: {problem}\n")


def test_an_interrupt_ends_the_command_without_a_word(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        MODULE.replace("app = App()", "app = App()\nimport os\nos.write(1, b'here')")
    )
    with subprocess.Popen(
        [DETENT, "enqueue", "shop:app", "hello", '["Ada"]', "--wait"],
        env=environ,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"here"
        # It is on its way to wait for a job that nobody runs, or already there.
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said, errors) == (130, b"", b"")


def test_a_terminal_gets_colours_and_the_next_step(
    environ: dict[str, str], sqlite_url: str, tmp_path: Path
) -> None:
    program = Program(sqlite_url)
    (job,) = program.enqueue()
    program.call(lambda app: app.jobs.pause(job))
    settings = environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    code, said = at_terminal([DETENT, "jobs"], settings, tmp_path)
    assert code == 0
    assert "\x1b[33mpaused" in said
    assert f"detent jobs show {job}" in said
    code, said = at_terminal([DETENT, "jobs"], settings | {"NO_COLOR": "1"}, tmp_path)
    assert "\x1b[33m" not in said
    assert "paused" in said


def test_a_pipe_gets_neither(environ: dict[str, str], sqlite_url: str, tmp_path: Path) -> None:
    (job,) = Program(sqlite_url).enqueue()
    said = subprocess.run(
        [DETENT, "jobs"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    (line,) = said.stdout.decode().splitlines()
    assert line.split("\t")[:4] == [str(job), "hello", "default", "pending"]


# What is loaded


def loaded(*arguments: str, environ: dict[str, str], folder: Path) -> set[str]:
    """Return the modules that a command has imported by its end."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(sys.modules)))\n"
        "from detent.cli import main\n"
        f"main({list(arguments)!r}, prog_name='detent')\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return set(said.stderr.split())


@pytest.mark.parametrize("arguments", [["--version"], ["-h"], ["jobs", "-h"]])
def test_asking_for_help_loads_next_to_nothing(tmp_path: Path, arguments: list[str]) -> None:
    found = loaded(*arguments, environ=dict(os.environ), folder=tmp_path)
    heavy = {"asyncio", "asyncpg", "rich", "msgspec", "uvloop", "sqlite3", "detent.config"}
    assert not found & heavy
    assert not [name for name in found if name.startswith(("detent._engine", "detent.stores"))]


def test_looking_at_jobs_loads_no_engine(environ: dict[str, str], tmp_path: Path) -> None:
    found = loaded("jobs", "list", environ=environ, folder=tmp_path)
    assert not [name for name in found if name.startswith(("detent._engine", "rich", "uvloop"))]
    assert not {"detent.app", "detent.client", "detent.tasks"} & found
