"""If these fail, `detent migrate` beside working nodes stops the whole cluster.

One open transaction of any program is enough: a step waits for its lock, and every claim, enqueue
and finish waits behind the step.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from detent import App
from detent.errors import StoreBusy
from detent.spi.migrations import Migration
from detent.stores.postgres import migrations
from detent.stores.postgres.blockers import Blocker
from detent.stores.postgres.migrations import known_migrations, migrate, migration_sql, pending
from tests.cluster.database import connected

ROWS = 1_000_000
LONGEST = 2.5
"""Seconds that a job may take meanwhile: the lock time-out, and what a loaded machine adds."""

COLUMN = Migration(900, "probe", "ALTER TABLE detent.detent_ready ADD COLUMN probe integer;\n")
INDEX = Migration(
    901,
    "probe_index",
    "-- concurrently\n"
    "CREATE INDEX CONCURRENTLY detent_ready_probe ON detent.detent_ready (attempt);\n",
)
BACKLOG = """
INSERT INTO detent.detent_ready (lane, priority, due_at, id, attempt, generation, crashes, hooks)
SELECT 'unserved', 2, now(), gen_random_uuid(), 1, 1, 0, 0 FROM generate_series(1, $1::integer)
"""


Bring = Callable[..., None]


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> Bring:
    """Let this code bring more steps than the database has taken."""
    known = known_migrations()

    def bring(*steps: Migration) -> None:
        monkeypatch.setattr(migrations, "known_migrations", lambda: [*known, *steps])

    return bring


@asynccontextmanager
async def open_transaction(url: str) -> AsyncIterator[int]:
    """Read a hot table, and leave the transaction open; give its pid."""
    async with connected(url) as connection, connection.transaction():
        await connection.execute("SET application_name = 'a report'")
        await connection.fetch("SELECT 1 FROM detent.detent_ready LIMIT 1")
        yield await connection.fetchval("SELECT pg_backend_pid()")


class Waits:
    """What the migrator told of those it waits for."""

    def __init__(self) -> None:
        self.heard: dict[str, Sequence[Blocker]] = {}
        self.changed = asyncio.Event()

    def tell(self, label: str, blockers: Sequence[Blocker]) -> None:
        self.heard[label] = blockers
        self.changed.set()

    async def until(self, label: str) -> Sequence[Blocker]:
        async with asyncio.timeout(60):
            while label not in self.heard:
                self.changed.clear()
                await self.changed.wait()
        return self.heard[label]


@pytest.mark.parametrize(
    "step, rows", [(COLUMN, 1_000), (INDEX, ROWS)], ids=["a lock on a table", "an index"]
)
async def test_nodes_work_on_while_a_step_waits_for_an_open_transaction(
    postgres_url: str, bring: Bring, step: Migration, rows: int
) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute(BACKLOG, rows)
    app = App(postgres_url)

    @app.task(name="quick")
    async def quick() -> None: ...

    waits, longest = Waits(), 0.0
    async with app, app.node():
        await (await quick.enqueue()).result(timeout=30)
        bring(step)
        async with open_transaction(postgres_url) as pid:
            migrating = asyncio.ensure_future(migrate(postgres_url, told=waits.tell))
            (blocker,) = await waits.until(step.label)
            assert (blocker.pid, blocker.application) == (pid, "a report")
            assert blocker.state == "idle in transaction"
            ends = time.monotonic() + 4
            while time.monotonic() < ends:
                began = time.monotonic()
                await (await quick.enqueue()).result(timeout=30)
                longest = max(longest, time.monotonic() - began)
            assert not migrating.done()
        assert await asyncio.wait_for(migrating, 60) == [step.label]
        await (await quick.enqueue()).result(timeout=30)
    assert longest < LONGEST


async def test_a_step_that_waits_too_long_names_the_session_and_changes_nothing(
    postgres_url: str, bring: Bring
) -> None:
    bring(COLUMN)
    async with open_transaction(postgres_url) as pid:
        with pytest.raises(StoreBusy, match=rf"V900 probe was not taken: pid {pid} \(a report, "):
            await migrate(postgres_url, patience=2.0)
    assert await pending(postgres_url) == [COLUMN.label]
    assert await migrate(postgres_url) == [COLUMN.label]


async def test_a_build_that_was_broken_off_is_begun_anew(postgres_url: str, bring: Bring) -> None:
    bring(INDEX)
    async with connected(postgres_url) as connection:
        waits = Waits()
        async with open_transaction(postgres_url):
            building = asyncio.ensure_future(migrate(postgres_url, told=waits.tell))
            await waits.until(INDEX.label)
            building.cancel()
            with pytest.raises(asyncio.CancelledError):
                await building
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = $1::text::regclass"
        assert await connection.fetchval(valid, "detent.detent_ready_probe") is False
        taken = await asyncio.gather(*(migrate(postgres_url) for _ in range(3)))
        assert sorted(taken) == [[], [], [INDEX.label]]
        assert await connection.fetchval(valid, "detent.detent_ready_probe") is True


async def test_a_new_schema_waits_for_no_transaction_of_others(
    empty_postgres_url: str, bring: Bring
) -> None:
    bring(COLUMN, INDEX)
    async with connected(empty_postgres_url) as other, other.transaction():
        await other.execute("CREATE TABLE theirs ()")
        steps = [step.label for step in migrations.known_migrations()]
        assert await migrate(empty_postgres_url, patience=10.0) == steps
    assert "CONCURRENTLY" not in migration_sql()
