"""If these fail, a program behind PgBouncer needs more than another URL, or loses something by it.

Transaction mode, and fewer sessions than there are clients. Nothing but the URL tells the store.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from detent import App
from detent.errors import StoreError
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.migrations import migrate, pending
from detent.stores.postgres.pooled import PLANNER
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog, connected, states, until, until_all_ended
from tests.cluster.pgbouncer import PgBouncer
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

SESSIONS: Final = 3
JOBS: Final = 5_000
SHORT: Final = {"DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s", "DETENT_CLUSTER_LEASE": "3s"}
SELDOM: Final = {
    "DETENT_POLLING_BURST": "1h",
    "DETENT_POLLING_MINIMUM": "1h",
    "DETENT_POLLING_MAXIMUM": "1h",
    "DETENT_POLLING_DEEP_IDLE": "1h",
}


@pytest.fixture
def pgbouncer(postgres_server: TemporaryPostgres) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server, pool_size=SESSIONS) as pgbouncer:
        yield pgbouncer


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, postgres_url: str) -> str:
    """The database of this test, by the way of PgBouncer."""
    return pgbouncer.url(postgres_url)


@pytest.fixture
async def workload(pooled_url: str) -> AsyncIterator[Workload]:
    async with App(pooled_url) as app:
        yield Workload(app)


async def test_two_nodes_run_every_job_once(
    workload: Workload,
    start: Start,
    postgres_server: TemporaryPostgres,
    postgres_url: str,
    pooled_url: str,
    executions: Path,
) -> None:
    log = ServerLog(postgres_server)
    before = await sessions_of(postgres_url)
    calls = [workload.record.bind(str(executions)) for _ in range(JOBS - 20)]
    await workload.app.enqueue_many(calls)
    await asyncio.gather(*(workload.flaky.enqueue(str(executions)) for _ in range(20)))
    nodes = [start(pooled_url, "--concurrency", "200") for _ in range(2)]
    async with connected(postgres_url) as connection:
        await until_all_ended(connection, patience=60)
        assert await states(connection) == {"succeeded": JOBS}
    runs = Counter((run.job, run.attempt) for run in Execution.read_all(executions))
    assert (len(runs), max(runs.values())) == (JOBS + 20, 1)
    assert await sessions_of(postgres_url) - before <= SESSIONS
    for node in nodes:
        assert "no wake-ups reach this node: a pooler stands before the database" in node.said()
        node.signal()
        assert await asyncio.to_thread(node.ended) == 0
    complaints = ("deadlock detected", "prepared statement", "does not exist")
    assert not [line for line in log.text().splitlines() if any(c in line for c in complaints)]
    await nothing_is_left_in_the_sessions(pooled_url)


async def sessions_of(url: str) -> int:
    """How many sessions of the server lead to this database, but for the one that asks."""
    async with connected(url) as connection:
        return int(
            await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )


async def nothing_is_left_in_the_sessions(pooled_url: str) -> None:
    """Look into every session of the pool at once: others may get it next."""
    clients = [await asyncpg.connect(pooled_url, statement_cache_size=0) for _ in range(SESSIONS)]
    for client in clients:
        await client.execute("BEGIN")
    pids = [await client.fetchval("SELECT pg_backend_pid()") for client in clients]
    assert len(set(pids)) == SESSIONS
    for client in clients:
        assert await client.fetch("SELECT * FROM pg_listening_channels()") == []
        # The driver of this test has one itself, without a name.
        assert await client.fetchval("SELECT count(*) FROM pg_prepared_statements") == 0
        changed = await client.fetch(
            "SELECT name, setting FROM pg_settings WHERE name = ANY($1) AND setting <> boot_val",
            list(PLANNER),
        )
        assert changed == []
    held = await clients[0].fetchval(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = ANY($1)", pids
    )
    assert held == 0
    for client in clients:
        await client.execute("ROLLBACK")
        await client.close()


async def test_leaders_follow_each_other_by_their_leases(
    workload: Workload, start: Start, pooled_url: str
) -> None:
    settings = {**SHORT, "DETENT_CLUSTER_LEADER_CHECK": "500ms"}
    first = start(pooled_url, **settings)
    holder = await led_by(workload, other_than=None)
    assert holder == first.id
    second = start(pooled_url, **settings)
    living = second.id
    first.kill()
    killed = time.monotonic()
    assert await led_by(workload, other_than=holder) == living
    assert time.monotonic() - killed < 10
    terms = [leader.term for leader in await workload.app.store.leaders()]
    assert min(terms) >= 2


async def led_by(workload: Workload, other_than: object) -> Any:
    """Wait until somebody else leads, and return who."""
    found: list[Any] = []

    async def led() -> bool:
        found[:] = [
            leader.holder
            for leader in await workload.app.store.leaders()
            if leader.role == "maintenance" and leader.holder not in (None, other_than)
        ]
        return bool(found)

    await until(led, "a leader")
    return found[0]


async def test_the_jobs_of_a_lost_node_run_elsewhere(
    workload: Workload, start: Start, pooled_url: str, executions: Path
) -> None:
    first = start(pooled_url, **SHORT)
    lost = first.id
    jobs = [await workload.work.enqueue(str(executions), 2.0) for _ in range(10)]

    async def begun() -> bool:
        return len(Execution.read_all(executions)) == 10

    await until(begun, "10 executions")
    start(pooled_url, **SHORT)
    first.kill()
    for job in jobs:
        await job.result(timeout=30)
        info = await workload.app.jobs.get(job.id)
        assert info.node != lost


async def test_a_pooler_that_restarts_is_no_reason_to_end(
    workload: Workload,
    start: Start,
    pgbouncer: PgBouncer,
    postgres_url: str,
    pooled_url: str,
    executions: Path,
) -> None:
    node = start(pooled_url, "--concurrency", "20")
    assert node.id is not None, "it has started"
    calls = [workload.work.bind(str(executions), 0.02) for _ in range(1_000)]
    await workload.app.enqueue_many(calls)

    async def begun() -> bool:
        return len(Execution.read_all(executions)) > 200

    await until(begun, "200 executions")
    pgbouncer.stop()
    await asyncio.sleep(0.5)
    await asyncio.to_thread(pgbouncer.start)
    back = time.monotonic()
    async with connected(postgres_url) as connection:
        await until_all_ended(connection)
        assert await states(connection) == {"succeeded": 1_000}
    assert time.monotonic() - back < 10
    runs = Counter(run.job for run in Execution.read_all(executions))
    assert (len(runs), max(runs.values())) == (1_000, 1)
    assert node.alive


async def test_a_direct_url_brings_wake_ups_past_the_pooler(
    workload: Workload, start: Start, postgres_url: str, pooled_url: str, executions: Path
) -> None:
    """With polls once an hour, only a wake-up can start a job."""
    node = start(pooled_url, **SELDOM, DETENT_WAKEUP_URL=postgres_url)
    await (await workload.record.enqueue(str(executions))).result(timeout=30)
    for _ in range(5):
        began = time.monotonic()
        await (await workload.record.enqueue(str(executions))).result(timeout=5)
        assert time.monotonic() - began < 2
    async with connected(pooled_url) as connection, connection.transaction():
        await workload.record.options(within=connection).enqueue(str(executions))

    async def begun() -> bool:
        return len(Execution.read_all(executions)) == 7

    await until(begun, "the job of the transaction", patience=5)
    assert "no wake-ups" not in node.said()


async def test_a_statement_that_fails_leaves_no_transaction_open(pooled_url: str) -> None:
    """The next one who gets the connection would be part of it, or be refused."""
    store = PostgresStore(pooled_url, pool_size=1)
    refused_by_the_driver, refused_by_the_server = ("channel",), ("channel", "x" * 9000)
    for arguments in (refused_by_the_driver, refused_by_the_server):
        with pytest.raises(StoreError):
            await store.database.fetch("notify", *arguments)
        async with store.database.connection() as connection:
            assert not connection.is_in_transaction()
            assert not connection.is_closed()
    await store.close()


async def test_several_migrate_through_it_at_once(
    pgbouncer: PgBouncer, empty_postgres_url: str
) -> None:
    url = pgbouncer.url(empty_postgres_url)
    everything = await pending(url)
    taken = await asyncio.gather(*(migrate(url) for _ in range(SESSIONS)))
    assert sorted(step for steps in taken for step in steps) == sorted(everything)
    assert await pending(url) == []


async def test_it_is_found_by_itself_and_can_be_denied(postgres_url: str, pooled_url: str) -> None:
    for url, given, found in (
        (postgres_url, None, False),
        (pooled_url, None, True),
        (postgres_url, True, True),
        (pooled_url, False, False),
    ):
        store = PostgresStore(url, pooler=given)
        assert await store.database.behind_pooler() is found
        await store.close()
