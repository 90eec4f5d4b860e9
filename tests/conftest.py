"""Without these fixtures every test that needs PostgreSQL would start, fill and clean its own.

One server per test session; one database per test, copied from a template that already has the
schema, so that tests share nothing and cost some tens of milliseconds instead of a migration.
"""

import asyncio
from collections.abc import Iterator
from itertools import count

import asyncpg
import hypothesis
import pytest

from detent.testing.postgres import TemporaryPostgres

TEMPLATE = "detent_template"

# A machine that others use may hold up any example, and what is tried must not depend on the day;
# `--hypothesis-profile=default` tries something else each time.
hypothesis.settings.register_profile(
    "detent",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("detent")

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[TemporaryPostgres]:
    """The session's server; it counts statements (pg_stat_statements) where it can."""
    with TemporaryPostgres(track_statements=True, settings={"max_connections": "200"}) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: TemporaryPostgres) -> str:
    """The name of a database with the migrated schema and nothing in it."""
    _prepare_template(postgres_server.create_database(TEMPLATE))
    return TEMPLATE


@pytest.fixture
def postgres_url(postgres_server: TemporaryPostgres, postgres_template: str) -> Iterator[str]:
    """The URL of a database of this test's own, with the schema."""
    yield from _database(postgres_server, postgres_template)


@pytest.fixture(scope="session")
def _shared_postgres_url(postgres_server: TemporaryPostgres, postgres_template: str) -> str:
    return postgres_server.create_database("shared", postgres_template)


@pytest.fixture
def emptied_postgres_url(_shared_postgres_url: str) -> str:
    """The URL of a database with the schema that other tests used before: a fifth of the time.

    For tests that change no tables, and of which there are many: it is emptied for each.
    """
    asyncio.run(_empty(_shared_postgres_url))
    return _shared_postgres_url


async def _empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        # What the last test left running must not write any more.
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname = 'detent'"
            " AND tablename NOT IN ('detent_schema_version', 'detent_history')"
        )
        await connection.execute("; ".join(f"DELETE FROM {table[0]}" for table in tables))
        await connection.execute(
            "ALTER SEQUENCE detent.detent_fence RESTART;"
            "ALTER SEQUENCE detent.detent_lock_fence RESTART"
        )
    finally:
        await connection.close()


@pytest.fixture
def empty_postgres_url(postgres_server: TemporaryPostgres) -> Iterator[str]:
    """The URL of a database of this test's own, without the schema."""
    yield from _database(postgres_server, None)


def _database(server: TemporaryPostgres, template: str | None) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    yield server.create_database(name, template)
    server.drop_database(name)


def _prepare_template(url: str) -> None:
    # Imported here: tests without a database need no driver and see no broken store.
    from detent.stores.postgres.migrations import migrate

    asyncio.run(migrate(url))
