"""If these fail, measuring a database leaves something behind in it, or cannot be read."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import asyncpg
from click.testing import Result

Detent = Callable[..., Result]


def schemas(url: str) -> list[str]:
    async def ask() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            rows = await connection.fetch("select nspname from pg_namespace order by 1")
            return [row["nspname"] for row in rows]
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_a_measurement_leaves_nothing_behind(detent: Detent, empty_postgres_url: str) -> None:
    before = schemas(empty_postgres_url)
    result = detent("bench", "--url", empty_postgres_url, "--jobs", "500", "--json")
    assert result.exit_code == 0, result.output
    measured = json.loads(result.stdout)
    assert measured["jobs"] == 500
    assert measured["run_per_second"] > 0
    assert 0 < measured["wait_p50_ms"] <= measured["wait_p99_ms"]
    assert schemas(empty_postgres_url) == before


def test_a_measurement_does_not_touch_the_schema_that_is_there(
    detent: Detent, postgres_url: str
) -> None:
    before = schemas(postgres_url)
    assert detent("bench", "--url", postgres_url, "--jobs", "10").exit_code == 0
    assert schemas(postgres_url) == before


def test_a_measurement_of_a_file_leaves_no_file(detent: Detent, tmp_path: Path) -> None:
    result = detent("bench", "--jobs", "300", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["url"] == "sqlite:///detent.db"
    assert list(tmp_path.iterdir()) == []


def test_people_read_four_lines(detent: Detent) -> None:
    result = detent("bench", "--url", "memory://", "--jobs", "100")
    assert result.exit_code == 0, result.output
    heading, *lines = result.stdout.splitlines()
    assert heading == "memory://"
    assert [line.split("  ")[1] for line in lines] == [
        "enqueue",
        "run",
        "enqueue to start, p50",
        "enqueue to start, p99",
    ]
    assert "\x1b" not in result.stdout
