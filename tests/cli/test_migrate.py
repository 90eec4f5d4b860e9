"""If these fail, a deployment that runs `detent migrate` breaks, or changes what it should not."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from click.testing import Result

Detent = Callable[..., Result]

STEP = "V001 core"


def ask(url: str, query: str) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(ask())


def has_tables(url: str, schema: str = "detent") -> bool:
    return ask(url, f"select to_regclass('{schema}.detent_job') is not null") is True


def test_a_plan_changes_nothing(detent: Detent, empty_postgres_url: str) -> None:
    result = detent("migrate", "--plan", "--url", empty_postgres_url)
    assert result.exit_code == 0
    assert f"pending  {STEP}" in result.stdout.splitlines()
    assert result.stdout.endswith("run: detent migrate\n")
    assert not has_tables(empty_postgres_url)


def test_a_check_fails_until_the_schema_is_there(detent: Detent, empty_postgres_url: str) -> None:
    environ = {"DETENT_URL": empty_postgres_url}
    assert detent("migrate", "--check", **environ).exit_code == 1
    migrated = detent("migrate", **environ)
    assert migrated.exit_code == 0
    assert f"applied  {STEP}" in migrated.stdout.splitlines()
    where = f"The schema 'detent' in {empty_postgres_url}"
    assert migrated.stdout.endswith(f"{where} is ready; next: detent node APP\n")
    assert has_tables(empty_postgres_url)
    checked = detent("migrate", "--check", **environ)
    assert checked.exit_code == 0
    assert checked.stdout == f"{where} is up to date; nothing to do\n"


def test_migrating_again_changes_nothing(detent: Detent, postgres_url: str) -> None:
    result = detent("migrate", "--url", postgres_url)
    where = f"The schema 'detent' in {postgres_url}"
    assert result.stdout == f"{where} was up to date; next: detent node APP\n"


def test_each_schema_is_on_its_own(detent: Detent, postgres_url: str) -> None:
    result = detent("migrate", "--url", postgres_url, "--schema", "second")
    assert result.exit_code == 0
    assert has_tables(postgres_url, "second")


@pytest.mark.parametrize(
    "mode, key", [("--plan", "pending"), ("--check", "pending"), ("", "applied")]
)
def test_programs_get_one_document(
    detent: Detent, empty_postgres_url: str, mode: str, key: str
) -> None:
    modes = [mode] if mode else []
    result = detent("migrate", *modes, "--json", "--url", empty_postgres_url)
    document = json.loads(result.stdout)
    assert document["schema"] == "detent"
    assert STEP in document[key]


def test_the_script_builds_what_migrate_builds(detent: Detent, empty_postgres_url: str) -> None:
    script = detent(
        "migrate", "--sql", "--url", "postgresql://nowhere", "--schema", "by_hand"
    ).stdout

    async def execute() -> None:
        connection = await asyncpg.connect(empty_postgres_url)
        await connection.execute(script)
        await connection.close()

    asyncio.run(execute())
    checked = detent("migrate", "--check", "--url", empty_postgres_url, "--schema", "by_hand")
    assert checked.exit_code == 0


@pytest.mark.parametrize("url", ["postgresql://nowhere", "sqlite:///nowhere.db"])
def test_the_script_needs_no_database(detent: Detent, tmp_path: Path, url: str) -> None:
    document = json.loads(detent("migrate", "--sql", "--json", "--url", url).stdout)
    assert "detent_job" in document["sql"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_migrated_like_a_server(detent: Detent, tmp_path: Path) -> None:
    planned = detent("migrate", "--plan")
    assert "pending  V001" in planned.stdout
    assert detent("migrate", "--check").exit_code == 1
    assert list(tmp_path.iterdir()) == []
    assert "applied  V001" in detent("migrate").stdout
    assert detent("migrate", "--check").exit_code == 0
    assert detent("jobs").exit_code == 0


def test_a_database_newer_than_this_version_is_left_alone(
    detent: Detent, postgres_url: str
) -> None:
    ask(
        postgres_url,
        "insert into detent.detent_schema_version (version, name, checksum) values (999, 'x', 'y')",
    )
    result = detent("migrate", "--url", postgres_url)
    assert result.exit_code == 1
    assert "the database has schema version 999" in result.stderr
    assert len(result.stderr.splitlines()) == 1
