"""If these fail, a node that somebody deployed does not start, does not stop, or loses work.

Each test starts `detent node` as the real process that a supervisor would start.
"""

import asyncio
import re
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from detent import App, JobInfo, State
from tests.node_process import Start, launching

T = TypeVar("T")

JOBS = """
import asyncio, sys, threading
from detent import App

app = App()
draining = asyncio.Event()
app.on_drain(draining.set)

def tell(word):
    print(f"job says {word}", file=sys.stderr, flush=True)

@app.task(name="quick")
async def quick(word: str) -> None:
    tell(word)

@app.task(name="until_drain")
async def until_drain(word: str) -> None:
    tell(word)
    await draining.wait()

@app.task(name="for_ever")
async def for_ever(word: str) -> None:
    tell(word)
    await asyncio.Event().wait()

@app.task(name="block")
def block(word: str) -> None:
    tell(word)
    threading.Event().wait()

@app.task(name="deaf")
async def deaf(word: str) -> None:
    tell(word)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@app.task(name="away")
async def away(word: str) -> None:
    tell(word)
    await asyncio.to_thread(threading.Event().wait)

@app.task(name="silent")
async def silent(word: str) -> None:
    pass
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start nodes that end with the test."""
    (tmp_path / "shop_jobs.py").write_text(JOBS)
    with launching("shop_jobs:app", tmp_path) as start:
        yield start


class Outside:
    """Another program that knows the same tasks: it enqueues and looks, and runs nothing."""

    def __init__(self, url: str) -> None:
        self._url = url

    def enqueue(self, task: str, word: str, queue: str = "default") -> UUID:
        async def enqueue(app: App) -> UUID:
            def never(word: str) -> None:
                raise AssertionError("this program runs nothing")

            job = await app.task(name=task)(never).options(queue=queue).enqueue(word)
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
    start: Start, outside: Outside, postgres_url: str
) -> None:
    node = start(postgres_url, "--name", "web-1", "--queues", "mail=2,default=5")
    node.wait_for("taking jobs from mail (2), default (5)")
    assert outside.nodes() == ["web-1"]
    jobs = [
        outside.enqueue("quick", "mail", queue="mail"),
        outside.enqueue("quick", "default"),
    ]
    node.wait_for("job says mail")
    node.wait_for("job says default")
    node.signal()
    assert node.ended() == 0
    assert [outside.job(job).state for job in jobs] == [State.SUCCEEDED, State.SUCCEEDED]
    assert outside.nodes() == []
    assert "Traceback" not in node.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_end(
    start: Start, outside: Outside, postgres_url: str, number: signal.Signals
) -> None:
    node = start(postgres_url)
    job = outside.enqueue("until_drain", "begun")
    node.wait_for("job says begun")
    node.signal(number)
    node.wait_for("draining")
    assert node.ended() == 0
    assert outside.job(job).state is State.SUCCEEDED


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_node_that_is_still_importing_the_application_leaves_when_told(
    start: Start, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The first process of a container is only given the signals that it handles."""
    slow = "import sys, threading\nprint('importing', file=sys.stderr, flush=True)\n"
    (tmp_path / "shop_jobs.py").write_text(slow + "threading.Event().wait()\n")
    node = start("memory://", *options)
    node.wait_for("importing")
    node.signal()
    assert node.ended() == 0
    assert node.said() == "importing\n"


def test_the_second_signal_gives_running_jobs_back(
    start: Start, outside: Outside, postgres_url: str
) -> None:
    node = start(postgres_url)
    job = outside.enqueue("for_ever", "begun")
    node.wait_for("job says begun")
    node.signal()
    node.wait_for("draining")
    node.signal()
    assert node.ended() == 0
    assert outside.job(job).state is State.PENDING
    assert outside.job(job).attempt == 1


def test_the_drain_timeout_gives_running_jobs_back(
    start: Start, outside: Outside, postgres_url: str
) -> None:
    node = start(postgres_url, "--drain-timeout", "200ms")
    job = outside.enqueue("for_ever", "begun")
    node.wait_for("job says begun")
    node.signal()
    assert node.ended() == 0
    assert outside.job(job).state is State.PENDING


@pytest.mark.parametrize("task", ["block", "deaf", "away"])
def test_what_does_not_end_cannot_keep_the_process(
    start: Start, outside: Outside, postgres_url: str, task: str
) -> None:
    """A thread, one that is not to be canceled, and a thread of asyncio's own."""
    node = start(postgres_url, "--drain-timeout", "200ms")
    job = outside.enqueue(task, "begun")
    node.wait_for("job says begun")
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
        "detent: error: the database has no Detent schema; "
        f"run: detent migrate --url {empty_postgres_url}\n"
    )


def test_a_database_that_cannot_be_reached_is_one_line(start: Start) -> None:
    node = start("postgresql://ada:s3cret@127.0.0.1:1/jobs")
    assert node.ended() == 1
    (line,) = node.said().splitlines()
    assert line.startswith("detent: error: the database cannot be reached: ")
    assert "s3cret" not in line


def test_the_option_beats_the_url_of_the_app(
    start: Start, outside: Outside, postgres_url: str
) -> None:
    node = start("postgresql://127.0.0.1:1/jobs", "--url", postgres_url)
    outside.enqueue("quick", "touched")
    node.wait_for("job says touched")
    node.signal()
    assert node.ended() == 0


def test_every_job_is_told_of_when_somebody_debugs(
    start: Start, outside: Outside, postgres_url: str
) -> None:
    node = start(postgres_url, "--log-level", "debug")
    job = outside.enqueue("silent", "a secret word")
    node.wait_for(f"job {job} (silent) succeeded in attempt 1")
    assert "a secret word" not in node.said()


def test_the_logging_of_the_application_is_kept(
    start: Start, postgres_url: str, tmp_path: Path
) -> None:
    own = "import logging\nlogging.basicConfig(format='MINE %(message)s')\n"
    (tmp_path / "shop_jobs.py").write_text(own + JOBS)
    node = start(postgres_url)
    node.wait_for("started; taking jobs")
    assert node.said().startswith("MINE node ")


def test_a_child_that_dies_again_and_again_is_replaced_later_and_later(
    start: Start, postgres_url: str, tmp_path: Path
) -> None:
    dying = "import os\nif 'DETENT_LIFELINE' in os.environ:\n    os._exit(3)\n"
    (tmp_path / "shop_jobs.py").write_text(dying + JOBS)
    parent = start(postgres_url, "--processes", "1", "--name", "web")

    def pauses() -> list[float]:
        line = r"node web-1 ended with code 3; starting another in ([\d.]+) s"
        return [float(pause) for pause in re.findall(line, parent.said())]

    parent.wait(lambda: len(pauses()) >= 3, "three deaths")
    for pause, longest in zip(pauses()[:3], (0.5, 1.0, 2.0), strict=True):
        assert 0.8 * longest - 0.05 <= pause <= longest
    parent.signal()
    assert parent.ended() == 0, "it does not wait for the next"
