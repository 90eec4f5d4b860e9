"""If this fails, an app on a file works in a script and breaks in a prefork server or a thread."""

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

from tests.cluster.processes import ROOT


async def test_one_app_serves_loops_threads_and_forks(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.cluster.forking", f"sqlite:///{path}"),
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if "DETENT" not in key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await asyncio.wait_for(program.communicate(), 60)
    assert program.returncode == 0, complaints.decode()
    assert complaints.decode() == ""
    connection = sqlite3.connect(path)
    stored = connection.execute("SELECT count(*) FROM detent_ready").fetchone()[0]
    whole = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    assert stored == int(said)
    assert whole == "ok"
    left = await asyncio.to_thread(lambda: sorted(file.name for file in tmp_path.iterdir()))
    assert left == ["jobs.db", "jobs.db-seen"], "nobody believes to be there"
