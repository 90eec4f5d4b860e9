"""If these fail, a database that restarts leaves nodes behind that must be restarted too."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Final, Literal

import asyncpg
import pytest

from detent.errors import StoreUnavailable
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import connected, states, until, until_all_ended
from tests.cluster.processes import Start
from tests.cluster.workload import Execution, Workload

JOBS: Final = 3_000
RESTARTS: Final = (0.1, 0.4, 0.7)
"""When the database restarts: after these shares of the jobs."""
RECOVERED: Final = 10.0
SHORT_LEASE: Final = {
    "DETENT_CLUSTER_LEASE": "3s",
    "DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s",
}


async def until_run(executions: Path, count: int, since: float = 0.0) -> None:
    """Wait until so many attempts have begun since a moment."""

    async def run() -> bool:
        return sum(run.at > since for run in Execution.read_all(executions)) >= count

    await until(run, f"{count} executions")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_node_outlives_a_restart_of_the_database(
    durable_server: TemporaryPostgres,
    durable_url: str,
    durable_workload: Workload,
    start: Start,
    executions: Path,
    mode: Literal["fast", "immediate"],
) -> None:
    work = durable_workload.work
    await durable_workload.app.enqueue_many([work.bind(str(executions), 0.02) for _ in range(JOBS)])
    node = start(durable_url, "--concurrency", "20")
    for share in RESTARTS:
        await until_run(executions, int(JOBS * share))
        await asyncio.to_thread(durable_server.restart, mode)
        back = time.time()
        await until_run(executions, 1, since=back)
        first = min(run.at for run in Execution.read_all(executions) if run.at > back)
        assert first < back + RECOVERED
    async with connected(durable_url) as connection:
        await until_all_ended(connection)
        assert await states(connection) == {"succeeded": JOBS}
    # It kept its claims, and wrote their ends when it could: nothing had to be run again.
    runs = Counter(run.job for run in Execution.read_all(executions))
    assert len(runs) == JOBS
    assert max(runs.values()) == 1
    assert "the store answers again" in node.said()
    # An error that the store does not know as trouble that passes would lose the end of a job.
    troubles = [line for line in node.said().splitlines() if "the store failed" in line]
    assert [line for line in troubles if "StoreUnavailable" not in line] == []
    assert [known.incarnation for known in await durable_workload.app.store.nodes()] == [node.id]
    node.signal()
    assert await asyncio.to_thread(node.ended) == 0


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InternalClientError("cannot switch to state 12; another operation is in progress"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.AdminShutdownError("terminating connection due to administrator command"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        ConnectionResetError("reset by peer"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_driver_says_when_it_is_cut_off_is_known_to_pass(error: Exception) -> None:
    """Otherwise the end of a job would be dropped instead of being written again."""
    assert isinstance(error, DRIVER_ERRORS)
    assert isinstance(translate(error), StoreUnavailable)


async def test_a_node_that_lost_its_lease_lets_go_and_joins_anew(
    durable_server: TemporaryPostgres,
    durable_url: str,
    durable_workload: Workload,
    start: Start,
    executions: Path,
    tmp_path: Path,
) -> None:
    app = durable_workload.app
    node = start(durable_url, **SHORT_LEASE)
    released = tmp_path / "released"
    held = await durable_workload.hang.enqueue(str(executions), str(released))
    await until_run(executions, 1)
    await asyncio.to_thread(durable_server.stop, "immediate")
    await asyncio.to_thread(node.wait_for, "it dropped its jobs")
    released.touch()  # the attempt would succeed now, if it were still running
    await asyncio.to_thread(durable_server.start)
    back = time.time()
    again = await durable_workload.record.enqueue(str(executions))
    await again.result(timeout=RECOVERED)
    assert time.time() < back + RECOVERED
    # What its former self held was given back, and nobody crashed.
    await held.result(timeout=RECOVERED)
    former, present = await app.nodes.list()
    assert (former.incarnation, former.state) == (node.id, "dead")
    info = await app.jobs.get(held.id)
    assert (info.node, info.attempt) == (present.incarnation, 1)
    assert await app.jobs.attempts(held.id) == []


async def test_outages_longer_than_a_lease_make_no_crashes(
    durable_server: TemporaryPostgres,
    durable_url: str,
    durable_workload: Workload,
    start: Start,
    executions: Path,
    tmp_path: Path,
) -> None:
    """Three of them failed every job that ran through, although no process had died."""
    nodes = [start(durable_url, "--name", f"node-{number}", **SHORT_LEASE) for number in range(3)]
    released = tmp_path / "released"
    jobs = [await durable_workload.hang.enqueue(str(executions), str(released)) for _ in range(12)]
    begun = 0.0
    for _ in range(3):
        await until_run(executions, 12, since=begun)
        # Long enough for each node to have seen the store answer for a whole lease.
        await asyncio.sleep(4.0)
        await asyncio.to_thread(durable_server.stop, "immediate")
        await asyncio.sleep(5.0)
        begun = time.time()
        await asyncio.to_thread(durable_server.start)
    await until_run(executions, 12, since=begun)
    released.touch()
    for job in jobs:
        await job.result(timeout=30)
    async with connected(durable_url) as connection:
        crashed = await connection.fetchval("SELECT count(*) FROM detent.detent_attempt")
        expired = await connection.fetchval(
            "SELECT count(*) FROM detent.detent_node WHERE death = 'its lease ran out'"
        )
    assert (crashed, expired) == (0, 0)
    for node in nodes:
        node.signal()
        assert await asyncio.to_thread(node.ended) == 0


async def test_a_database_that_is_down_at_the_start_is_one_line(
    durable_server: TemporaryPostgres, start: Start
) -> None:
    durable_server.stop()
    node = start(durable_server.url("jobs"))
    assert await asyncio.to_thread(node.ended) == 1
    (line,) = node.said().splitlines()
    assert line.startswith("detent: error: the database cannot be reached: ")
    assert durable_server.url("jobs").replace("postgres@", "postgres:***@").split("@")[1] in line


async def test_a_database_without_the_schema_is_refused_with_what_to_run(
    empty_postgres_url: str, start: Start
) -> None:
    node = start(empty_postgres_url)
    assert await asyncio.to_thread(node.ended) == 1
    (line,) = node.said().splitlines()
    assert line.endswith(f"no Detent schema; run: detent migrate --url {empty_postgres_url}")


async def test_a_database_of_a_newer_version_is_refused_with_what_to_run(
    postgres_url: str, start: Start
) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute(
            "INSERT INTO detent.detent_schema_version (version, name, checksum)"
            " VALUES (999, 'future', 'unknown')"
        )
    node = start(postgres_url)
    assert await asyncio.to_thread(node.ended) == 1
    (line,) = node.said().splitlines()
    assert "schema version 999" in line
    assert line.endswith("upgrade the package: pip install --upgrade detent")
