"""The PostgreSQL server of a run: durable, our own, gone afterwards; and what it counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

# Durable as in production; large enough that no checkpoint falls into a measurement.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "400",
}
# In every statement of ours that runs in a measured database, so that it is not counted.
MARK = "bench_harness"


@dataclass(frozen=True)
class Counters:
    """Statements that clients sent and transactions that committed, in one database."""

    statements: int
    commits: int


class Server:
    def __init__(self, url: Callable[[str], str], postmaster: int, version: str) -> None:
        self.url = url
        self.postmaster = postmaster
        self.version = version

    @asynccontextmanager
    async def connect(self, database: str = "postgres") -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.url(database), command_timeout=300)
        try:
            yield connection
        finally:
            await connection.close()

    async def execute(self, database: str, *statements: str) -> None:
        async with self.connect(database) as connection:
            for statement in statements:
                await connection.execute(statement)

    async def create(self, database: str, template: str = "template1") -> None:
        """An empty or cloned database; an older one of that name goes."""
        await self.execute(
            "postgres",
            f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)',
            f'CREATE DATABASE "{database}" TEMPLATE "{template}"',
        )

    async def settle(self, database: str) -> None:
        """Fresh statistics and no pending checkpoint, so that every subject gets its best plan."""
        await self.execute(database, f"VACUUM ANALYZE /* {MARK} */", "CHECKPOINT")

    async def alone(self, database: str, seconds: float = 5.0) -> None:
        """Wait until nobody is connected: a backend hands in its last counts when it ends."""
        async with self.connect() as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
            for _ in range(int(seconds / 0.05)):
                if not await connection.fetchval(query, database):
                    return
                await asyncio.sleep(0.05)

    async def reset_counters(self, database: str) -> Counters:
        await self.alone(database)
        await self.execute("postgres", "SELECT pg_stat_statements_reset()")
        return await self.counters(database)

    async def counters(self, database: str) -> Counters:
        async with self.connect() as connection:
            row = await connection.fetchrow(
                """SELECT
                    (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
                     WHERE dbid = d.oid AND query NOT LIKE $2)::bigint,
                    pg_stat_get_db_xact_commit(d.oid)
                FROM pg_database d WHERE datname = $1""",
                database,
                f"%{MARK}%",
            )
        return Counters(*row)


@asynccontextmanager
async def open_server(url: str | None) -> AsyncIterator[Server]:
    """A server of our own, or the one at `url`."""
    with _own() if url is None else _given(url) as url_of:
        connection = await asyncpg.connect(url_of("postgres"))
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        backend = await connection.fetchval("SELECT pg_backend_pid()")
        version = await connection.fetchval("SHOW server_version")
        # A backend's parent is the postmaster, the root of all the CPU time of the server.
        postmaster = psutil.Process(backend).ppid()
        await connection.close()
        yield Server(url_of, postmaster, version)


@contextmanager
def _own() -> Iterator[Callable[[str], str]]:
    from detent.testing.postgres import TemporaryPostgres  # noqa: PLC0415 - not with --server

    with TemporaryPostgres(durable=True, settings=SETTINGS, track_statements=True) as server:
        yield server.url


@contextmanager
def _given(url: str) -> Iterator[Callable[[str], str]]:
    parts = urlsplit(url)
    yield lambda database: urlunsplit(parts._replace(path=f"/{database}"))
