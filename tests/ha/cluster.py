"""Patroni with three members, etcd, HAProxy: real programs on loopback ports."""

import asyncio
import json
import os
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import asyncpg

from detent.stores.postgres.failures import DRIVER_ERRORS
from detent.testing.postgres import _free_port
from detent.testing.postgres_programs import account_for, find_binaries
from tests.debian import Program, find_program
from tests.ha.members import DATABASE, Member, Times, find_patroni

MEMBERS: Final = 3
HEALTHY_WITHIN: Final = 180.0
ROLES: Final = ["leader", "replica", "sync_standby"]
# Waits for the synchronous standby, as every commit does.
WRITE: Final = "SELECT pg_logical_emit_message(true, 'ha', '')"
SETTINGS: Final = """
global
    maxconn 1000
defaults
    mode tcp
    timeout connect 3s
    retries 0
    timeout client 1h
    timeout server 1h
    timeout check 2s
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fastinter 300ms downinter 500ms fall 2 rise 1
    default-server on-marked-down shutdown-sessions
"""


class Cluster:
    """Three members in synchronous mode, and their etcd."""

    def __init__(self, home: Path, times: Times) -> None:
        account = account_for(find_binaries())
        # Before anything is started: whatever is missing is said at once.
        self._program, patroni = find_program("etcd", "etcd-server"), find_patroni(account)
        self._home = home
        self._times = times
        self._etcd: subprocess.Popen[bytes] | None = None
        self.members = [Member(n + 1, home, account, patroni) for n in range(MEMBERS)]

    @property
    def url(self) -> str:
        """The URL that names all hosts."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"postgresql://postgres@{hosts}/{DATABASE}"

    async def __aenter__(self) -> Self:
        self._home.chmod(0o755)
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        port = _free_port()
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{_free_port()}"
        options = {
            "data-dir": str(self._home / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self._etcd = launch(self._program, *words, log=self._home / "etcd.log")
        for member in self.members:
            member.configure(port, self._times)
            member.start()
        await self.until_healthy()
        connection = await asyncpg.connect((await self.primary()).url("postgres"))
        await connection.execute(f"CREATE DATABASE {DATABASE}")
        await connection.close()

    async def __aexit__(self, *_: object) -> None:
        for member in self.members:
            await asyncio.to_thread(member.kill)
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()

    async def until_healthy(self) -> None:
        """Wait until there are a primary, a synchronous standby, and another that follows."""
        ends_at = time.monotonic() + HEALTHY_WITHIN
        seen: list[tuple[str, str]] = []
        while time.monotonic() < ends_at:
            seen = await self._seen()
            at_work = {state for _, state in seen} <= {"running", "streaming"}
            if at_work and sorted(role for role, _ in seen) == ROLES:
                return
            await asyncio.sleep(0.5)
        raise TimeoutError(f"not healthy within {HEALTHY_WITHIN:g} s; Patroni says {seen}")

    async def _seen(self) -> list[tuple[str, str]]:
        for member in self.members:
            with suppress(OSError, ValueError, KeyError):
                said = json.loads(await _http(f"http://127.0.0.1:{member.rest}/cluster"))
                return [(each["role"], each["state"]) for each in said["members"]]
        return []

    async def primary(self) -> Member:
        """Return the member that Patroni calls the primary."""
        for member in self.members:
            with suppress(OSError):
                await _http(f"http://127.0.0.1:{member.rest}/primary")
                return member
        raise AssertionError("no primary")

    async def switch_over(self, primary: Member) -> None:
        """Let a standby take over in good order."""
        wish = json.dumps({"leader": primary.name}).encode()
        await _http(f"http://127.0.0.1:{primary.rest}/switchover", wish, limit=120)

    async def until_writable(self, old: Member) -> float:
        """Return when another member than `old` has acknowledged a write."""
        asking = [asyncio.create_task(_written(each)) for each in self.members if each is not old]
        try:
            async with asyncio.timeout(HEALTHY_WITHIN):
                return await next(iter(asyncio.as_completed(asking)))
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)


async def _written(member: Member) -> float:
    while True:
        with suppress(*DRIVER_ERRORS):
            connection: Any = await asyncpg.connect(member.url(), timeout=2)
            try:
                await connection.fetchval(WRITE, timeout=30)
                return time.time()
            finally:
                connection.terminate()
        await asyncio.sleep(0.05)


async def _http(url: str, body: bytes | None = None, limit: float = 3) -> bytes:
    def ask() -> bytes:
        with urllib.request.urlopen(url, body, timeout=limit) as answer:
            said: bytes = answer.read()
            return said

    return await asyncio.to_thread(ask)


def launch(program: Program, *words: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a program, with the libraries that the machine lacks."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(program.path), *words],
            env=os.environ | {"LD_LIBRARY_PATH": program.libraries},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


class HAProxy:
    """One address that leads to the primary, as the guide sets it up."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._members = cluster.members
        self._home = home
        self._program = find_program("haproxy")
        self.port = _free_port()
        self.bin_directory = find_binaries()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{DATABASE}"

    def __enter__(self) -> Self:
        servers = (
            f"    server {member.name} 127.0.0.1:{member.port} check port {member.rest}"
            for member in self._members
        )
        settings = self._home / "haproxy.cfg"
        settings.write_text(SETTINGS.format(port=self.port) + "\n".join(servers) + "\n")
        self._process = launch(
            self._program, "-db", "-f", str(settings), log=self._home / "haproxy.log"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
