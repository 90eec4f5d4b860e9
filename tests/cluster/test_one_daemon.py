"""If these fail, a daemon runs on two nodes at once when sessions or servers go."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from detent.stores.postgres.migrations import migrate
from detent.testing.postgres import TemporaryPostgres
from tests.cluster import alone
from tests.cluster.alone import check_alone, runs
from tests.cluster.database import connected, until
from tests.cluster.processes import ROOT, NodeProcess, Start
from tests.cluster.replication import Pair
from tests.node_process import launching

APP: Final = "tests.cluster.alone:app"
ROLE: Final = "daemon:alone"
#: Candidates ask often, so that one of them asks before the leader would by itself.
OFTEN: Final = {"DETENT_CLUSTER_LEADER_CHECK": "1s"}
#: A leader that asks seldom runs on for so long, unless it hears of the end of its session.
SELDOM: Final = {"DETENT_CLUSTER_LEADER_CHECK": "20s"}
#: Seconds after which each node that asks often has asked the server.
ALL_HAVE_ASKED: Final = 4.0
NODES: Final = 3


@pytest.fixture
def launch() -> Iterator[Start]:
    """Start nodes with the daemon that end with the test."""
    with launching(APP, ROOT) as start:
        yield start


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.touch()
    return path


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.primary.create_database("jobs")
        asyncio.run(migrate(pair.primary.url("jobs")))
        yield pair


class Cluster:
    """Some nodes that want to run the daemon."""

    def __init__(self, launch: Start, trace: Path, url: str, **settings: str) -> None:
        self._launch = launch
        self._trace = trace
        self._url = url
        self._settings = settings
        self.nodes: list[NodeProcess] = []

    async def started(self) -> None:
        await self._start(NODES, **{**OFTEN, **self._settings})
        await self.until_running()

    async def led_by_one_that_asks_seldom(self) -> None:
        """Start one that leads, and then the others: they ask long before it would."""
        await self._start(1, **SELDOM)
        await self.until_running()
        await self._start(NODES - 1, **OFTEN)

    async def _start(self, count: int, **settings: str) -> None:
        environ = {**settings, alone.TRACE: str(self._trace)}
        numbers = range(len(self.nodes), len(self.nodes) + count)
        some = [self._launch(self._url, "--name", f"node-{n}", **environ) for n in numbers]
        self.nodes += some
        for node in some:
            await asyncio.to_thread(node.wait_for, "started; taking jobs")

    async def until_running(self, after: float = 0.0, patience: float = 60.0) -> None:
        """Wait until the daemon runs, after a moment of the machine's clock."""

        async def running() -> bool:
            return any(run.ended > after for run in runs(self._trace))

        await until(running, "the daemon to run", patience, pause=0.01)

    def leader(self) -> NodeProcess:
        last = max(runs(self._trace), key=lambda run: run.ended)
        return next(node for node in self.nodes if node.pid == last.pid)


async def leading_backend(database: Any) -> int | None:
    query = "SELECT backend FROM detent.detent_leader WHERE role = $1"
    found: int | None = await database.fetchval(query, ROLE)
    return found


async def until_confirmed(database: Any, right: Callable[[int | None], bool]) -> int:
    """Wait until a leader holds its lock in a session of its own, and return that session."""
    found: list[int | None] = []

    async def confirmed() -> bool:
        found[:] = [await leading_backend(database)]
        return found[0] is not None and right(found[0])

    await until(confirmed, "a leader with a session", pause=0.01)
    assert found[0] is not None
    return found[0]


@pytest.mark.slow
async def test_a_daemon_runs_once_whatever_happens_to_its_session(
    postgres_url: str, launch: Start, trace: Path
) -> None:
    cluster = Cluster(launch, trace, postgres_url)
    await cluster.started()
    async with connected(postgres_url) as database:
        for _ in range(12):
            backend = await until_confirmed(database, lambda _: True)
            await database.execute("SELECT pg_terminate_backend($1)", backend)
            await until_confirmed(database, lambda found, old=backend: found != old)  # type: ignore[misc]
    check_alone(trace)
    assert len(runs(trace)) == 1, "a leader that confirms its term in time goes on"


@pytest.mark.slow
async def test_a_killed_leader_is_followed_before_its_lease_ends(
    postgres_url: str, launch: Start, trace: Path
) -> None:
    """The server sees its session go: nobody need wait for the lease, here 60 s."""
    cluster = Cluster(launch, trace, postgres_url, DETENT_CLUSTER_LEADER_CHECK="20s")
    await cluster.started()
    async with connected(postgres_url) as database:
        await until_confirmed(database, lambda _: True)
    killed = cluster.leader()
    killed.kill()
    await cluster.until_running(time.monotonic(), patience=30.0)
    first, second = check_alone(trace)
    assert (first.pid, second.term) == (killed.pid, 2)


@pytest.mark.slow
async def test_a_daemon_runs_once_when_the_server_crashed_and_is_started_again(
    launch: Start, trace: Path
) -> None:
    with TemporaryPostgres(durable=True) as server:
        server.create_database("jobs")
        url = server.url("jobs")
        await migrate(url)
        cluster = Cluster(launch, trace, url)
        await cluster.led_by_one_that_asks_seldom()
        async with connected(url) as database:
            await until_confirmed(database, lambda _: True)
        await asyncio.to_thread(server.restart, "immediate")
        await cluster.until_running(time.monotonic())
        await asyncio.sleep(ALL_HAVE_ASKED)
        check_alone(trace)


@pytest.mark.slow
async def test_a_daemon_runs_once_when_a_standby_is_promoted(
    pair: Pair, launch: Start, trace: Path
) -> None:
    cluster = Cluster(launch, trace, pair.url("jobs"))
    await cluster.led_by_one_that_asks_seldom()
    async with connected(pair.primary.url("jobs")) as database:
        await until_confirmed(database, lambda _: True)
    await pair.caught_up()
    await asyncio.to_thread(pair.primary.kill)
    await pair.promote()
    await cluster.until_running(time.monotonic())
    await asyncio.sleep(ALL_HAVE_ASKED)
    check_alone(trace)
