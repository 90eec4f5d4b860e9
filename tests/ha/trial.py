"""One set-up: a cluster, nodes at work, one primary lost after the other, and the verdict."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from detent.stores.postgres.migrations import migrate
from tests.chaos.ledger import shown
from tests.chaos.schedules import Timetable
from tests.chaos.tasks import BEGIN, FOLDER, Effect, EffectFiles
from tests.chaos.verdict import Verdict, judge
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.pgbouncer import PgBouncer
from tests.debian import ROOT
from tests.ha.cluster import Cluster, HAProxy
from tests.ha.members import Member, Times
from tests.ha.producers import Producers
from tests.ha.tasks import PERMITS
from tests.ha.traces import (
    Stretch,
    beside_themselves,
    gaps,
    most_at_once,
    not_greater,
    overlaps,
    stretches,
    told_twice,
)
from tests.node_process import NodeProcess

NODES: Final = 3
BAR: Final = 5.0
"""Seconds from the first write that a new primary takes to the first new job."""
WORK: Final = 5.0
PATIENCE: Final = 90.0
RETURNED: Final = 30.0
"""Seconds in which a node has the daemon, and the lock, when all is well again."""
ALONE: Final = ("daemon", "lock")
"""What one node alone may have."""
SETUPS: Final = ("hosts", "haproxy", "pooler")
# Orphaned: only its Patroni died. Session: the primary stays; only the sessions of leaders end.
FAULTS: Final = {
    "postmaster": 3,
    "host": 3,
    "switchover": 3,
    "silent": 2,
    "orphaned": 1,
    "session": 3,
}
# No process of a node dies in this trial, so none of these may be on record.
EXPIRED: Final = "SELECT name FROM detent.detent_node WHERE death = 'its lease ran out'"
TAKEN: Final = "SELECT id FROM detent.detent_attempt WHERE kind IN ('crashed', 'unstarted')"
# Behind a pooler leaders have no sessions of their own: there all sessions end.
END_SESSIONS: Final = """
    WITH led AS MATERIALIZED (
        SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
    )
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND (pid IN (SELECT pid FROM led) OR NOT EXISTS (SELECT 1 FROM led))
"""


class Plan(NamedTuple):
    """What is tried."""

    setup: str
    times: Times
    faults: Sequence[str]


class Ways(NamedTuple):
    """How nodes and callers reach the database."""

    url: str
    wakeup: str | None = None


class Failover(NamedTuple):
    """What one fault cost, in seconds."""

    fault: str
    outage: float
    """Until another server took writes."""
    first: float
    """From then on, until a job ran that was enqueued later."""
    all_nodes: float
    """From then on, until every node had begun a job."""


async def run(plan: Plan, folder: Path) -> Verdict:
    """Run one set-up. However it ends, it leaves no process behind."""
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(folder, plan.times))
        ways = stack.enter_context(_ways(plan.setup, cluster, folder))
        await migrate(cluster.url)
        effects = folder / "effects"
        effects.mkdir()
        nodes = await stack.enter_async_context(_nodes(ways, effects, folder))
        trial = Trial(plan, cluster, ways.url, effects)
        try:
            await trial.play()
        finally:
            codes = await asyncio.gather(*map(_stop, nodes))
        verdict = await trial.judge()
        verdict.refuse("a node did not leave in peace", [code for code in codes if code != 0])
        said = "".join(node.said() for node in nodes)
        verdict.refuse("history was lost", ["see the logs"] * said.count("history was lost"))
        verdict.numbers["nodes that fenced themselves"] = said.count("could not prove that it is")
        return verdict


@contextlib.contextmanager
def _ways(setup: str, cluster: Cluster, folder: Path) -> Iterator[Ways]:
    if setup == "hosts":
        yield Ways(cluster.url)
        return
    with HAProxy(cluster, folder) as proxy:
        if setup == "haproxy":
            yield Ways(proxy.url)
            return
        with PgBouncer(proxy, 20, "server_login_retry = 1") as pooler:
            yield Ways(pooler.url(proxy.url), proxy.url)


@contextlib.asynccontextmanager
async def _nodes(ways: Ways, effects: Path, folder: Path) -> AsyncIterator[list[NodeProcess]]:
    """Start the nodes; at the end of the block there are none, and what they said is written."""
    environ = {FOLDER: str(effects)}
    if ways.wakeup is not None:
        environ["DETENT_WAKEUP_URL"] = ways.wakeup
    options = ("tests.ha.tasks:app", ways.url, "--concurrency", "12")
    nodes = [NodeProcess(*options, cwd=ROOT, **environ) for _ in range(NODES)]
    try:
        for node in nodes:
            await asyncio.to_thread(node.wait_for, "started; taking jobs", PATIENCE)
        yield nodes
    finally:
        for number, node in enumerate(nodes, 1):
            node.close()
            (folder / f"node-{number}.log").write_text(node.said())


async def _stop(node: NodeProcess) -> int:
    node.signal()
    return await asyncio.to_thread(node.ended, PATIENCE)


class Trial:
    """Loses one primary after the other, and takes the times."""

    def __init__(self, plan: Plan, cluster: Cluster, url: str, effects: Path) -> None:
        self._plan = plan
        self._cluster = cluster
        self._folder = effects
        self._effects = EffectFiles(effects)
        self._producers = Producers(url)
        self._timetable = Timetable(url)
        self._failovers: list[Failover] = []
        self._had: list[str] = []

    async def play(self) -> None:
        """Let jobs come while primaries are lost; then wait until all have ended."""
        await self._timetable.begin()
        self._producers.start()
        try:
            await asyncio.sleep(WORK)
            for fault in self._plan.faults:
                await self._lose_primary(fault)
                await asyncio.sleep(WORK)
        finally:
            await self._producers.stop()
            await self._timetable.rest()
        async with connected((await self._cluster.primary()).url()) as connection:
            # What has not ended by then is named by the verdict.
            with contextlib.suppress(AssertionError):
                await until_all_ended(connection, PATIENCE)
        now = time.time()
        for kind in ALONE:
            with contextlib.suppress(AssertionError):
                await until(partial(self._is_had, kind, now), f"the {kind}", RETURNED)
                self._had.append(kind)

    async def _is_had(self, kind: str, after: float) -> bool:
        """Tell whether a node has had the daemon or the lock since a moment."""
        return any(each.ended > after for each in stretches(self._folder, kind))

    async def _lose_primary(self, fault: str) -> None:
        primary = await self._cluster.primary()
        began = time.time()
        await self._strike(fault, primary)
        goes_on = fault == "session"
        writable = time.time() if goes_on else await self._cluster.until_writable(primary)
        first = await self._first_job_after(writable)
        everyone = await self._all_nodes_after(writable)
        cost = Failover(fault, writable - began, first - writable, everyone - writable)
        self._failovers.append(cost)
        print(  # noqa: T201  for the person who waits
            f"  {fault:<12} new primary after {cost.outage:5.1f} s, first job {cost.first:5.1f} s "
            f"later, on all nodes {cost.all_nodes:5.1f} s later",
            flush=True,
        )
        # With the old one still away: nothing depends on its coming back.
        await asyncio.sleep(WORK)
        self._mend(fault, primary)
        await self._cluster.until_healthy()

    async def _strike(self, fault: str, primary: Member) -> None:
        if fault == "postmaster":
            primary.kill_postmaster()
        elif fault == "host":
            await asyncio.to_thread(primary.kill)
        elif fault == "switchover":
            await self._cluster.switch_over(primary)
        elif fault == "orphaned":
            primary.kill_patroni()
        elif fault == "session":
            async with connected(primary.url()) as connection:
                assert await connection.fetchval(END_SESSIONS) > 0
        else:
            primary.send(signal.SIGSTOP)

    def _mend(self, fault: str, primary: Member) -> None:
        if fault in ("host", "orphaned"):
            primary.start()
        elif fault == "silent":
            primary.send(signal.SIGCONT)

    async def _first_job_after(self, moment: float) -> float:
        """Return when the first job began that was acknowledged after a moment."""
        begun: list[float] = []

        async def has_begun() -> bool:
            known = self._producers.acknowledged
            begun[:] = [
                effect.at
                for effect in self._begun_after(moment)
                if known.get(effect.job, 0) > moment
            ]
            return bool(begun)

        await until(has_begun, "the first job after a failover", PATIENCE)
        return min(begun)

    def _begun_after(self, moment: float) -> Iterator[Effect]:
        """Yield what began after a moment, the latest first.

        Nothing older is looked at: the callers share this process, and would be slowed down.
        """
        for effect in reversed(self._effects.read()):
            if effect.at <= moment:
                return
            if effect.what == BEGIN:
                yield effect

    async def _all_nodes_after(self, moment: float) -> float:
        """Return when the last of the nodes began its first job after a moment."""
        firsts: dict[int, float] = {}

        async def have_begun() -> bool:
            for effect in self._begun_after(moment):
                firsts[effect.pid] = effect.at
            return len(firsts) == NODES

        await until(have_begun, "a job on every node after a failover", PATIENCE)
        return max(firsts.values())

    async def judge(self) -> Verdict:
        """Compare what was promised, what is stored and what was done."""
        effects = self._effects.read()
        acknowledged = self._producers.acknowledged
        async with connected((await self._cluster.primary()).url()) as connection:
            verdict = await judge(connection, list(acknowledged), effects)
            slots = await self._timetable.judge(connection)
            expired = [row["name"] for row in await connection.fetch(EXPIRED)]
            taken = [row["id"] for row in await connection.fetch(TAKEN)]
        verdict.refuse("a slot of a schedule has not exactly one job", slots)
        verdict.refuse("a job was counted as crashed, or taken from a living node", taken)
        verdict.refuse("a node that lives was declared dead", expired)
        verdict.refuse("the end of a job was told twice", told_twice(self._folder))
        slow = [f"{f.fault} {f.first:.1f} s" for f in self._failovers if f.first > BAR]
        verdict.refuse(f"the first job took longer than {BAR:g} s", slow)
        limited, long = self._producers.limited, self._producers.long
        most = most_at_once(effects, limited)
        verdict.refuse(f"a limit of {PERMITS} was exceeded", [most] if most > PERMITS else [])
        twins = beside_themselves(effects, limited | long)
        verdict.refuse("a job ran twice at the same time", twins)
        begun = sum(effect.what == BEGIN for effect in effects)
        verdict.numbers |= {
            "set-up": self._plan.setup,
            "Patroni's ttl, loop_wait, retry": "{}, {}, {} s".format(*self._plan.times),
            "failovers": len(self._failovers),
            "outage: p50 / p99 / worst": shown([each.outage for each in self._failovers]),
            "first job after the new primary": shown([each.first for each in self._failovers]),
            "  on all nodes": shown([each.all_nodes for each in self._failovers]),
            "jobs acknowledged": f"{len(acknowledged):,}",
            "enqueues refused": f"{self._producers.refused:,}",
            "runs begun again": f"{begun - len(verdict.runs):,}",
            f"limit of {PERMITS}: most at once": most,
            "slots of schedules, each one job": f"{self._timetable.slots:,}",
        }
        for kind in ALONE:
            self._judge_alone(verdict, kind, stretches(self._folder, kind))
        return verdict

    def _judge_alone(self, verdict: Verdict, what: str, found: list[Stretch]) -> None:
        """Judge what one node alone may have, and what some node must have in the end."""
        verdict.refuse(f"two nodes had the {what} at once", overlaps(found))
        verdict.refuse(f"a number of the {what} is not greater than the last", not_greater(found))
        gone = [] if what in self._had else [f"for {RETURNED:g} s"]
        verdict.refuse(f"no node had the {what} in the end", gone)
        verdict.numbers[f"times with the {what}"] = f"{len(found):,}"
        verdict.numbers[f"  no {what} between them"] = shown(gaps(found))
