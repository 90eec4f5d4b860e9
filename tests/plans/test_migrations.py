"""If these fail, a deployment that is interrupted or runs twice leaves a broken database behind."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from detent.errors import SchemaMismatch
from detent.model.job import JobFilter, Keys, Placed
from detent.stores.postgres import PostgresStore, migrations
from detent.stores.postgres.migrations import known_migrations, migrate, pending
from detent.stores.postgres.notifier import channel_of
from detent.testing.conformance.builders import claim_request, new_job, node_identity
from tests.cluster.database import connected
from tests.plans.catalogue import catalogue
from tests.plans.script import execute

PATIENCE = 30.0


async def opened(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.open()
    finally:
        await store.close()


async def test_several_may_migrate_at_once(postgres_url: str, empty_postgres_url: str) -> None:
    taken = await asyncio.gather(*(migrate(empty_postgres_url) for _ in range(8)))
    everything = [step.label for step in known_migrations()]
    assert sorted(step for steps in taken for step in steps) == everything
    assert await catalogue(empty_postgres_url) == await catalogue(postgres_url)


async def test_a_schema_in_use_takes_the_steps_one_version_at_a_time(
    postgres_url: str, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = known_migrations()
    for count in range(1, len(everything) + 1):
        monkeypatch.setattr(migrations, "known_migrations", lambda: everything[:count])  # noqa: B023
        assert await migrate(empty_postgres_url) == [everything[count - 1].label]
    assert await catalogue(empty_postgres_url) == await catalogue(postgres_url)


async def test_one_killed_half_way_is_run_again(postgres_url: str, empty_postgres_url: str) -> None:
    await execute(empty_postgres_url, "CREATE SCHEMA detent")
    async with connected(empty_postgres_url) as other, connected(empty_postgres_url) as watcher:
        # A table of the same name that is not committed yet stops the first step in its middle.
        async with undone(other):
            await other.execute("CREATE TABLE detent.detent_key ()")
            async with migrating(empty_postgres_url):
                await until(watcher, "bool_or(wait_event_type = 'Lock')")
        # We two alone: the server has noticed the death of the migrator, and undone its work.
        await until(watcher, "count(*) FILTER (WHERE client_port IS NOT NULL) = 2")
    assert await pending(empty_postgres_url) == [step.label for step in known_migrations()]
    with pytest.raises(SchemaMismatch, match="run: detent migrate"):
        await opened(empty_postgres_url)
    assert await migrate(empty_postgres_url) == [step.label for step in known_migrations()]
    assert await catalogue(empty_postgres_url) == await catalogue(postgres_url)


@asynccontextmanager
async def undone(connection: Any) -> AsyncIterator[None]:
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


@asynccontextmanager
async def migrating(url: str) -> AsyncIterator[None]:
    """Run the command in a process of its own, and kill it."""
    command = (sys.executable, "-m", "detent", "migrate", "--url", url)
    inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    migrator = await asyncio.create_subprocess_exec(*command, env=inherited)
    try:
        yield
        assert migrator.returncode is None, "it was to be killed while it worked"
    finally:
        if migrator.returncode is None:
            migrator.kill()
        await migrator.wait()


async def until(watcher: Any, condition: str) -> None:
    """Wait until something is true of the sessions of this database."""
    query = f"SELECT {condition} FROM pg_stat_activity WHERE datname = current_database()"
    async with asyncio.timeout(PATIENCE):
        while not await watcher.fetchval(query):  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.02)


async def test_a_step_that_was_changed_afterwards_is_refused(postgres_url: str) -> None:
    await execute(
        postgres_url,
        "UPDATE detent.detent_schema_version SET checksum = 'another' WHERE version = 1",
    )
    for refused in (migrate, pending, opened):
        with pytest.raises(
            SchemaMismatch, match="V001 core in the database is not the one in this"
        ):
            await refused(postgres_url)


async def test_a_newer_database_is_refused(postgres_url: str) -> None:
    await execute(
        postgres_url,
        "INSERT INTO detent.detent_schema_version (version, name, checksum)"
        " VALUES (999, 'future', 'unknown')",
    )
    for refused in (migrate, pending, opened):
        with pytest.raises(SchemaMismatch, match=r"version 999.*upgrade the package: pip install"):
            await refused(postgres_url)


async def test_an_older_database_is_refused(postgres_url: str) -> None:
    await execute(postgres_url, "DELETE FROM detent.detent_schema_version")
    with pytest.raises(SchemaMismatch, match="run: detent migrate"):
        await opened(postgres_url)


async def test_who_is_refused_is_told_a_command_for_this_database(empty_postgres_url: str) -> None:
    url = empty_postgres_url.replace("postgres@", "postgres:secret@")
    store = PostgresStore(url, schema="other")
    shown = url.replace("secret", "***")
    command = rf"run: detent migrate --url '{re.escape(shown)}' --schema other$"
    with pytest.raises(SchemaMismatch, match=command):
        await store.open()
    await store.close()


async def test_schedulers_in_one_database_do_not_see_each_other(postgres_url: str) -> None:
    await migrate(postgres_url, "other")
    here, there = PostgresStore(postgres_url), PostgresStore(postgres_url, schema="other")
    node = node_identity()
    for store in (here, there):
        await store.open()
        await store.join(node, timedelta(minutes=1))
    mine, theirs = new_job(), new_job()
    await here.enqueue_jobs([mine])
    await there.enqueue_jobs([theirs])
    for store, job in ((here, mine), (there, theirs)):
        assert [found.id for found in await store.list_jobs(JobFilter(), 10)] == [job.id]
        assert [position.id for position in await store.look(["default"])] == [job.id]
    await there.pause_queue("default")
    assert await there.claim_jobs(claim_request(node.incarnation)) == []
    claims = await here.claim_jobs(claim_request(node.incarnation))
    assert [claim.id for claim in claims] == [mine.id]
    assert channel_of("one_schema") != channel_of("another")
    for store in (here, there):
        await store.close()


async def test_keys_that_were_there_belong_to_the_tasks_of_their_jobs(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = known_migrations()
    before = [step.name for step in steps].index("scoped_keys")
    monkeypatch.setattr(migrations, "known_migrations", lambda: steps[:before])
    await migrate(empty_postgres_url)
    job, lost = new_job(task="shop.mail"), new_job()
    await execute(
        empty_postgres_url,
        f"""
        INSERT INTO detent.detent_job
            (id, task, queue, lane, priority, due_at, enqueued_at, args, codec, idempotency_key)
        VALUES ('{job.id}', 'shop.mail', 'default', 'default', 2, now(), now(), '1', 'json', '42');
        INSERT INTO detent.detent_key (kind, key, job, expires_at) VALUES
            ('idempotency', '42', '{job.id}', now() + interval '1 hour'),
            ('idempotency', '43', '{lost.id}', now() + interval '1 hour');
        """,
    )
    monkeypatch.undo()
    await migrate(empty_postgres_url)
    store = PostgresStore(empty_postgres_url)
    try:
        again = await store.enqueue_keyed(new_job(task="shop.mail"), Keys(idempotency="42"))
        assert again == Placed(job.id, created=False)
        assert (await store.enqueue_keyed(new_job(task="shop.other"), Keys("42"))).created
    finally:
        await store.close()
