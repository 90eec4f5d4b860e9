"""If these fail, a limit is exceeded, or jobs wait for ever behind one, when nodes stop and die."""

import asyncio
import random
import signal
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from detent import App
from detent.stores.postgres.migrations import migrate
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import connected, states, until_all_ended
from tests.cluster.limited_tasks import rated, serial, three
from tests.cluster.processes import ROOT, NodeProcess

TASKS: Final = "tests.cluster.limited_tasks:app"
SHORT: Final = {
    "DETENT_CLUSTER_HEARTBEAT_INTERVAL": "0.5s",
    "DETENT_CLUSTER_LEASE": "1.5s",
    # Here nodes die because they are killed, and no job is to blame.
    "DETENT_CLUSTER_MAX_CRASHES": "100",
}
LIMITS: Final = {"task:serial": 1, "task:three": 3}

# What is claimed and given up, and by which transactions: when those were committed, the server
# tells afterwards.
WATCH: Final = """
    CREATE TABLE public.claim_log (
        job uuid, fence bigint, gate text, begins boolean, xid xid DEFAULT pg_current_xact_id()::xid
    );
    CREATE FUNCTION public.log_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.claim_log (job, fence, gate, begins)
        SELECT coalesce(NEW.id, OLD.id), coalesce(NEW.fence, OLD.fence),
            substring(coalesce(NEW.lane, OLD.lane) FROM '~(task:[^~*+]*)'), TG_OP = 'INSERT'
        WHERE coalesce(NEW.task_gate, OLD.task_gate) IS NOT NULL;
        RETURN NULL;
    END $$;
    CREATE TRIGGER log_claim AFTER INSERT OR DELETE ON detent.detent_running
    FOR EACH ROW EXECUTE FUNCTION public.log_claim();
"""
WATCH_TIMES: Final = """
    CREATE TABLE public.begun (at timestamptz);
    CREATE FUNCTION public.log_begun() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.begun (at) VALUES (NEW.claimed_at);
        RETURN NULL;
    END $$;
    CREATE TRIGGER log_begun AFTER INSERT ON detent.detent_running
    FOR EACH ROW EXECUTE FUNCTION public.log_begun();
"""
HISTORY: Final = """
    SELECT gate, begins FROM public.claim_log
    ORDER BY pg_xact_commit_timestamp(xid), begins
"""


@pytest.fixture(scope="module")
def server() -> Iterator[TemporaryPostgres]:
    settings = {"track_commit_timestamp": "on", "max_connections": "150"}
    with TemporaryPostgres(settings=settings) as server:
        yield server


@pytest.fixture
def url(server: TemporaryPostgres, request: pytest.FixtureRequest) -> str:
    name = "limits_" + request.node.name.partition("[")[0][-30:] + str(len(request.node.name))
    url = server.create_database(name)
    asyncio.run(migrate(url))
    return url


@dataclass
class Cluster:
    """Nodes that are stopped and killed at random, and replaced."""

    url: str
    seed: int
    count: int
    slots: int = 8

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.nodes = [self.started() for _ in range(self.count)]
        self.all = list(self.nodes)
        self.kills = self.stops = 0

    def started(self) -> NodeProcess:
        options = ("--concurrency", str(self.slots))
        return NodeProcess(TASKS, self.url, *options, cwd=ROOT, **SHORT)

    async def harass(self) -> None:
        """Stop and kill nodes until this is canceled."""
        while True:
            await asyncio.sleep(self.random.uniform(0.1, 0.5))
            number = self.random.randrange(self.count)
            node = self.nodes[number]
            if self.random.random() < 0.3:
                self.kills += 1
                await asyncio.to_thread(node.kill)
                self.nodes[number] = self.started()
                self.all.append(self.nodes[number])
                continue
            self.stops += 1
            node.signal(signal.SIGSTOP)
            await asyncio.sleep(self.random.choice((0.05, 0.3, 1.0, 2.5)))
            node.signal(signal.SIGCONT)

    def close(self) -> None:
        for number, node in enumerate(self.all, 1):
            node.close()
            print(f"--- node {number}\n{node.said()[-2000:]}")  # noqa: T201  for whoever looks


