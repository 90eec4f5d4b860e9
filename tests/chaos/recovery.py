"""`python -m tests.chaos.recovery`: how long the cluster takes to get over a loss, measured.

Each measurement is a function that the tests of `tests/cluster/test_recovery.py` also run, once and
with generous bars. Here they are repeated, with a backlog of 100,000 jobs, and all is printed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from detent.stores.postgres.migrations import migrate
from detent.testing.postgres import TemporaryPostgres
from tests.chaos.ledger import percentile, shown
from tests.chaos.scene import Scene, lives, short_lease
from tests.chaos.tasks import BEGIN

SLOTS: Final = 40
LASTS: Final = 0.25
DEFAULT_LEASE: Final = 15.0
MANY: Final = 500
LEADER_WITHIN: Final = 5.0
# What a rate is counted over, in seconds; the slots are far below what the machine can do.
WINDOW: Final = 1.0
RECOVERED: Final = 0.9
RECOVERED_WITHIN: Final = 10.0


@dataclass(slots=True)
class Measured:
    """Times in seconds, and the bar for their 99th percentile."""

    what: str
    bar: float
    times: list[float] = field(default_factory=list)

    @property
    def p99(self) -> float:
        return percentile(self.times, 0.99)

    @property
    def holds(self) -> bool:
        return self.p99 <= self.bar

    def text(self) -> str:
        """Return the line that is printed: p50, p99 and the longest."""
        verdict = "" if self.holds else "  MISSED"
        return (
            f"{self.what:<58} {shown(self.times):>22}   of {len(self.times):>5,}"
            f"   p99 ≤ {self.bar:g} s{verdict}"
        )


async def lost_host(scene: Scene, *, lease: float, backlog: int, kills: int) -> Measured:
    """Kill nodes that the others cannot see, while a backlog waits."""
    setting = {} if lease == DEFAULT_LEASE else short_lease(lease)
    for _ in range(2):
        scene.start("--concurrency", str(SLOTS), alone=True, **setting)
    await scene.enqueue(backlog, LASTS)
    measured = Measured(f"lost host, lease {lease:g} s, {backlog:,} waiting", lease + 2.0)
    for _ in range(kills):
        victim = scene.start("--concurrency", str(SLOTS), alone=True, **setting)
        await scene.until_busy(victim, SLOTS)
        measured.times += await scene.kill(victim.pid)
    return measured


async def lost_child(scene: Scene, *, backlog: int, kills: int) -> Measured:
    """Kill processes that have a supervisor, while a backlog waits."""
    scene.start("--processes", "3", "--concurrency", str(SLOTS))
    await scene.enqueue(backlog, LASTS)
    measured = Measured(f"lost process with a supervisor, {backlog:,} waiting", 1.0)
    for _ in range(kills):
        await scene.until(lambda: len(_busy(scene)) == 3, "three busy children")
        measured.times += await scene.kill(_busy(scene)[0])
    return measured


def _busy(scene: Scene) -> list[int]:
    """Return the processes that live and are full."""
    now = time.time()
    begun = [effect for effect in scene.effects() if effect.at > now - 2.0]
    pids = {effect.pid for effect in begun if effect.what == BEGIN}
    return [pid for pid in sorted(pids) if len(scene.running(pid)) >= SLOTS and lives(pid)]


async def many_jobs(scene: Scene, *, lease: float) -> Measured:
    """Lose a host that ran 500 jobs: all of them run at once again."""
    setting = short_lease(lease)
    victim = scene.start("--concurrency", str(MANY), alone=True, **setting)
    await scene.enqueue(MANY, 60.0)
    await scene.until_busy(victim, MANY)
    other = scene.start("--concurrency", str(MANY), alone=True, **setting)
    assert other.id != victim.id
    what = f"{MANY} jobs of a lost host, lease {lease:g} s"
    measured = Measured(what, lease + 2.0, await scene.kill(victim.pid))
    assert len(measured.times) == MANY
    await scene.until(lambda: len(scene.running(other.pid)) == MANY, "500 jobs at once", 5.0)
    return measured


async def lost_leader(scene: Scene, *, kills: int) -> Measured:
    """Kill the leader, with the settings as they are."""
    measured = Measured("lost leader to a new term", LEADER_WITHIN)
    for number in range(3):
        scene.start("--name", f"candidate-{number}")
    for _ in range(kills):
        term, holder = await _led(scene, after=0)
        (leader,) = [node for node in scene.nodes if node.alive and str(node.id) == holder]
        await asyncio.sleep(1.0)  # the others have asked by now
        leader.kill()
        killed = time.monotonic()
        await _led(scene, after=term)
        measured.times.append(time.monotonic() - killed)
        scene.start()
    return measured


async def _led(scene: Scene, after: int) -> tuple[int, str]:
    """Wait until there is a leader of a later term; return the term and who it is."""
    while True:
        for found in await scene.app.leaders.list():
            if found.role == "maintenance" and found.holder is not None and found.term > after:
                return found.term, str(found.holder)
        await asyncio.sleep(0.01)


async def restarts(scene: Scene, server: TemporaryPostgres, *, times: int) -> Measured:
    """Kill the database under load, again and again: how long until the load is carried again."""
    nodes = [scene.start("--concurrency", str(SLOTS)) for _ in range(2)]
    measured = Measured(f"PostgreSQL killed: back to {RECOVERED:.0%} of the load", RECOVERED_WITHIN)
    async with scene.load(2 * SLOTS / LASTS, LASTS):
        for _ in range(times):
            wanted = RECOVERED * await _steady_rate(scene)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            measured.times.append(await _until_carried(scene, wanted))
    assert all(node.alive for node in nodes), "a node has ended"
    return measured


async def _until_carried(scene: Scene, wanted: float) -> float:
    """Return after how many seconds so many jobs a second begin again."""
    back = time.time()
    await scene.until(
        lambda: time.time() > back + WINDOW and _rate(scene) >= wanted,
        f"{wanted:.0f} jobs/s",
        pause=0.1,
    )
    return time.time() - back


def _rate(scene: Scene) -> float:
    now = time.time()
    return sum(e.what == BEGIN and e.at > now - WINDOW for e in scene.effects()) / WINDOW


async def _steady_rate(scene: Scene) -> float:
    """Return the rate of a few seconds without trouble."""
    await scene.until(lambda: _rate(scene) > SLOTS, "the nodes to be at work")
    await asyncio.sleep(WINDOW)
    rates = []
    for _ in range(8):
        await asyncio.sleep(WINDOW / 4)
        rates.append(_rate(scene))
    return median(rates)


Measurement = Callable[[Scene, TemporaryPostgres], Awaitable[Measured]]
MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "host": lambda scene, _: lost_host(scene, lease=3.0, backlog=100_000, kills=8),
    "defaults": lambda scene, _: lost_host(scene, lease=DEFAULT_LEASE, backlog=100_000, kills=3),
    "child": lambda scene, _: lost_child(scene, backlog=100_000, kills=8),
    "many": lambda scene, _: many_jobs(scene, lease=3.0),
    "leader": lambda scene, _: lost_leader(scene, kills=5),
    "restarts": lambda scene, server: restarts(scene, server, times=10),
}


async def measure(measurement: Measurement) -> Measured:
    """Measure on a server of its own, with nothing left behind."""
    settings = {"max_connections": "200"}
    with (
        tempfile.TemporaryDirectory(prefix="detent-recovery-") as folder,
        TemporaryPostgres(durable=True, settings=settings) as server,
    ):
        url = server.create_database("recovery")
        await migrate(url, "detent")
        scene = Scene(url, Path(folder))
        try:
            return await measurement(scene, server)
        finally:
            await scene.close()


def main() -> int:
    """Measure everything, or what is named; return 1 when a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.recovery", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    names = parser.parse_args().names or list(MEASUREMENTS)
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(MEASUREMENTS)}")
    print(f"{'seconds from the loss':<58} {'p50 / p99 / longest':>22}")  # noqa: T201  the report
    missed = 0
    for name in names:
        measured = asyncio.run(measure(MEASUREMENTS[name]))
        print(measured.text(), flush=True)  # noqa: T201  the report
        missed += not measured.holds
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
