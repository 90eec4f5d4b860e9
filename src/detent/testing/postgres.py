"""Without this module, tests would need a PostgreSQL that someone installed, started and sweeps up.

`TemporaryPostgres` runs the real server as a child of this process: a free loopback port, its data
in a temporary directory, gone at the end. Being our own child, it may also be stopped without
warning, killed and started again, so that a test sees what survives.

POSIX only. Whoever can reach the port is trusted, so keep nothing in it but what tests make.
"""

import asyncio
import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Self

import asyncpg

from detent.testing.postgres_programs import PostgresUnavailable, account_for, find_binaries

PATIENCE: Final = 60.0  # seconds for a start or a stop; a loaded machine may need a few


class TemporaryPostgres:
    """A PostgreSQL server that lives as long as a `with` block.

    `durable=True` keeps every promise a production server keeps; the default is faster, forgets
    after a power cut, and may forget its last commits when killed. `track_statements` preloads
    pg_stat_statements where it exists; the attribute of that name says whether it did.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        track_statements: bool = False,
    ) -> None:
        self.bin_directory: Final = find_binaries()
        self.durable: Final = durable
        libraries = self.bin_directory.parent.glob("lib/**/pg_stat_statements.*")
        self.track_statements: Final = track_statements and any(libraries)
        self.port = 0
        self._settings = dict(settings or {})
        self._account = account_for(self.bin_directory)
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, or None while nothing runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def log_path(self) -> Path:
        """Where the server writes what it has to say; gone when it is closed."""
        assert self._home is not None, "the server was not started"
        return self._home / "log"

    def start(self) -> None:
        """Return when the server accepts connections; data and port are those of the last start."""
        if self.pid is not None:
            return
        home = self._home or self._initialise()
        self.port = self.port or _free_port()
        options = (f"--{name}={value}" for name, value in self._options().items())
        self._process = self._launch("postgres", home, *options)
        status = home / "data" / "postmaster.pid"  # line 1 is the pid, line 8 the state
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(FileNotFoundError):
                lines = status.read_text().split()
                if lines[:1] == [str(self._process.pid)] and lines[-1] == "ready":
                    return
            time.sleep(0.01)
        self._give_up("postgres", home)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop in order, or `immediate`: without a checkpoint, so that the next start recovers."""
        if self._process is None or self.pid is None:
            return
        self._process.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the postmaster and all its children with SIGKILL, as the out-of-memory killer does.

        The postmaster is frozen first: it can then neither start children nor bury dead ones, so
        every id we signal is still one of its own, and a restart never meets a survivor.
        """
        if self._process is None or self.pid is None:
            return
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE
        while (children := _live_children(self._process.pid)) and time.monotonic() < deadline:
            for child in children:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.002)
        self._process.kill()
        self._process.wait()

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and delete its data; calling it again does nothing."""
        if os.getpid() != self._owner:
            return  # a forked child inherits this object, but not the right to end the server
        atexit.unregister(self.close)
        self.stop()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
        self._home, self._process, self.port = None, None, 0

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if given, and return its URL."""
        statement = f"CREATE DATABASE {_quoted(name)}"
        if template is not None:
            statement += f" TEMPLATE {_quoted(template)}"
            if not self.durable and self._major() >= 15:
                statement += " STRATEGY file_copy"  # a few times faster while nothing is synced
        self.execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, together with the connections still open to it."""
        self.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement; blocks, and works with or without a running event loop."""

        async def run() -> None:
            connection = await asyncpg.connect(self.url(database), timeout=PATIENCE)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        # A thread of its own has no running loop, whatever the caller's thread is doing.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(run())).result()

    def _major(self) -> int:
        assert self._home is not None, "start the server first"
        return int((self._home / "data" / "PG_VERSION").read_text())

    def _options(self) -> dict[str, str]:
        options = {"listen_addresses": "127.0.0.1", "port": str(self.port)}
        options["unix_socket_directories"] = ""  # a temporary path may be too long for a socket
        if self.track_statements:
            options["shared_preload_libraries"] = "pg_stat_statements"
        if not self.durable:
            options |= dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "off")
        return options | self._settings

    def _initialise(self) -> Path:
        self._home = home = Path(tempfile.mkdtemp(prefix="detent-postgres-"))
        atexit.register(self.close)
        if self._account.uid is not None:
            os.chown(home, self._account.uid, -1)
        options = "-U postgres -A trust -E UTF8 --locale=C --no-sync"
        if self._launch("initdb", home, *options.split()).wait() != 0:
            self._give_up("initdb", home)
        return home

    def _launch(self, program: str, home: Path, *arguments: str) -> subprocess.Popen[bytes]:
        path = self.bin_directory / program
        with (home / "log").open("ab") as log:
            return self._account.popen(path, "-D", str(home / "data"), *arguments, log=log.fileno())

    def _give_up(self, program: str, home: Path) -> None:
        log = (home / "log").read_text(errors="replace")[-2000:]
        self.close()
        raise PostgresUnavailable(f"{self.bin_directory / program} did not succeed:\n{log}")


def _free_port() -> int:
    # Below the range from which the kernel takes client ports: there, a client that knocks while
    # the server is down can be given the very port it knocks at and be connected to itself.
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _live_children(parent: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        table = subprocess.check_output(["ps", "-A", "-o", "pid=,stat=,ppid="], text=True)
        rows = [line.split() for line in table.splitlines()]
    else:
        rows = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it ended while we looked
                pid, _, rest = path.read_text(errors="replace").partition(" (")
                rows.append([pid, *rest.rpartition(") ")[2].split()[:2]])
    return [int(pid) for pid, state, up in rows if int(up) == parent and state[0] not in "ZX"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
