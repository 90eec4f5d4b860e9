"""If these fail, `enqueue_sync` works in a script and breaks in a server, a thread or a fork."""

import asyncio
import json
import os
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from detent import App, WrongThread
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected
from tests.cluster.processes import ROOT
from tests.within.conftest import Shop, declare, on_a_thread

WORKERS = 2
PATIENCE = 30.0


@contextmanager
def gunicorn(url: str, log: Path, *options: str) -> Iterator[str]:
    """A server with two workers; the address it answers at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"fd://{listening.fileno()}"
        with log.open("w") as stderr:
            server = Popen(
                [
                    *(sys.executable, "-m", "gunicorn", "tests.within.web:application"),
                    *("--workers", str(WORKERS), "--bind", address, *options),
                ],
                cwd=ROOT,
                env=os.environ | {"DETENT_URL": url},
                stderr=stderr,
                pass_fds=[listening.fileno()],
            )
        try:
            # It listens already: the first request waits until somebody can answer it.
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.terminate()
            code = server.wait(PATIENCE)
    assert code == 0, log.read_text()


@pytest.mark.parametrize("preload", [True, False])
async def test_every_worker_of_a_server_enqueues(
    postgres_server: TemporaryPostgres, postgres_url: str, tmp_path: Path, preload: bool
) -> None:
    complaints = ServerLog(postgres_server)
    log = tmp_path / "gunicorn.log"

    def visit() -> set[str]:
        ids: set[str] = set()
        workers: set[int] = set()
        with gunicorn(postgres_url, log, *(["--preload"] if preload else [])) as address:
            while len(workers) < WORKERS or len(ids) < 40:
                with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                    worker, *made = json.load(answer)
                workers.add(worker)
                ids.update(made)
        return ids

    ids = await asyncio.wait_for(on_a_thread(visit), 2 * PATIENCE)
    async with connected(postgres_url) as connection:
        rows = await connection.fetch("SELECT id, args FROM detent.detent_job")
    stored = {str(row["id"]) for row in rows if b"request" in row["args"]}
    assert stored == ids
    starts = len([row for row in rows if b"start" in row["args"]])
    assert starts == (2 if preload else 2 * WORKERS)
    assert "Traceback" not in log.read_text(), log.read_text()
    # Two processes that write to one connection confuse the server sooner or later.
    assert "protocol" not in complaints.text()
    assert "invalid frontend message" not in complaints.text()


def test_a_hundred_threads_enqueue_at_once(postgres_url: str) -> None:
    app = App(postgres_url)
    task = declare(app)
    jobs: list[Any] = []
    ready = threading.Barrier(100)

    def run(number: int) -> None:
        ready.wait(PATIENCE)
        jobs.append(task.enqueue_sync(str(number)))
        jobs.append(task.options(unique=f"u{number % 10}", on_conflict="return").enqueue_sync("u"))
        jobs.extend(app.enqueue_many_sync([task.bind(str(number))] * 3))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(jobs) == 500
    made = {job.id for job in jobs}
    assert len(made) == 100 + 10 + 300

    async def stored() -> set[Any]:
        async with connected(postgres_url) as connection:
            rows = await connection.fetch("SELECT id FROM detent.detent_job")
        return {row["id"] for row in rows}

    assert asyncio.run(stored()) == made


async def test_blocking_calls_on_a_running_loop_are_refused(shop: Shop) -> None:
    with pytest.raises(WrongThread, match="awaitable form"):
        shop.send.enqueue_sync("ada")
    with pytest.raises(WrongThread, match="awaitable form"):
        shop.app.enqueue_many_sync([shop.send.bind("ada")])
    assert await shop.ids() == []