def most_at_once(history: list[Any]) -> Counter[str]:
    """Return how many valid claims there were at most, by gate, in the order of the commits."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for gate, begins in history:
        now[gate] += 1 if begins else -1
        most[gate] = max(most[gate], now[gate])
    assert not +now, "a claim has not ended"
    return most


async def harassed(
    url: str, *, jobs: int, nodes: int, keys: int, lasts: float, seconds: float
) -> Counter[str]:
    """Run jobs behind limits on nodes that are harassed; return the most at once of each gate."""
    async with connected(url) as connection:
        await connection.execute(WATCH)
        async with App(url) as app:
            calls = [
                task.bind(f"key {number % keys}", lasts)
                for number in range(jobs // 2)
                for task in (serial, three)
            ]
            jobs_made = await _enqueue(app, calls)
            cluster = Cluster(url, jobs, nodes)
            trouble = asyncio.create_task(cluster.harass())
            try:
                await asyncio.sleep(seconds)
                trouble.cancel()
                for node in cluster.nodes:
                    node.signal(signal.SIGCONT)
                await until_all_ended(connection, 90)
            finally:
                trouble.cancel()
                await asyncio.to_thread(cluster.close)
        assert await states(connection) == {"succeeded": len(jobs_made)}
        history = await connection.fetch(HISTORY)
        print(  # noqa: T201  for whoever looks
            f"{len(jobs_made)} jobs, {len(history) // 2} claims, {cluster.kills} kills, "
            f"{cluster.stops} stops"
        )
        return most_at_once(history)


async def _enqueue(app: App, calls: list[Any]) -> list[Any]:
    for call in calls:
        app.tasks.add(call.task)
    await app.store.declare_limits(
        [limit for task in (serial, three, rated) for limit in _definitions(task)]
    )
    return await app.enqueue_many(calls)


def _definitions(task: Any) -> list[Any]:
    return task.options_declared.limits.definitions()  # type: ignore[no-any-return]


def expect_limits(most: Counter[str], keys: int) -> None:
    assert len(most) == 2 * keys
    for gate, count in most.items():
        assert count <= LIMITS[gate.partition("#")[0]], (gate, count)
    assert max(most.values()) == 3, "the limit of three was used"


@pytest.mark.slow
async def test_limits_hold_while_nodes_stop_and_die(url: str) -> None:
    most = await harassed(url, jobs=300, nodes=3, keys=10, lasts=0.2, seconds=6.0)
    expect_limits(most, 10)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_limits_hold_on_six_nodes_for_long(url: str) -> None:
    most = await harassed(url, jobs=2_000, nodes=6, keys=20, lasts=0.6, seconds=40.0)
    expect_limits(most, 20)


async def begun_under_a_rate(url: str, *, nodes: int, seconds: float) -> list[float]:
    """Return when jobs of a rate of 100/s with a burst of 10 were begun, in seconds."""
    async with connected(url) as connection, App(url) as app:
        await connection.execute(WATCH_TIMES)
        cluster = Cluster(url, 0, nodes, slots=50)
        try:
            for node in cluster.nodes:
                await asyncio.to_thread(getattr, node, "id")
            calls = [rated.bind(number) for number in range(int(seconds * 100) + 500)]
            await _enqueue(app, calls)
            await asyncio.sleep(seconds + 1.0)
        finally:
            await asyncio.to_thread(cluster.close)
        rows = await connection.fetch("SELECT at FROM public.begun ORDER BY at")
    moments = [row["at"].timestamp() for row in rows]
    return [moment - moments[0] for moment in moments]


def most_in_a_second(moments: list[float]) -> int:
    """Return how many there are at most in any second, wherever it begins."""
    return max(bisect_left(moments, moment + 1.0) - n for n, moment in enumerate(moments))


@pytest.mark.slow
async def test_a_rate_holds_over_several_nodes(url: str) -> None:
    moments = await begun_under_a_rate(url, nodes=2, seconds=3.0)
    # A machine that is very busy may not use all of it; what it uses is never too much.
    assert 200 <= bisect_left(moments, 3.0) <= 310
    assert most_in_a_second(moments) <= 110


@pytest.mark.long
async def test_a_rate_holds_over_four_nodes_for_half_a_minute(url: str) -> None:
    moments = await begun_under_a_rate(url, nodes=4, seconds=30.0)
    begun, most = bisect_left(moments, 30.0), most_in_a_second(moments)
    print(f"{begun} begun in 30 s, at most {most} in a second")  # noqa: T201  for whoever looks
    assert 2_970 <= begun <= 3_010
    assert most <= 110


@pytest.mark.slow
async def test_shares_and_priorities_over_two_nodes(url: str) -> None:
    """Two nodes of one slot each: the urgent first, and of those three of gold for one of tin."""
    app = App(url)
    done: list[tuple[str, int]] = []
    app.queue("default", fair_key="tenant", weights={"gold": 3})

    @app.task(name="shared")
    async def shared(tenant: str, level: int) -> None:
        done.append((tenant, level))

    calls = [
        shared.options(priority=level).bind(tenant, level)
        for level in (1, 3)
        for tenant in ("gold", "tin")
        for _ in range(40)
    ]
    async with app:
        jobs = await app.enqueue_many(calls)
        async with app.node(concurrency=1), app.node(concurrency=1, name="other"):
            for job in jobs:
                await job.result(timeout=30)
    # Each node may hold one that it claimed when nothing more urgent was left.
    assert Counter(level for _, level in done[:80])[3] >= 76, done
    assert Counter(tenant for tenant, _ in done[:40])["gold"] == pytest.approx(30, abs=4), done
