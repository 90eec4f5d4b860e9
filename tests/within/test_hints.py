"""If these fail, the job of a short script waits for the next poll, up to half a minute.

A real node that polls once an hour runs here; only a wake-up can make it start a job soon.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from detent import App
from detent.config import Config
from tests.cluster.processes import ROOT
from tests.within.conftest import NEVER, declare
from tests.within.scripts import SCRIPTS

# A script may start Python twice, which takes a while where others are at work too.
PATIENCE = 60.0


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[App]:
    """An app whose node has nothing to do but to listen."""
    config = replace(Config.load(url), polling=NEVER)
    async with App(config=config) as app, app.node():
        task = declare(app)
        await (await task.enqueue("warm")).result(timeout=30)
        yield app


@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_job_of_a_script_starts_at_once(postgres_url: str, script: str) -> None:
    # By name: at the end of a process, looking one up is not what it was.
    url = postgres_url.replace("127.0.0.1", "localhost")
    async with listening(url) as node:
        await check(node, url, script)


@pytest.mark.parametrize("script", ["run_one", "stop_the_loop", "blocking", "thread", "fork"])
async def test_the_job_of_a_script_on_sqlite_starts_at_once(tmp_path: Path, script: str) -> None:
    url = f"sqlite:///{tmp_path / 'detent.db'}"
    async with listening(url) as node:
        await check(node, url, script)


async def check(node: App, url: str, script: str) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.within.scripts", script, url),
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if "DETENT" not in key},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        info = await asyncio.wait_for(ended(node), PATIENCE)
        assert info.finished_at - info.enqueued_at < timedelta(seconds=5)
        if not script.endswith(("go_on", "keep_a_loop")):
            await asyncio.wait_for(program.wait(), 20)
            assert program.returncode == 0
    finally:
        if program.returncode is None:
            program.kill()
        _, complaints = await program.communicate()
    if script != "close_the_loop":  # asyncio tells whoever leaves tasks behind in a closed loop
        assert complaints.decode() == ""


async def ended(node: App) -> Any:
    """Return the job that the script enqueued, when it has ended."""
    while True:
        for info in await node.jobs.list(state="succeeded"):
            if b"ada" in info.args:
                return info
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("steps", [0, 1], ids=["stopped at once", "stopped a step later"])
async def test_an_exit_does_not_wait_for_a_database_that_is_gone(steps: int) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", GONE, str(steps)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    said = await asyncio.wait_for(program.stdout.readline(), PATIENCE)
    started = asyncio.get_running_loop().time()
    _, complaints = await asyncio.wait_for(program.communicate(), 20)
    assert (program.returncode, said, complaints) == (0, b"published\n", b"")
    assert asyncio.get_running_loop().time() - started < 10


#: Publishes where nobody answers, from a loop that has stopped and from one that runs.
GONE = """
import asyncio, socket, sys, threading
from detent.spi.notifier import Hint
from detent.stores.postgres import PostgresStore

deaf = socket.create_server(("127.0.0.1", 0))
url = f"postgresql://nobody@127.0.0.1:{deaf.getsockname()[1]}/nowhere"

async def publish(store):
    store.notifier.publish([Hint("default")])
    for _ in range(int(sys.argv[1])):
        await asyncio.sleep(0)

stopped = PostgresStore(url)
asyncio.new_event_loop().run_until_complete(publish(stopped))
running = PostgresStore(url)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(publish(running), loop).result()
print("published", flush=True)
"""


async def test_closing_an_app_tells_the_nodes_first(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    heard: asyncio.Queue[str] = asyncio.Queue()
    await connection.add_listener("detent_wake", lambda *args: heard.put_nowait(args[3]))
    async with App(postgres_url) as app:
        task = declare(app)
        for number in range(3):
            await task.options(queue=f"q{number}").enqueue("ada")
    told = ""
    while "q2" not in told:
        told += await asyncio.wait_for(heard.get(), 5)
    await connection.close()
