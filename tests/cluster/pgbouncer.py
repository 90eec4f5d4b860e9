"""A real PgBouncer in transaction mode, before a temporary PostgreSQL.

Its program comes from the machine, else from its Debian package, which is fetched and unpacked
into `.matrix/` with what it needs, and not installed.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

import pytest

from detent.testing.postgres import TemporaryPostgres, _free_port
from detent.testing.postgres_programs import account_for
from tests.cluster.processes import ROOT
from tests.overheard import PATIENCE, Overheard

DOWNLOADS: Final = ROOT / ".matrix" / "pgbouncer"
SETTINGS: Final = """
[databases]
* = host=127.0.0.1 port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
"""


class Program(NamedTuple):
    """How PgBouncer is started here."""

    path: Path
    libraries: str = ""


def find_program() -> Program:
    """Return PgBouncer, fetched if need be; skip the test where there is no way to have it."""
    found = shutil.which(
        "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    )
    if found:
        return Program(Path(found))
    if not DOWNLOADS.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            pytest.skip("no pgbouncer here, and no apt-get and dpkg to fetch it with")
        partial = DOWNLOADS.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            _fetch(partial)
        except subprocess.SubprocessError as error:
            pytest.skip(f"no pgbouncer here, and its package cannot be fetched: {error}")
        # Renamed at the end, so that an interrupted download leaves nothing that looks complete.
        partial.rename(DOWNLOADS)
    libraries = sorted({str(path.parent) for path in DOWNLOADS.rglob("lib*.so*")})
    return Program(DOWNLOADS / "usr" / "sbin" / "pgbouncer", ":".join(libraries))


def _fetch(folder: Path) -> None:
    """Unpack the package, and those of the libraries that this machine lacks."""
    own: list[str] = []
    wanted = _packages(*own, check=False)
    if not wanted:
        # A machine that never asked for the lists of packages; ours are not its own.
        (folder / "lists" / "partial").mkdir(parents=True)
        own = ["-o", f"Dir::State::lists={folder / 'lists'}", "-o", "APT::Sandbox::User=root"]
        _run("apt-get", *own, "update")
        wanted = _packages(*own)
    _run("apt-get", *own, "download", *wanted, cwd=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(folder))
        package.unlink()
    shutil.rmtree(folder / "lists", ignore_errors=True)


def _packages(*options: str, check: bool = True) -> list[str]:
    """Return what would be installed."""
    plan = _run("apt-get", *options, "--simulate", "install", "pgbouncer", check=check)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _run(*command: str, check: bool = True, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, check=check, timeout=PATIENCE, capture_output=True, text=True
    )
    return done.stdout


class PgBouncer:
    """A pooler that shares few sessions of a server among all who come."""

    def __init__(self, server: TemporaryPostgres, pool_size: int) -> None:
        self._program = find_program()
        self._server = server
        self._pool_size = pool_size
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self._home = Path(tempfile.mkdtemp(prefix="detent-pgbouncer-"))

    def url(self, direct: str) -> str:
        """Return the URL of a database by the way of the pooler."""
        parts = urlsplit(direct)
        return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self.port}"))

    def start(self) -> None:
        """Return when it answers."""
        settings = self._home / "pgbouncer.ini"
        settings.write_text(
            SETTINGS.format(
                server_port=self._server.port, port=self.port, pool_size=self._pool_size
            )
        )
        self._home.chmod(0o755)
        # It refuses to run as root, and whoever runs PostgreSQL may not see our folders.
        program = Path(shutil.copy(self._program.path, self._home / "program"))
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as log:
            self._process = account_for(self._server.bin_directory).popen(
                "/usr/bin/env",
                f"LD_LIBRARY_PATH={self._libraries()}",
                program,
                settings,
                log=log.fileno(),
            )
        self._overheard = Overheard(os.fdopen(reading, errors="replace"))
        self._overheard.wait_for("process up")

    def _libraries(self) -> str:
        folder = self._home / "libraries"
        folder.mkdir(exist_ok=True)
        for directory in filter(None, self._program.libraries.split(":")):
            for library in Path(directory).glob("lib*.so*"):
                shutil.copy(library, folder)
        return str(folder)

    def stop(self) -> None:
        """End it, and all connections through it."""
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
