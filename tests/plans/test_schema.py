"""If these fail, a clean install and an upgraded one are two different databases."""

from importlib.resources import files

import pytest

import detent.stores.postgres
from detent.stores.postgres.migrations import migrate, migration_sql
from detent.stores.postgres.statements import qualify
from tests.plans.catalogue import catalogue, without
from tests.plans.script import execute

RECORD = "detent_schema_version"


async def test_the_catalogue_sees_what_matters(postgres_url: str) -> None:
    """A comparison that sees nothing would find everything equal."""
    before = await catalogue(postgres_url)
    for change in (
        "ALTER TABLE detent.detent_ready SET (autovacuum_vacuum_scale_factor = 0.5)",
        "ALTER TABLE detent.detent_ready ALTER COLUMN attempt SET DEFAULT 2",
        "ALTER TABLE detent.detent_ready ALTER COLUMN lane DROP NOT NULL",
        "ALTER TABLE detent.detent_key DROP CONSTRAINT detent_key_pkey",
        "ALTER SEQUENCE detent.detent_fence CACHE 10",
        "DROP INDEX detent.detent_parked_waits_for",
        "DROP VIEW detent.detent_jobs",
    ):
        await execute(postgres_url, change)
        after = await catalogue(postgres_url)
        assert after != before, change
        before = after


async def test_schema_sql_is_the_migrations_composed(
    postgres_url: str, empty_postgres_url: str
) -> None:
    script = files(detent.stores.postgres).joinpath("schema.sql").read_text(encoding="utf-8")
    await execute(empty_postgres_url, "CREATE SCHEMA detent")
    await execute(empty_postgres_url, script)
    migrated = without(await catalogue(postgres_url), RECORD)
    assert await catalogue(empty_postgres_url) == migrated


async def test_other_tools_can_run_the_migrations(
    postgres_url: str, empty_postgres_url: str
) -> None:
    await execute(empty_postgres_url, migration_sql())
    assert await catalogue(empty_postgres_url) == await catalogue(postgres_url)
    assert await migrate(empty_postgres_url) == []


async def test_a_schema_of_another_name_is_the_same(postgres_url: str) -> None:
    await migrate(postgres_url, "other")
    assert await catalogue(postgres_url, "other") == await catalogue(postgres_url)


@pytest.mark.parametrize("statement", ["migrations", "schema"])
async def test_a_script_names_its_schema_everywhere(
    empty_postgres_url: str, statement: str
) -> None:
    """Otherwise something would land in whatever schema comes first on somebody's search path."""
    if statement == "migrations":
        script = migration_sql("other")
    else:
        text = files(detent.stores.postgres).joinpath("schema.sql").read_text(encoding="utf-8")
        script = 'CREATE SCHEMA "other";\n' + qualify(text, "other")
    await execute(empty_postgres_url, script)
    for schema in ("public", "detent"):
        await execute(empty_postgres_url, f"CREATE SCHEMA IF NOT EXISTS {schema}")
        found = await catalogue(empty_postgres_url, schema)
        assert not any(found.values()), found
