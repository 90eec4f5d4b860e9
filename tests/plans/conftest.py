"""What the tests of plans share: databases in each situation, made once."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from detent.stores.postgres import PostgresStore
from detent.stores.postgres.database import Connection
from detent.testing.postgres import TemporaryPostgres
from tests.plans.situations import ROWS, arrange

Arranged = Callable[[str], str]


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


@pytest.fixture
def situated_url(arranged: Arranged, situation: str) -> str:
    """The URL of a database in the situation that a test is about."""
    return arranged(situation)


@pytest.fixture
async def connection(situated_url: str) -> AsyncIterator[Connection]:
    """A connection such as the store makes for itself, in that situation."""
    connection = await PostgresStore(situated_url).database.connect()
    yield connection
    await connection.close()
