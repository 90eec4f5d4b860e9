"""The examples as a newcomer starts them: real processes in their own folders."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.overheard import Overheard

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
PATIENCE: Final = 30.0

T = TypeVar("T")


class Program:
    """A running program, and what it says."""

    def __init__(self, folder: Path, *command: str, **environ: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=_inherited() | {"PYTHONUNBUFFERED": "1"} | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._overheard = Overheard(self._process.stdout)

    def said(self) -> str:
        return self._overheard.said()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until it has said that."""
        wanted = re.compile(pattern)
        self._overheard.wait(lambda: wanted.search(self.said()) is not None, repr(pattern))
        found = wanted.search(self.said())
        assert found is not None
        return found

    def stop(self) -> None:
        """Ask it to end, as a supervisor does; it must do so by itself."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it does not end; it said:\n{self.said()}")
        # Some servers end by the signal itself, after they have cleaned up.
        assert code in {0, -signal.SIGTERM}, self.said()

    def kill(self) -> None:
        """End it in any case."""
        self._process.kill()
        self._process.wait()
        self._overheard.join()


@contextmanager
def running(folder: Path, *command: str, **environ: str) -> Iterator[Program]:
    """Run a program while the block runs; at its end it is stopped."""
    program = Program(folder, *command, **environ)
    try:
        yield program
        program.stop()
    finally:
        program.kill()


def run_to_its_end(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself, and well, in a folder; return what it printed."""
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        env=_inherited(),
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done


def _inherited() -> dict[str, str]:
    """Return the environment without any setting of ours."""
    return {name: value for name, value in os.environ.items() if "DETENT" not in name}


def wait_until(look: Callable[[], T | None], what: str) -> T:
    """Return what `look` finds, as soon as it finds something: nobody tells a client of a web."""
    ends_at = time.monotonic() + PATIENCE
    while time.monotonic() < ends_at:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail(f"waited {PATIENCE} s for {what}")
