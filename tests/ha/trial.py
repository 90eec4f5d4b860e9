"""One set-up: a cluster, nodes at work, one primary lost after the other, and the verdict."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from detent.stores.postgres.migrations import migrate
from tests.chaos.ledger import shown
from tests.chaos.schedules import Timetable
from tests.chaos.tasks import BEGIN, FOLDER, EffectFiles
from tests.chaos.verdict import Verdict, judge
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.pgbouncer import PgBouncer
from tests.debian import ROOT
from tests.ha.cluster import Cluster, HAProxy
from tests.ha.members import Member, Times
from tests.ha.producers import Producers
from tests.ha.tasks import PERMITS, most_at_once, overlaps, stretches
from tests.node_process import NodeProcess

NODES: Final = 3
BAR: Final = 5.0
"""Seconds from the first write that a new primary takes to the first new job."""
WORK: Final = 5.0
PATIENCE: Final = 90.0
SETUPS: Final = ("hosts", "haproxy", "pooler")
# Orphaned: only its Patroni died. Not by default, since a Patroni that is started again beside such
# a primary has been seen to let it acknowledge commits that are then lost.
FAULTS: Final = {"postmaster": 3, "host": 3, "switchover": 3, "silent": 2, "orphaned": 0}


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
            await until_all_ended(connection, PATIENCE)

    async def _lose_primary(self, fault: str) -> None:
        primary = await self._cluster.primary()
        began = time.time()
        await self._strike(fault, primary)
        writable = await self._cluster.until_writable(primary)
        first = await self._first_job_after(writable)
        self._failovers.append(Failover(fault, writable - began, first - writable))
        print(  # noqa: T201  for whoever waits
            f"  {fault:<12} new primary after {writable - began:5.1f} s, first job "
            f"{first - writable:5.1f} s later",
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
        else:
            primary.send(signal.SIGSTOP)

    def _mend(self, fault: str, primary: Member) -> None:
        if fault in ("host", "orphaned"):
            primary.start()
        elif fault == "silent":
            primary.send(signal.SIGCONT)

    async def _first_job_after(self, moment: float) -> float:
        """Return when the first job began that was acknowledged after a moment."""
        found = float("inf")

        async def has_begun() -> bool:
            nonlocal found
            known = self._producers.acknowledged
            begun = (
                effect.at
                for effect in reversed(self._effects.read())
                if effect.what == BEGIN and known.get(effect.job, 0.0) > moment
            )
            found = min(begun, default=found)
            return found < float("inf")

        await until(has_begun, "the first job after a failover", PATIENCE)
        return found

    async def judge(self) -> Verdict:
        """Compare what was promised, what is stored and what was done."""
        effects = self._effects.read()
        acknowledged = self._producers.acknowledged
        async with connected((await self._cluster.primary()).url()) as connection:
            verdict = await judge(connection, list(acknowledged), effects)
            slots = await self._timetable.judge(connection)
        verdict.refuse("a slot of a schedule has not exactly one job", slots)
        verdict.refuse("a job was counted as crashed", list(verdict.crashes))
        verdict.refuse("a daemon ran on two nodes", overlaps(stretches(self._folder)))
        slow = [f"{f.fault} {f.first:.1f} s" for f in self._failovers if f.first > BAR]
        verdict.refuse(f"the first job took longer than {BAR:g} s", slow)
        most = most_at_once(effects, self._producers.limited)
        verdict.refuse(f"a limit of {PERMITS} was exceeded", [most] if most > PERMITS else [])
        begun = sum(effect.what == BEGIN for effect in effects)
        verdict.numbers |= {
            "set-up": self._plan.setup,
            "Patroni's ttl, loop_wait, retry": "{}, {}, {} s".format(*self._plan.times),
            "failovers": len(self._failovers),
            "outage: p50 / p99 / worst": shown([each.outage for each in self._failovers]),
            "first job after the new primary": shown([each.first for each in self._failovers]),
            "jobs acknowledged": f"{len(acknowledged):,}",
            "enqueues refused": f"{self._producers.refused:,}",
            "runs begun again": f"{begun - len(verdict.runs):,}",
            f"limit of {PERMITS}: most at once": most,
            "slots of schedules, each one job": f"{self._timetable.slots:,}",
            "runs of the daemon": len(stretches(self._folder)),
        }
        return verdict
