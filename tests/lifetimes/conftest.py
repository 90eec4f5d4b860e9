"""Without these fixtures each test of a lifetime would have to say three times where jobs live."""

from collections.abc import Callable
from pathlib import Path

import pytest

from detent import App
from detent.config import Config
from detent.databases import migrate_store
from detent.stores.memory import MemoryNotifier, MemoryStore


@pytest.fixture
async def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file of this test's own, with the tables."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    await migrate_store(Config.load(url, environ={}))
    return url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_app(request: pytest.FixtureRequest) -> Callable[[], App]:
    """Make apps that share one store: in memory, in a file, and on PostgreSQL."""
    if request.param == "memory":
        store, notifier = MemoryStore(), MemoryNotifier()
        return lambda: App(config=Config(), store=store, notifier=notifier)
    url = request.getfixturevalue(f"{request.param}_url")
    return lambda: App(config=Config.load(url, environ={}))
