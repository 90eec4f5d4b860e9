"""If these fail, a job that was replaced goes on until the next poll of its node."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from detent.model.job import Keys
from detent.spi.notifier import SignalHint, Wake
from detent.spi.store import Store
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.stores.postgres import PostgresStore
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job
from detent.testing.conformance.steps import held, place

REPLACE = Keys(unique="report", on_conflict="replace")


class Noted(MemoryNotifier):
    """Carries wake-ups, and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes: list[Wake] = []

    def publish(self, wakes: Sequence[Wake]) -> None:
        self.wakes += wakes
        super().publish(wakes)


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, noted: Noted) -> Store:
    if request.param == "memory":
        return MemoryStore(notifier=noted)
    if request.param == "sqlite":
        return SqliteStore(str(tmp_path / "jobs.db"), notifier=noted)
    return PostgresStore(request.getfixturevalue("postgres_url"), notifier=noted)


async def test_the_node_of_a_job_that_is_replaced_is_told_at_once(
    store: Store, noted: Noted
) -> None:
    await store.open()
    try:
        node, _ = await held(store, keys=REPLACE)
        noted.wakes.clear()
        assert (await place(store, new_job(), REPLACE)).created
        assert SignalHint(node) in noted.wakes
    finally:
        await store.close()
