"""If this fails, a server that was just started opens a store for each of its first calls."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import pytest

from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected
from tests.cluster.processes import ROOT

POOL_SIZE = 5
# The connection that looks for a pooler may still be closing when the pool opens its last one.
SESSIONS = POOL_SIZE + 1


@pytest.fixture
async def caller(postgres_url: str) -> AsyncIterator[str]:
    """A role that may do anything with the tables, but not have any number of sessions."""
    async with connected(postgres_url) as connection:
        await connection.execute(
            """
            CREATE ROLE cold_caller LOGIN;
            GRANT USAGE ON SCHEMA detent TO cold_caller;
            GRANT ALL ON ALL TABLES IN SCHEMA detent TO cold_caller;
            GRANT ALL ON ALL SEQUENCES IN SCHEMA detent TO cold_caller;
            """
        )
        yield "cold_caller"
        await connection.execute("DROP OWNED BY cold_caller; DROP ROLE cold_caller")


@pytest.mark.parametrize("threads, children", [(30, 0), (100, 3)])
async def test_first_calls_from_many_threads_share_one_pool(
    postgres_server: TemporaryPostgres, postgres_url: str, caller: str, threads: int, children: int
) -> None:
    processes = children or 1
    async with connected(postgres_url) as connection:
        # The server itself refuses one session too many, however short it is.
        await connection.execute(f"ALTER ROLE {caller} CONNECTION LIMIT {processes * SESSIONS}")
        log = ServerLog(postgres_server)
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.cluster.cold_threads"),
            *(postgres_url.replace("://postgres@", f"://{caller}@"), str(POOL_SIZE)),
            *(str(threads), str(children)),
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if "DETENT" not in key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaints = await asyncio.wait_for(program.communicate(), 60)
        assert program.returncode == 0, complaints.decode()
        assert "Traceback" not in complaints.decode(), complaints.decode()
        assert int(said) == threads * processes
        stored = await connection.fetchval("SELECT count(*) FROM detent.detent_ready")
        assert stored == 2 * threads * processes
        assert "too many connections" not in log.text()
