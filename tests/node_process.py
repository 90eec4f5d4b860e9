"""Nodes as a supervisor starts them: real processes, to be stopped, frozen and killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from tests.overheard import PATIENCE, Overheard

_STARTED: Final = re.compile(r"node \S+ \((\S+)\) started; taking jobs")


class NodeProcess:
    """A running `detent node APP`, and what it says, as it says it."""

    def __init__(self, app: str, url: str, *options: str, cwd: Path, **environ: str) -> None:
        inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "detent", "node", app, *options],
            cwd=cwd,
            env=inherited | {"DETENT_URL": url} | environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self._process.stderr is not None
        self._overheard = Overheard(self._process.stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def id(self) -> UUID:
        """Its first incarnation; waits until it has started."""
        self._overheard.wait(lambda: _STARTED.search(self.said()) is not None, "its start")
        found = _STARTED.search(self.said())
        assert found is not None
        return UUID(found[1])

    def said(self) -> str:
        return self._overheard.said()

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something is true of what it says."""
        self._overheard.wait(holds, what)

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Wait until it says something."""
        self._overheard.wait_for(text, patience)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as the out-of-memory killer does, and wait until it is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def ended(self, patience: float = PATIENCE) -> int:
        """Wait for its end and return its exit code; negative is the signal that killed it."""
        code = self._process.wait(patience)
        self._overheard.join()
        return code

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self.alive:
            self._process.send_signal(signal.SIGCONT)  # a frozen one would not even die
            self.kill()
        self._overheard.join()


Start = Callable[..., NodeProcess]


@contextmanager
def launching(app: str, cwd: Path) -> Iterator[Start]:
    """Let nodes be started that end with the block; what they said is shown if a test fails."""
    nodes: list[NodeProcess] = []

    def start(url: str, *options: str, **environ: str) -> NodeProcess:
        nodes.append(NodeProcess(app, url, *options, cwd=cwd, **environ))
        return nodes[-1]

    try:
        yield start
    finally:
        for number, node in enumerate(nodes, 1):
            node.close()
            print(f"--- node {number}\n{node.said()[-5000:]}")  # noqa: T201  for whoever looks
