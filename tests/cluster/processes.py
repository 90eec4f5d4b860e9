"""Nodes as a supervisor starts them: real processes, to be stopped, frozen and killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

ROOT: Final = Path(__file__).parents[2]
APP: Final = "tests.cluster.workload:app"
PATIENCE: Final = 30.0

_STARTED: Final = re.compile(r"node \S+ \((\S+)\) started; taking jobs")


class NodeProcess:
    """A running `detent node`, and what it says."""

    def __init__(self, log: Path, url: str, *options: str, **environ: str) -> None:
        self.log = log
        inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "detent", "node", APP, *options],
                cwd=ROOT,
                env=inherited | {"DETENT_URL": url} | environ,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def id(self) -> UUID:
        """Its first incarnation; waits until it has started."""
        wait_until(lambda: _STARTED.search(self.said()) is not None, self._what("a start"))
        found = _STARTED.search(self.said())
        assert found is not None
        return UUID(found[1])

    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        wait_until(lambda: text in self.said(), self._what(repr(text)), patience)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as the out-of-memory killer does, and wait until it is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def ended(self, patience: float = PATIENCE) -> int:
        """Wait for its end and return its exit code; negative is the signal that killed it."""
        return self._process.wait(patience)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self.alive:
            self._process.send_signal(signal.SIGCONT)  # a frozen one would not even die
            self.kill()

    def _what(self, what: str) -> Callable[[], str]:
        return lambda: f"{what} in:\n{self.said()}"


Start = Callable[..., NodeProcess]


def wait_until(
    holds: Callable[[], bool], what: Callable[[], str], patience: float = PATIENCE
) -> None:
    ends_at = time.monotonic() + patience
    while not holds():
        if time.monotonic() > ends_at:
            pytest.fail(f"waited {patience} s for {what()}")
        time.sleep(0.02)
