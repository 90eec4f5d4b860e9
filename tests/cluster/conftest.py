"""What the cluster tests share: nodes that end with the test, and a server that may be killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from detent import App
from detent.stores.postgres.migrations import migrate
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.processes import APP, ROOT, Start
from tests.cluster.workload import Workload
from tests.node_process import launching

_numbers = count(1)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start nodes that end with the test."""
    with launching(APP, ROOT) as start:
        yield start


@pytest.fixture
def executions(tmp_path: Path) -> Path:
    """Where tasks write down that they run."""
    return tmp_path / "executions"


@pytest.fixture
async def workload(postgres_url: str) -> AsyncIterator[Workload]:
    """The tasks of the nodes, as another program sees them: it enqueues and looks."""
    async with App(postgres_url) as app:
        yield Workload(app)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each kind in turn, for what the engine promises on all of them."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'detent.db'}"
    postgres_url: str = request.getfixturevalue("postgres_url")
    return postgres_url


@pytest.fixture(scope="session")
def _durable_server() -> Iterator[TemporaryPostgres]:
    with TemporaryPostgres(durable=True, settings={"max_connections": "100"}) as server:
        yield server


@pytest.fixture
def durable_server(_durable_server: TemporaryPostgres) -> TemporaryPostgres:
    """A server that keeps its promises when it is killed; it runs, whatever the last test did."""
    _durable_server.start()
    return _durable_server


@pytest.fixture
def durable_url(durable_server: TemporaryPostgres) -> Iterator[str]:
    """The URL of a database of this test's own on that server, with the schema."""
    name = f"durable_{next(_numbers)}"
    url = durable_server.create_database(name)
    asyncio.run(migrate(url))
    yield url
    durable_server.start()
    durable_server.drop_database(name)


@pytest.fixture
async def durable_workload(durable_url: str) -> AsyncIterator[Workload]:
    """The tasks, on that database."""
    async with App(durable_url) as app:
        yield Workload(app)
