"""If this fails, an app works in a script and breaks in a prefork server or a thread."""

import asyncio
import os
import sys

from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected
from tests.cluster.processes import ROOT


async def test_one_app_serves_loops_threads_and_forks(
    postgres_server: TemporaryPostgres, postgres_url: str
) -> None:
    log = ServerLog(postgres_server)
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.cluster.forking", postgres_url),
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if "DETENT" not in key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await asyncio.wait_for(program.communicate(), 60)
    assert program.returncode == 0, complaints.decode()
    # A loop that ends while the driver connects is told of by the driver, in one line.
    assert "Traceback" not in complaints.decode(), complaints.decode()
    async with connected(postgres_url) as connection:
        stored = await connection.fetchval("SELECT count(*) FROM detent.detent_ready")
    assert stored == int(said)
    # Two processes that write to one connection confuse the server sooner or later.
    assert "invalid frontend message" not in log.text()
    assert "protocol" not in log.text()
