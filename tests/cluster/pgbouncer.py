"""A real PgBouncer in transaction mode, before a temporary PostgreSQL.

Its program comes from the machine, else from its Debian package, which is fetched and unpacked
into `.matrix/` with what it needs, and not installed.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

import pytest

from detent.testing.postgres import _free_port
from detent.testing.postgres_programs import account_for
from tests.debian import MissingProgram, find_program
from tests.overheard import PATIENCE, Overheard

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
{more}
"""


class Server(Protocol):
    """What stands behind the pooler."""

    port: int

    @property
    def bin_directory(self) -> Path:
        """The programs of PostgreSQL, whose account the pooler runs under."""


class PgBouncer:
    """A pooler that shares few sessions of a server among all who come."""

    def __init__(self, server: Server, pool_size: int, more: str = "") -> None:
        try:
            self._program = find_program("pgbouncer")
        except MissingProgram as error:
            pytest.skip(str(error))
        self._server = server
        self._pool_size = pool_size
        self._more = more
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
                server_port=self._server.port,
                port=self.port,
                pool_size=self._pool_size,
                more=self._more,
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
