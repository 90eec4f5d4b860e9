"""If these fail, a program with a node inside does not end while a blocking job runs."""

import asyncio
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, threading, time
from datetime import timedelta
from detent import App

app = App("memory://")
begun = threading.Event()

@app.task(name="hang")
def hang() -> None:
    begun.set()
    time.sleep(600)

async def main() -> None:
    async with app, app.node(drain_timeout=timedelta(seconds=0.1)):
        await hang.enqueue()
        await asyncio.to_thread(begun.wait)
    print("left", flush=True)

asyncio.run(main())
"""
# The drain, and 5 s for what was told to stop.
LIMIT = 60


async def test_a_program_ends_although_a_blocking_job_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(program)],
        timeout=LIMIT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "left\n"), ran.stderr
