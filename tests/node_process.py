"""Nodes as a supervisor starts them: real processes, to be stopped, frozen and killed."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

PATIENCE: Final = 30.0

_STARTED: Final = re.compile(r"node \S+ \((\S+)\) started; taking jobs")


class NodeProcess:
    """A running `detent node APP`, and what it says, as it says it."""

    def __init__(self, app: str, url: str, *options: str, cwd: Path, **environ: str) -> None:
        inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
        self._said: list[str] = []
        self._silent = False
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "detent", "node", app, *options],
            cwd=cwd,
            env=inherited | {"DETENT_URL": url} | environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                with self._news:
                    self._said.append(line)
                    self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def id(self) -> UUID:
        """Its first incarnation; waits until it has started."""
        self._wait(lambda: _STARTED.search(self.said()) is not None, "its start", PATIENCE)
        found = _STARTED.search(self.said())
        assert found is not None
        return UUID(found[1])

    def said(self) -> str:
        with self._news:
            return "".join(self._said)

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Wait until it says something."""
        self._wait(lambda: text in self.said(), repr(text), patience)

    def _wait(self, holds: Callable[[], bool], what: str, patience: float) -> None:
        with self._news:
            found = self._news.wait_for(lambda: holds() or self._silent, patience)
        if not found or not holds():
            pytest.fail(f"waited up to {patience} s for {what} in:\n{self.said()}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as the out-of-memory killer does, and wait until it is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def ended(self, patience: float = PATIENCE) -> int:
        """Wait for its end and return its exit code; negative is the signal that killed it."""
        code = self._process.wait(patience)
        self._reader.join(1.0)  # the last lines; a child that lives on may keep the pipe open
        return code

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self.alive:
            self._process.send_signal(signal.SIGCONT)  # a frozen one would not even die
            self.kill()
        self._reader.join(1.0)


Start = Callable[..., NodeProcess]
