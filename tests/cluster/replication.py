"""A primary and its synchronous standby: what is acknowledged is on both of them."""

import asyncio
import atexit
import os
import signal
import tempfile
from pathlib import Path
from typing import Any, Final, Self

import asyncpg
import pytest

from detent.testing.postgres import TemporaryPostgres, _live_children
from tests.cluster.database import until

SLOT: Final = "standby"
# Processes are killed here, and no power is cut: what the operating system has is safe.
SETTINGS: Final = {
    "synchronous_commit": "on",
    "max_connections": "100",
    # A standby that looks for its lost primary cannot be promoted meanwhile.
    "wal_retrieve_retry_interval": "100ms",
}


class Standby(TemporaryPostgres):
    """A server that begins as a copy of another and follows it."""

    def __init__(self, primary: TemporaryPostgres) -> None:
        super().__init__(settings=SETTINGS)
        self._primary = primary
        if not (self.bin_directory / "pg_basebackup").exists():
            pytest.skip(f"no pg_basebackup in {self.bin_directory}")

    def _initialise(self) -> Path:
        self._home = home = Path(tempfile.mkdtemp(prefix="detent-standby-"))
        atexit.register(self.close)
        if self._account.uid is not None:
            os.chown(home, self._account.uid, -1)
        primary = f"--host=127.0.0.1 --port={self._primary.port} --username=postgres"
        options = f"{primary} --write-recovery-conf --checkpoint=fast --no-sync --wal-method=stream"
        slot = f"--create-slot --slot={SLOT}"
        if self._launch("pg_basebackup", home, *options.split(), *slot.split()).wait() != 0:
            self._give_up("pg_basebackup", home)
        return home


class Pair:
    """The two servers, and one URL that names both."""

    def __init__(self) -> None:
        self.primary = TemporaryPostgres(settings=SETTINGS)
        self.standby = Standby(self.primary)

    def url(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/{database}"

    def __enter__(self) -> Self:
        self.primary.start()
        self.standby.start()
        asyncio.run(self._synchronise())
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.kill()  # it would wait for its standby
        self.standby.close()
        self.primary.close()

    async def _synchronise(self) -> None:
        """Let no commit be acknowledged from now on that the standby does not have."""
        connection = await asyncpg.connect(self.primary.url())
        await connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await connection.execute("SELECT pg_reload_conf()")

        async def is_synchronous() -> Any:
            query = "SELECT bool_or(sync_state = 'sync') FROM pg_stat_replication"
            return await connection.fetchval(query)

        await until(is_synchronous, "a synchronous standby")
        await connection.close()

    async def caught_up(self) -> None:
        """Wait until the standby shows what it has; to have it is enough for an acknowledgement."""
        primary = await asyncpg.connect(self.primary.url())
        standby = await asyncpg.connect(self.standby.url())
        written = await primary.fetchval("SELECT pg_current_wal_lsn()::text")

        async def shown() -> Any:
            return await standby.fetchval(
                "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", written
            )

        await until(shown, "the standby to catch up")
        await primary.close()
        await standby.close()

    async def lose_sight(self) -> None:
        """Let the primary go on alone: what it writes from now on, the standby never gets."""
        primary = await asyncpg.connect(self.primary.url())
        await primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await primary.execute("SELECT pg_reload_conf()")
        standby = await asyncpg.connect(self.standby.url())
        await standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        await standby.execute("SELECT pg_reload_conf()")

        async def is_alone() -> Any:
            return not await primary.fetchval("SELECT count(*) FROM pg_stat_replication")

        await until(is_alone, "the end of the replication")
        await primary.close()
        await standby.close()

    async def promote(self) -> None:
        """Make the standby the primary; return when it can be written to."""
        connection = await asyncpg.connect(self.standby.url())
        # It has no standby of its own yet, and must not wait for one.
        await connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await connection.execute("SELECT pg_reload_conf()")
        assert await connection.fetchval("SELECT pg_promote()")
        await connection.close()

    def freeze(self) -> None:
        """Stop all processes of the primary: its connections stay open, and nothing answers."""
        assert self.primary.pid is not None
        os.kill(self.primary.pid, signal.SIGSTOP)
        for child in _live_children(self.primary.pid):
            os.kill(child, signal.SIGSTOP)

    async def make_read_only(self) -> None:
        """Let the old primary answer, but take no more writes, as one does that was demoted."""
        connection = await asyncpg.connect(self.primary.url())
        await connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()
