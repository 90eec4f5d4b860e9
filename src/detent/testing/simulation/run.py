"""One simulated run from its seed to its verdict."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from detent.stores.memory.tables import Tables
from detent.testing import virtual
from detent.testing.simulation.checker import waits_for_a_stranger
from detent.testing.simulation.cluster import Member, World, as_process, rescue_on
from detent.testing.simulation.line import WEATHERS, SeededLine
from detent.testing.simulation.people import Operator, Producer, Saboteur

PATIENCE: Final = 600.0
"""Virtual seconds after the last trouble within which every job must have ended."""
USUAL: Final = ("fair", "windy", "rough")


@dataclass(frozen=True, slots=True)
class Plan:
    """How big a run is; everything else follows from its seed."""

    nodes: int = 2
    jobs: int = 60
    lasts: float = 50.0
    """Virtual seconds during which jobs are enqueued and trouble is made."""
    weather: str | None = None
    """How bad the lines are, one of `WEATHERS`; None leaves it to the seed."""

    def arguments(self) -> str:
        """Return the plan as arguments of `python -m detent.testing.simulation`."""
        weather = f" --weather {self.weather}" if self.weather else ""
        return f"--nodes {self.nodes} --jobs {self.jobs}{weather}"


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run."""

    seed: int
    plan: Plan
    digest: str
    history: Sequence[str]
    broken: Sequence[str]
    counts: Mapping[str, int]
    """How often each kind of event was told."""

    def explain(self) -> str:
        """Return what went wrong and how to see it again."""
        head = f"seed {self.seed} broke {len(self.broken)} rules:"
        shown = [f"  {line}" for line in self.broken[:10]]
        command = f"python -m detent.testing.simulation {self.seed} {self.plan.arguments()}"
        replay = f"replay it with: {command}"
        return "\n".join([head, *shown, replay])


class Broken(AssertionError):
    """A run in which something happened that must not happen."""


def simulate(seed: int, plan: Plan | None = None) -> Report:
    """Run a cluster in virtual time and return what happened: the same for the same seed."""
    return virtual.run(_play(seed, plan or Plan()), limit=timedelta(hours=2))


def check(seed: int, plan: Plan | None = None) -> Report:
    """Do the same, and raise `Broken` with a way to see it again if any rule was broken."""
    report = simulate(seed, plan)
    if report.broken:
        raise Broken(report.explain())
    return report


async def _play(seed: int, plan: Plan) -> Report:
    chance = random.Random(f"{seed} plan")
    line = SeededLine(f"{seed} line", WEATHERS["fair"])
    world = World(str(seed), line, wakeups=chance.random() < 0.7)
    producer = Producer(world, plan.jobs, plan.lasts)
    operator = Operator(world, producer)
    members = [Member(world, f"node{number}") for number in range(1, plan.nodes + 1)]
    saboteur = Saboteur(world, members)
    rescuer = asyncio.create_task(as_process("rescuer", rescue_on(world)))
    for member in members:
        await member.start()
    line.weather = WEATHERS[plan.weather or chance.choice(USUAL)]
    await asyncio.gather(
        as_process("client", producer.run()),
        as_process("operator", operator.run(plan.lasts)),
        as_process("saboteur", saboteur.run(plan.lasts)),
    )
    line.weather = WEATHERS["fair"]
    await as_process("operator", operator.restore())
    await _rest(world)
    rescuer.cancel()
    for member in members:
        await member.drain()
    world.checker.finally_holds(world.store.tables, producer.acknowledged)
    history = world.history
    return Report(
        seed=seed,
        plan=plan,
        digest=history.digest(),
        history=tuple(history.lines),
        broken=tuple(world.checker.broken),
        counts=history.counts,
    )


async def _rest(world: World) -> None:
    """Wait until nothing is left to do; how long that may take is a promise too."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + PATIENCE
    while not _at_rest(world.store.tables) and loop.time() < ends_at:  # noqa: ASYNC110  no real time
        await asyncio.sleep(0.5)


def _at_rest(tables: Tables) -> bool:
    waits = all(waits_for_a_stranger(tables, job_id) for job_id in tables.parked)
    return not tables.ready and not tables.running and waits
