"""If these fail, a node that somebody deployed does not start, does not stop, or loses work.

Each test starts `detent node` as the real process that a supervisor would start.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from detent import App, JobInfo, State

T = TypeVar("T")

PATIENCE = 30.0

JOBS = """
import asyncio, os, time
from pathlib import Path
from detent import App

app = App()

@app.task(name="touch")
async def touch(path: str) -> None:
    Path(path).touch()

@app.task(name="work")
async def work(path: str, seconds: float) -> None:
    Path(path).touch()
    await asyncio.sleep(seconds)

@app.task(name="block")
def block(path: str, seconds: float) -> None:
    Path(path).touch()
    time.sleep(seconds)
"""


class NodeProcess:
    """A running `detent node`, and what it says."""

    def __init__(self, home: Path, url: str, *options: str, **environ: str) -> None:
        self.log = home / "stderr.txt"
        self.log.touch()
        inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
        with self.log.open("w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "detent", "node", "shop_jobs:app", *options],
                cwd=home,
                env=inherited | {"DETENT_URL": url} | environ,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.said(), lambda: f"{text!r} in: {self.said()}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end and return its exit code."""
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


Start = Callable[..., NodeProcess]


def wait_until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    ends_at = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > ends_at:
            pytest.fail(f"waited {PATIENCE} s for {what()}")
        time.sleep(0.02)


def wait_for_file(path: Path) -> None:
    wait_until(path.exists, lambda: f"the file {path}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start nodes that end with the test."""
    (tmp_path / "shop_jobs.py").write_text(JOBS)
    nodes: list[NodeProcess] = []

    def start(url: str, *options: str, **environ: str) -> NodeProcess:
        nodes.append(NodeProcess(tmp_path, url, *options, **environ))
        return nodes[-1]

    yield start
    for node in nodes:
        node.close()


class Outside:
    """Another program that knows the same tasks: it enqueues and looks, and runs nothing."""

    def __init__(self, url: str) -> None:
        self._url = url

    def enqueue(
        self, task: str, path: Path, seconds: float | None = None, queue: str = "default"
    ) -> UUID:
        async def enqueue(app: App) -> UUID:
            def never(path: str, seconds: float = 0.0) -> None:
                raise AssertionError("this program runs nothing")

            call = app.task(name=task)(never).options(queue=queue)
            given = {} if seconds is None else {"seconds": seconds}
            job = await call.enqueue(str(path), **given)
            found: UUID = job.id
            return found

        return self._run(enqueue)

    def job(self, job_id: UUID) -> JobInfo:
        return self._run(lambda app: app.jobs.get(job_id))

    def nodes(self) -> list[str]:
        async def nodes(app: App) -> list[str]:
            return [node.name for node in await app.store.nodes()]

        return self._run(nodes)

    def _run(self, work: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            async with App(self._url) as app:
                return await work(app)

        return asyncio.run(run())


@pytest.fixture
def outside(postgres_url: str) -> Outside:
    return Outside(postgres_url)


def test_a_node_runs_jobs_until_it_is_told_to_stop(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path
) -> None:
    node = start(postgres_url, "--name", "web-1", "--queues", "mail=2,default=5")
    node.wait_for("taking jobs from mail (2), default (5)")
    assert outside.nodes() == ["web-1"]
    jobs = [
        outside.enqueue("touch", tmp_path / "mail", queue="mail"),
        outside.enqueue("touch", tmp_path / "default"),
    ]
    wait_for_file(tmp_path / "mail")
    wait_for_file(tmp_path / "default")
    node.signal()
    assert node.ended() == 0
    assert [outside.job(job).state for job in jobs] == [State.SUCCEEDED, State.SUCCEEDED]
    assert outside.nodes() == []
    assert "Traceback" not in node.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_end(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    node = start(postgres_url)
    job = outside.enqueue("work", tmp_path / "begun", 1.0)
    wait_for_file(tmp_path / "begun")
    node.signal(number)
    node.wait_for("draining")
    assert node.ended() == 0
    assert outside.job(job).state is State.SUCCEEDED


def test_the_second_signal_gives_running_jobs_back(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path
) -> None:
    node = start(postgres_url)
    job = outside.enqueue("work", tmp_path / "begun", 600.0)
    wait_for_file(tmp_path / "begun")
    node.signal()
    node.wait_for("draining")
    node.signal()
    assert node.ended() == 0
    assert outside.job(job).state is State.PENDING
    assert outside.job(job).attempt == 1


def test_the_drain_timeout_gives_running_jobs_back(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path
) -> None:
    node = start(postgres_url, "--drain-timeout", "200ms")
    job = outside.enqueue("work", tmp_path / "begun", 600.0)
    wait_for_file(tmp_path / "begun")
    node.signal()
    assert node.ended() == 0
    assert outside.job(job).state is State.PENDING


def test_a_thread_that_does_not_end_cannot_keep_the_process(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path
) -> None:
    node = start(postgres_url, "--drain-timeout", "200ms")
    job = outside.enqueue("block", tmp_path / "begun", 600.0)
    wait_for_file(tmp_path / "begun")
    node.signal()
    assert node.ended() == 0
    assert outside.job(job).state is State.PENDING
    assert "Traceback" not in node.said()


def test_a_database_without_the_schema_says_what_to_run(
    start: Start, empty_postgres_url: str
) -> None:
    node = start(empty_postgres_url)
    assert node.ended() == 1
    assert node.said() == (
        "detent: error: the database has no Detent schema; run: detent migrate\n"
    )


def test_a_database_that_cannot_be_reached_is_one_line(start: Start) -> None:
    node = start("postgresql://ada:s3cret@127.0.0.1:1/jobs")
    assert node.ended() == 1
    (line,) = node.said().splitlines()
    assert line.startswith("detent: error: the database cannot be reached: ")
    assert "s3cret" not in line


def test_the_option_beats_the_url_of_the_app(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path
) -> None:
    node = start("postgresql://127.0.0.1:1/jobs", "--url", postgres_url)
    outside.enqueue("touch", tmp_path / "touched")
    wait_for_file(tmp_path / "touched")
    node.signal()
    assert node.ended() == 0


def test_every_job_is_told_of_when_somebody_debugs(
    start: Start, outside: Outside, postgres_url: str, tmp_path: Path
) -> None:
    node = start(postgres_url, "--log-level", "debug")
    job = outside.enqueue("touch", tmp_path / "a secret path")
    node.wait_for(f"job {job} (touch) succeeded in attempt 1")
    assert "a secret path" not in node.said()


def test_the_logging_of_the_application_is_kept(
    start: Start, postgres_url: str, tmp_path: Path
) -> None:
    own = "import logging\nlogging.basicConfig(format='MINE %(message)s')\n"
    (tmp_path / "shop_jobs.py").write_text(own + JOBS)
    node = start(postgres_url)
    node.wait_for("started; taking jobs")
    assert node.said().startswith("MINE node ")
