"""The nodes of the chaos: processes that are started again whenever they end."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from detent.cli.supervise import LIFELINE
from tests.chaos.proxy import FaultProxy
from tests.chaos.tasks import FOLDER, HOST

ROOT: Final = Path(__file__).parents[2]
_REFUSED: Final = re.compile(r"the claim on job \S+ \(\S+\) was lost")
_STARTED: Final = b"started; taking jobs"
_FENCED: Final = re.compile(r"could not prove that it is alive")
# After a fault a node is left in peace until it has worked for a while, but no longer than this.
LONGEST_PEACE: Final = 15.0
_RAISED: Final = re.compile(r"Traceback \(most recent|never retrieved|never awaited")


class ChaosNode:
    """One node behind a proxy of its own; after each death another process."""

    def __init__(
        self,
        name: str,
        proxy: FaultProxy,
        folder: Path,
        settings: dict[str, str],
        lifeline: int,
        *,
        alone: bool,
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.alone = alone
        """Whether it is on a machine of its own, as far as the others can see."""
        self._folder = folder
        self._settings = settings | ({HOST: name} if alone else {})
        self._lifeline = lifeline
        self._process: subprocess.Popen[bytes] | None = None
        self._peace = 0.0
        self._size = 0
        self._said_before = 0
        self._began = 0.0
        self._works_since: float | None = None
        self.starts = 0
        self.busy = False
        """Whether something is being done to it."""

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
        self.starts += 1
        with self.log.open("ab") as log:
            self._said_before = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "detent", "node", "tests.chaos.tasks:app"],
                cwd=ROOT,
                env={
                    **inherited,
                    **self._settings,
                    "DETENT_URL": self.proxy.url,
                    "DETENT_NODE_NAME": self.name,
                    FOLDER: str(self._folder),
                    # Should this program be killed itself, the nodes leave by themselves.
                    LIFELINE: str(self._lifeline),
                },
                pass_fds=(self._lifeline,),
                # Ctrl-C is for this program, which then ends the nodes.
                start_new_session=True,
                stdout=log,
                stderr=log,
            )

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_up(self) -> bool:
        """Whether its present process has come so far as to take jobs."""
        return self.alive and _STARTED in self.log.read_bytes()[self._said_before :]

    def leave_in_peace(self, seconds: float) -> None:
        """A fault is over: let it work for a while before the next."""
        self._peace, self._size = seconds, self._done()
        self._began, self._works_since = time.monotonic(), None
        self.busy = False

    @property
    def is_victim(self) -> bool:
        """Whether it is at work, and has been for a while."""
        if self.busy or not self.alive:
            return False
        now = time.monotonic()
        if self._works_since is None and self._done() > self._size:
            self._works_since = now
        if self._works_since is None:
            return now - self._began > LONGEST_PEACE
        return now - self._works_since > self._peace

    def _done(self) -> int:
        """How much the present process has written of effects."""
        effects = self._folder / f"{self.pid}.effects"
        return effects.stat().st_size if effects.exists() else 0

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            assert self._process is not None
            self._process.send_signal(number)

    async def stop(self) -> int:
        """Let it drain, and return its exit code."""
        self.thaw()
        self._send(signal.SIGTERM)
        assert self._process is not None
        try:
            return await asyncio.to_thread(self._process.wait, 60)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def refused(self) -> int:
        """Return how many of its late writes were refused, as far as it could say."""
        return len(_REFUSED.findall(self._said()))

    def fenced(self) -> int:
        """Return how often it stopped by itself."""
        return len(_FENCED.findall(self._said()))

    def raised(self) -> list[str]:
        """Return what nobody had expected."""
        said = self._said()
        return [said[found.start() :][:2000] for found in _RAISED.finditer(said)]

    def _said(self) -> str:
        return self.log.read_text(errors="replace")
