"""One host of the cluster: a PostgreSQL and the Patroni that looks after it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from detent.testing.postgres import _free_port, _live_children
from detent.testing.postgres_programs import Account, find_binaries
from tests.debian import MissingProgram

PATRONI: Final = "patroni[etcd3]>=4"
DATABASE: Final = "jobs"


class Times(NamedTuple):
    """Patroni's times, in seconds."""

    ttl: int
    loop_wait: int
    retry_timeout: int


SHORT: Final = Times(20, 2, 3)
DEFAULT: Final = Times(30, 10, 10)


def find_patroni(account: Account) -> Path:
    """Return Patroni's folder: an environment of its own, made in the temporary directory."""
    home = Path(tempfile.gettempdir()) / "detent-ha-patroni"
    if not (home / "done").exists():
        shutil.rmtree(home, ignore_errors=True)
        try:
            subprocess.run([_python(account), "-m", "venv", str(home)], check=True)
            pip = [str(home / "bin" / "pip"), "install", "--quiet", PATRONI, "psycopg[binary]"]
            subprocess.run(pip, check=True)
        except subprocess.SubprocessError as error:
            raise MissingProgram(f"no Patroni: {PATRONI} cannot be installed: {error}") from error
        (home / "done").touch()
    return home / "bin"


def _python(account: Account) -> str:
    """Return an interpreter that the account of PostgreSQL may run."""
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        with suppress(OSError):
            if account.popen(path, "-c", "import ensurepip", log=subprocess.DEVNULL).wait() == 0:
                return path
    raise MissingProgram(
        "no Python with venv that the account of PostgreSQL may run; apt-get install python3-venv"
    )


class Member:
    """One host. Its processes are found by their ids, and ended by them."""

    def __init__(self, number: int, home: Path, account: Account, patroni: Path) -> None:
        self.name = f"pg{number}"
        self.port, self.rest = _free_port(), _free_port()
        self._home = home / self.name
        self._account = account
        self._patroni = patroni
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def configure(self, etcd: int, times: Times) -> None:
        """Write its configuration."""
        self._home.mkdir()
        if self._account.uid is not None:
            os.chown(self._home, self._account.uid, -1)
        self._home.chmod(0o700)
        # JSON is YAML, too.
        settings = self._home / "patroni.yml"
        settings.write_text(json.dumps(self._settings(etcd, times), indent=1))
        settings.chmod(0o644)

    def _settings(self, etcd: int, times: Times) -> dict[str, Any]:
        here, rest = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.rest}"
        superuser = {"username": "postgres"}
        return {
            "scope": "detent",
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"127.0.0.1:{etcd}"},
            "bootstrap": {
                "dcs": {
                    **times._asdict(),
                    "synchronous_mode": True,
                    # A primary that crashed is replaced, and not started again in its place.
                    "primary_start_timeout": 0,
                    "postgresql": {"use_pg_rewind": True, "use_slots": True},
                },
                "initdb": ["data-checksums", {"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": here,
                "connect_address": here,
                "data_dir": str(self._home / "data"),
                "bin_dir": str(find_binaries()),
                "pgpass": str(self._home / "pgpass"),
                "authentication": {"superuser": superuser, "replication": superuser},
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
                "parameters": {
                    "unix_socket_directories": str(self._home),
                    "max_connections": 300,
                    # Processes are killed here, and no power is cut.
                    "fsync": "off",
                    "wal_retrieve_retry_interval": "500ms",
                },
            },
        }

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        with (self._home.parent / f"{self.name}.log").open("ab") as log:
            self._process = self._account.popen(
                self._patroni / "patroni", self._home / "patroni.yml", log=log.fileno()
            )

    @property
    def postmaster(self) -> int | None:
        """The id of PostgreSQL's first process, as it wrote it down."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self._home / "data" / "postmaster.pid").read_text().split()[0])
            return pid if b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
        return None

    def _processes(self) -> list[int]:
        """Return all processes of this host, parents first."""
        found = []
        if self._process is not None and self._process.poll() is None:
            found.append(self._process.pid)
        if (postmaster := self.postmaster) is not None:
            found.append(postmaster)
        for pid in found:
            found += [child for child in _live_children(pid) if child not in found]
        return found

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_postmaster(self) -> None:
        """Kill PostgreSQL's first process; the others end with it."""
        assert self.postmaster is not None
        os.kill(self.postmaster, signal.SIGKILL)

    def kill_patroni(self) -> None:
        """Kill Patroni alone; PostgreSQL goes on, and does not know that it was replaced."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """Kill everything on this host at once."""
        self.send(signal.SIGSTOP)  # none of them can start another meanwhile
        while self._processes():
            self.send(signal.SIGKILL)
            time.sleep(0.01)
