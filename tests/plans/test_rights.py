"""If these fail, Detent asks for more rights in the database than its pages say."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from detent import App
from detent.errors import KeyTaken, StoreError
from detent.spi.store import PendingCompletion
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.migrations import known_migrations, migrate
from detent.testing.conformance.builders import (
    HOUR,
    claim_request,
    idempotent,
    new_job,
    node_identity,
)
from tests.plans.script import execute

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"


@pytest.fixture
def role(empty_postgres_url: str) -> Iterator[str]:
    """A role that may connect, and nothing else."""
    yield from a_role(empty_postgres_url, "worker")


@pytest.fixture
def enqueuer(empty_postgres_url: str) -> Iterator[str]:
    """Another one."""
    yield from a_role(empty_postgres_url, "enqueuer")


def a_role(empty_postgres_url: str, name: str) -> Iterator[str]:
    with closing(psycopg.connect(empty_postgres_url, autocommit=True)) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        yield name
        connection.execute(f"DROP OWNED BY {name} CASCADE")
        connection.execute(f"DROP ROLE {name}")


def grants_of(role: str, count: int) -> str:
    """Return the grants that the page gives to a role."""
    grants = re.findall(rf"^GRANT .* TO {role};$", PAGE.read_text(), re.MULTILINE)
    assert len(grants) == count
    return "\n".join(grants)


def as_role(url: str, role: str) -> str:
    return url.replace("://postgres@", f"://{role}@")


async def test_who_owns_the_schema_need_not_be_able_to_make_one(
    empty_postgres_url: str, role: str
) -> None:
    await execute(empty_postgres_url, f"CREATE SCHEMA detent AUTHORIZATION {role}")
    taken = await migrate(as_role(empty_postgres_url, role))
    assert taken == [step.label for step in known_migrations()]


async def test_nodes_work_with_the_rights_that_the_page_gives(
    empty_postgres_url: str, role: str
) -> None:
    await migrate(empty_postgres_url)
    await execute(empty_postgres_url, grants_of("worker", 3))
    # With nothing to migrate, nobody needs the right to.
    store = PostgresStore(as_role(empty_postgres_url, role), auto_migrate=True)
    await store.open()
    node = node_identity()
    await store.join(node, HOUR)
    await store.enqueue_jobs([new_job()])
    await store.enqueue_keyed(new_job(), idempotent("once"))
    for _ in range(2):
        claims = await store.claim_jobs(claim_request(node.incarnation, limit=1))
        done = PendingCompletion("default")
        async with store.transaction(node.incarnation, claims[0], done) as connection:
            assert await connection.fetchval("SELECT current_user") == role
    assert [queue.pending for queue in await store.queues()] == []
    await store.close()


@pytest.fixture
async def enqueuing(empty_postgres_url: str, enqueuer: str) -> AsyncIterator[App]:
    """An app whose role has exactly the rights that the page gives to one that only enqueues."""
    await migrate(empty_postgres_url)
    await execute(empty_postgres_url, grants_of(enqueuer, 6))
    async with App(as_role(empty_postgres_url, enqueuer)) as app:
        yield app


async def test_a_role_that_may_only_enqueue_can_do_so_in_every_way(
    empty_postgres_url: str, enqueuing: App, enqueuer: str
) -> None:
    @enqueuing.task(name="send")
    async def send(to: str) -> None: ...

    plain = await send.enqueue("ada")
    many = await enqueuing.enqueue_many([send.bind(str(number)) for number in range(3)])
    later = await send.options(delay=timedelta(hours=1), tags=["a"], needs="gpu").enqueue("grace")
    keyed = await send.options(key="order-1").enqueue("ada")
    unique = await send.options(unique="user-1").enqueue("ada")
    both = await send.options(key="order-2", unique="user-2").enqueue("ada")
    assert all(job.created for job in (plain, *many, later, keyed, unique, both))
    # And what finds its key held, or its job known.
    assert (await send.options(key="order-1").enqueue("ada")).id == keyed.id
    with pytest.raises(KeyTaken):
        await send.options(unique="user-1").enqueue("ada")
    same = await send.options(unique="user-1", on_conflict="return").enqueue("ada")
    assert (same.id, same.created) == (unique.id, False)
    again = new_job()
    for _ in range(2):
        await enqueuing.store.enqueue_jobs([again])
        placed = await enqueuing.store.enqueue_keyed(again, idempotent("order-3"))
        assert placed.id == again.id

    url = as_role(empty_postgres_url, enqueuer)
    with closing(psycopg.connect(url)) as connection:
        for key, user in ((None, None), ("order-4", None), (None, "user-4"), (None, "user-1")):
            task = send.options(key=key, unique=user, on_conflict="return", within=connection)
            await asyncio.to_thread(task.enqueue_sync, "ada")
        # What is written before an answer where there are synchronous standbys.
        connection.execute("SELECT pg_logical_emit_message(true, 'detent', ''::text)")
        connection.commit()
    with closing(psycopg.connect(empty_postgres_url)) as connection:
        (stored,) = connection.execute("SELECT count(*) FROM detent.detent_ready").fetchone() or ()
    assert stored == 12


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT args FROM detent.detent_job",
        "SELECT * FROM detent.detent_outcome",
        "DELETE FROM detent.detent_ready",
        "UPDATE detent.detent_job SET args = ''",
        "INSERT INTO detent.detent_outcome (id) VALUES (gen_random_uuid())",
    ],
)
async def test_a_role_that_may_only_enqueue_can_do_nothing_else(
    empty_postgres_url: str, enqueuing: App, enqueuer: str, statement: str
) -> None:
    assert enqueuing.store.connections() > 0, "it was let in"
    url = as_role(empty_postgres_url, enqueuer)
    refused = pytest.raises(psycopg.errors.InsufficientPrivilege)
    with closing(psycopg.connect(url)) as connection, refused:
        connection.execute(statement)


async def test_the_page_says_what_tasks_with_limits_need_beside(
    empty_postgres_url: str, enqueuing: App
) -> None:
    @enqueuing.task(name="limited", concurrency=2)
    async def limited() -> None: ...

    with pytest.raises(StoreError, match="permission denied"):
        await limited.enqueue()
    (more,) = re.findall(r"`(GRANT [^`]* TO\s+enqueuer;)`", PAGE.read_text())
    await execute(empty_postgres_url, more)
    assert (await limited.enqueue()).created
