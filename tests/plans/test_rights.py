"""If these fail, Detent asks for more rights in the database than its pages say."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

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
    name = "worker"
    with closing(psycopg.connect(empty_postgres_url, autocommit=True)) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        yield name
        connection.execute(f"DROP OWNED BY {name} CASCADE")
        connection.execute(f"DROP ROLE {name}")


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
    grants = re.findall(r"^GRANT .*;$", PAGE.read_text(), re.MULTILINE)
    assert len(grants) == 3
    await execute(empty_postgres_url, "\n".join(grants))
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
