"""If these fail, somebody who reads the database reads what was encrypted, or people cannot."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest

from detent import App, JobContext, JobFailed, Retry, State, acting_as
from detent.config import Config, EncryptionConfig, RetentionConfig
from tests.cluster.database import until
from tests.cluster.sealed_tasks import in_child

SECRET = "4111-1111-1111-1111"
KEY = b"1" * 32
PATIENCE = 30
DETENT = str(Path(sys.executable).parent / "detent")


@pytest.fixture
def config(postgres_url: str) -> Config:
    config = Config.load(postgres_url, environ={})
    return replace(config, encryption=EncryptionConfig(enabled=True, keys={"k1": KEY}))


@pytest.fixture
async def app(config: Config) -> AsyncIterator[App]:
    async with App(config=config) as app:
        yield app


def declare(app: App) -> Any:
    @app.task(name="pay", retry=Retry(max_attempts=2, delay=timedelta(0), jitter=False))
    async def pay(ctx: JobContext, card: str, fails: int = 0) -> str:
        if ctx.attempt <= fails:
            raise ValueError(f"{card} was refused ({ctx.params})")
        return f"charged {card}"

    return pay


async def everything(url: str) -> str:
    """Return all rows of all tables as text; bytes as they are, and as hexadecimal digits."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'detent'"
        )
        rows: list[Any] = []
        for (table,) in tables:
            rows += [
                (table, *row) for row in await connection.fetch(f"SELECT * FROM detent.{table}")
            ]
    finally:
        await connection.close()
    assert {row[0] for row in rows} & {"detent_job", "detent_archive"}
    return "\n".join(map(repr, rows))


async def test_no_table_holds_anything_of_it_in_the_clear(postgres_url: str, app: App) -> None:
    pay = declare(app)
    async with app.node():
        params = {"pin": f"pin {SECRET}"}
        paid = await pay.options(params=params).enqueue(SECRET, fails=1)
        dead = await pay.options(params=params).enqueue(SECRET, fails=9)
        assert await paid.result(PATIENCE) == f"charged {SECRET}"
        with pytest.raises(JobFailed, match=f"{SECRET} was refused"):
            await dead.result(PATIENCE)
    found = await everything(postgres_url)
    assert SECRET not in found
    assert SECRET.encode().hex() not in found
    assert "was refused" not in found
    shown = await app.jobs.get(dead.id)
    assert json.loads(shown.args) == {"card": SECRET, "fails": 9}
    assert SECRET in json.loads(shown.error or b"")["message"]


async def test_a_child_process_gets_values_and_no_keys(postgres_url: str, app: App) -> None:
    task = app.task(name="in_child", executor="process")(in_child.function)
    async with app.node():
        with acting_as("ada"):
            job = await task.options(params={"pin": SECRET}).enqueue(SECRET)
        assert await job.result(PATIENCE) == [SECRET, {"pin": SECRET}, "ada", 0]
    assert SECRET not in await everything(postgres_url)


async def test_a_job_enqueued_within_a_transaction_is_encrypted(
    postgres_url: str, app: App
) -> None:
    pay = declare(app)

    def blocking() -> Any:
        with psycopg.connect(postgres_url) as connection:
            return pay.options(within=connection).enqueue_sync(SECRET)

    first = await asyncio.to_thread(blocking)
    # And on the very thread of an event loop, where nothing may be waited for.
    old = psycopg2.connect(postgres_url)
    second = pay.options(within=old).enqueue_sync(SECRET)
    old.commit()
    old.close()
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        third = await pay.options(within=connection).enqueue(SECRET)
    await connection.close()
    assert SECRET not in await everything(postgres_url)
    async with app.node():
        for job in (first, second, third):
            assert await job.result(PATIENCE) == f"charged {SECRET}"


async def test_an_archived_job_stays_encrypted_and_can_be_opened(
    postgres_url: str, config: Config
) -> None:
    rules: dict[str, Any] = {"succeeded": "1ms archive", "interval": "50ms"}
    async with App(config=replace(config, retention=RetentionConfig(**rules))) as app:
        pay = declare(app)
        async with app.node():
            job = await pay.enqueue(SECRET)

            async def archived() -> bool:
                return bool(await app.jobs.list(archived=True))

            await until(archived, "it to be archived")
        shown = await app.jobs.get(job.id)
        assert shown.archived_at is not None
        assert json.loads(shown.result or b"") == f"charged {SECRET}"
    assert SECRET not in await everything(postgres_url)


async def test_the_command_shows_a_job_with_keys_and_without(
    postgres_url: str, app: App, tmp_path: Path
) -> None:
    pay = declare(app)
    async with app.node():
        with acting_as("ada"):
            job = await pay.enqueue(SECRET, fails=1)
            dead = await pay.enqueue(SECRET, fails=9)
        await job.result(PATIENCE)
        with pytest.raises(JobFailed):
            await dead.result(PATIENCE)
    assert (await app.jobs.get(dead.id)).state is State.FAILED
    keys = f"k1:{base64.b64encode(KEY).decode()}"
    for arguments in ([str(job.id)], [str(dead.id), "--full"], [str(job.id), "--json"]):
        closed = await asyncio.to_thread(show, postgres_url, tmp_path, arguments)
        assert "<encrypted with key k1>" in closed
        assert SECRET not in closed
        opened = await asyncio.to_thread(show, postgres_url, tmp_path, arguments, keys)
        assert SECRET in opened
        assert "<encrypted" not in opened
        hidden = await asyncio.to_thread(show, postgres_url, tmp_path, arguments, keys, "card")
        assert json.dumps({"card": SECRET})[1:-1] not in hidden
        for said in (closed, opened, hidden):
            assert "ada" in said


def show(
    url: str, folder: Path, arguments: list[str], keys: str | None = None, fields: str = ""
) -> str:
    """Return what the command says."""
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    environ |= {"DETENT_URL": url, "DETENT_REDACTION_FIELDS": fields}
    if keys is not None:
        environ["DETENT_ENCRYPTION_KEYS"] = keys
    done = subprocess.run(
        [DETENT, "jobs", "show", *arguments],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
