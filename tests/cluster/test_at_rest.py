"""If these fail, somebody who reads the database, the logs or a webhook reads what is secret.

Jobs carry a word that must not be found: encrypted ones anywhere, others where the rules of
`[redaction]` take it out. Everything is looked through that a run leaves behind.
"""

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from detent import App, BatchItem, Fail, JobCanceled, JobContext, JobFailed, Retry
from detent.alerts import LogAlert, WebhookAlert
from detent.config import Config, EncryptionConfig
from detent.errors import ResultNotStored
from detent.sinks import WebhookSink
from detent.stores.postgres.notifier import channel_of
from tests.receiver import Answer, Receiver, Request

WORD = "M4RKER"
PATIENCE = 30
TWICE = Retry(max_attempts=2, delay=timedelta(0), jitter=False)
DETENT = str(Path(sys.executable).parent / "detent")


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of this test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


async def tables_of(url: str) -> str:
    """Return all rows of all tables as text; bytes as they are."""
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names]
        connection.close()
        return repr(rows)
    server = await asyncpg.connect(url)
    found = await server.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'detent'")
    text = repr([await server.fetch(f"SELECT * FROM detent.{name}") for (name,) in found])
    await server.close()
    return text


@asynccontextmanager
async def overhearing(url: str) -> AsyncIterator[list[str]]:
    """Note what is said with NOTIFY, where there is such a thing."""
    heard: list[str] = []
    if url.startswith("sqlite:"):
        yield heard
        return
    server = await asyncpg.connect(url)
    await server.add_listener(channel_of("detent"), lambda *said: heard.append(str(said[-1])))
    yield heard
    await server.close()


def declare(app: App) -> list[Any]:
    """Declare tasks that have the word in their arguments, results, errors and reasons."""

    @app.task(name="returns", retry=TWICE)
    async def returns(ctx: JobContext, word: str) -> list[Any]:
        return [word, dict(ctx.params)]

    @app.task(name="raises", retry=TWICE)
    def raises(word: str) -> None:
        raise ValueError(f"{word} was refused")

    @app.task(name="fails", retry=TWICE)
    async def fails(word: str) -> None:
        raise Fail(word)

    @app.task(name="cancels", retry=TWICE)
    async def cancels(ctx: JobContext, word: str) -> None:
        raise JobCanceled(ctx.job_id, word)

    @app.task(name="drops", retry=TWICE)
    async def drops(word: str) -> Any:
        return {word: object()}

    @app.task(name="cannot", retry=TWICE, strict_result=True)
    async def cannot(word: str) -> Any:
        return {word: object()}

    @app.task(name="many", retry=TWICE, batch=5)
    async def many(items: list[BatchItem[str]]) -> None:
        raise RuntimeError(items[0].value)

    return [returns, raises, fails, cancels, drops, cannot, many]


async def play(app: App, receiver: Receiver, word: str) -> list[UUID]:
    """Run them all, with all that can be given to a job."""
    tasks = declare(app)
    calls = [task.options(params={"pin": word}).bind(word) for task in tasks]
    calls.append(tasks[0].options(key="order-1", unique="user-1").bind(word))
    calls.append(tasks[0].bind(word * 5_000))
    return await tell_all(app, receiver, calls)


async def tell_all(app: App, receiver: Receiver, calls: list[Any]) -> list[UUID]:
    """Run calls, tell everybody who can be told, and wait until all is told."""
    app.sink("all", WebhookSink(receiver.url))
    app.alerts.to(WebhookAlert(receiver.url))
    app.alerts.to(LogAlert())
    async with app.node():
        jobs = [await app.enqueue(call) for call in calls]
        for job in jobs:
            with suppress(JobFailed, JobCanceled, ResultNotStored):
                await job.result(PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while any(e.parked_at is None for e in await app.outbox.list()):  # noqa: ASYNC110  no signal
                await asyncio.sleep(0.05)
    return [job.id for job in jobs]


def shown(url: str, folder: Path, *arguments: str) -> str:
    """Return what the command says, of an app that has no keys."""
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [DETENT, *arguments],
        env={**environ, "DETENT_URL": url},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_with(word: str, folder: Path) -> list[str]:
    """Return the files that hold a word: tables and indexes, and what was in them before."""
    return [file.name for file in folder.iterdir() if word.encode() in file.read_bytes()]


async def commands(url: str, folder: Path, jobs: list[UUID]) -> str:
    """Return what people see of these jobs, of events and of alerts."""
    wanted = [["jobs", "list"], ["outbox", "list", "--json"], ["alerts", "list", "--json"]]
    wanted += [["jobs", "show", str(job), "--full"] for job in jobs[:2]]
    return "".join([await asyncio.to_thread(shown, url, folder, *each) for each in wanted])


async def test_nothing_of_an_encrypted_job_is_left_anywhere(
    url: str, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = EncryptionConfig(enabled=True, keys={"k1": b"1" * 32})
    config = replace(Config.load(url, environ={}), encryption=keys)
    receiver.answer = lambda request: Answer(400 if b"raises" in request.body else 204)
    with caplog.at_level(logging.DEBUG, "detent"):
        async with overhearing(url) as heard, App(config=config) as app:
            jobs = await play(app, receiver, WORD)
            assert (await app.jobs.get(jobs[0])).args == f'{{"word":"{WORD}"}}'.encode()
    assert WORD not in caplog.text
    assert WORD not in repr(receiver.requests)
    assert WORD not in repr(heard)
    found = await tables_of(url)
    assert "raises" in found
    assert WORD not in found
    assert WORD not in await commands(url, tmp_path, jobs)
    assert not files_with(WORD, tmp_path)
    assert len(receiver.requests) > len(jobs)


async def test_what_the_rules_take_out_of_errors_is_left_nowhere(
    url: str, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = f"postgresql://ada:{WORD}@db/shop password={WORD}"

    def quoting(request: Request) -> Answer:
        return Answer(400, body=secret.encode()) if b"raises" in request.body else Answer()

    receiver.answer = quoting
    with caplog.at_level(logging.DEBUG, "detent"):
        async with overhearing(url) as heard, App(config=Config.load(url, environ={})) as app:

            @app.task(name="raises", retry=TWICE)
            async def raises(ctx: JobContext) -> None:
                ctx.log.error(secret)
                await ctx.progress(0.5, secret)
                raise ConnectionError(secret)

            @app.task(name="cancels")
            async def cancels(ctx: JobContext) -> None:
                raise JobCanceled(ctx.job_id, secret)

            jobs = await tell_all(app, receiver, [raises.bind(), cancels.bind()])
    for where in (caplog.text, repr(receiver.requests), repr(heard), await tables_of(url)):
        assert WORD not in where
    seen = await commands(url, tmp_path, jobs)
    assert WORD not in seen
    assert "postgresql://ada:***@db/shop password=***" in seen
