"""What the tests of plans share: databases in each situation, made once."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from detent.stores.postgres import PostgresStore
from detent.stores.postgres.statements import statement
from detent.testing.postgres import TemporaryPostgres
from tests.plans.plan import STATEMENTS, Explained, Plan
from tests.plans.situations import ROWS, arrange

Arranged = Callable[[str], str]
Plans = Callable[[str], dict[str, Plan]]
Explain = Callable[[str], Plan]


@pytest.fixture(scope="package")
def arranged(postgres_server: TemporaryPostgres, postgres_template: str) -> Iterator[Arranged]:
    """Give the URL of a database in a situation; tests leave it as it is."""
    known: dict[str, str] = {}

    def arranged(situation: str) -> str:
        if situation not in known:
            name = f"plans_{list(ROWS).index(situation)}"
            known[situation] = postgres_server.create_database(name, postgres_template)
            arrange(known[situation], situation)
        return known[situation]

    yield arranged
    for url in known.values():
        postgres_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(scope="package")
def plans(arranged: Arranged) -> Plans:
    """Give the plans of all statements in a situation, by name."""
    known: dict[str, dict[str, Plan]] = {}

    def plans(situation: str) -> dict[str, Plan]:
        if situation not in known:
            known[situation] = asyncio.run(_explain_all(arranged(situation)))
        return known[situation]

    return plans


async def _explain_all(url: str) -> dict[str, Plan]:
    # A connection such as the store makes for itself.
    connection = await PostgresStore(url).database.connect()
    try:
        return {
            name: await (
                await Explained.prepare(connection, name, statement(name, "detent"))
            ).plan()
            for name in STATEMENTS
        }
    finally:
        await connection.close()


@pytest.fixture
def explain(plans: Plans, situation: str) -> Explain:
    """Give the plan of a statement in the situation that a test is about."""
    return plans(situation).__getitem__
