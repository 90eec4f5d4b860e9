"""One simulated run from its seed to its verdict."""

import asyncio
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from detent.testing import virtual
from detent.testing.simulation import knobs
from detent.testing.simulation.cluster import Member, World
from detent.testing.simulation.leases import OPERATOR
from detent.testing.simulation.network import WEATHERS
from detent.testing.simulation.people import Operator, Producer
from detent.testing.simulation.plan import Fate, Plan, fate_of
from detent.testing.simulation.process import gate
from detent.testing.simulation.saboteur import Saboteur
from detent.testing.simulation.timetable import Timetable
from detent.testing.simulation.verdict import FinalRules, at_rest
from detent.testing.virtual import running_loop

PATIENCE: Final = 600.0
"""Virtual seconds after the last trouble within which every job must have ended."""
SHORT_PATIENCE: Final = 60.0


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
    faults: Mapping[str, int]
    """How often each kind of fault was made."""
    refused: int
    """How many writes were refused that came too late."""
    rescued: int
    delays: Sequence[float]
    """For each job that somebody was able to rescue: seconds from the end of the lease to it."""
    lasted: float
    """Virtual seconds."""
    fired: int = 0
    """How many slots of schedules got a job."""
    delivered: int = 0
    """How many ends of jobs somebody outside was told of."""
    repeated: int = 0
    """How often he was told what he knew."""

    def explain(self) -> str:
        """Return what went wrong and how to see it again."""
        head = f"seed {self.seed} broke {len(self.broken)} rules:"
        shown = [f"  {line}" for line in self.broken[:10]]
        return "\n".join([head, *shown, replay(self.seed, self.plan)])


def replay(seed: int, plan: Plan) -> str:
    """Return how to see a run again."""
    command = f"python -m detent.testing.simulation {seed} {plan.arguments()}"
    return f"replay it with: {command.strip()}"


class Broken(AssertionError):
    """A run in which something happened that must not happen."""


def simulate(seed: int, plan: Plan | None = None) -> Report:
    """Run a cluster in virtual time and return what happened: the same for the same seed."""
    plan = plan or Plan()
    fate = fate_of(seed, plan)
    with knobs.turned(small=fate.small), _without_garbage_collection():
        return virtual.run(_play(seed, plan, fate), limit=timedelta(hours=2))


def check(seed: int, plan: Plan | None = None) -> Report:
    """Do the same, and raise `Broken` with a way to see it again if any rule was broken."""
    report = simulate(seed, plan)
    if report.broken:
        raise Broken(report.explain())
    return report


async def _play(seed: int, plan: Plan, fate: Fate) -> Report:
    loop = running_loop()
    loop.gate = gate
    world = World(fate)
    loop.set_exception_handler(lambda _loop, context: _escaped(world, context))
    try:
        made = await _live(world)
    finally:
        lasted = loop.time()
        world.end()
        await _clean_up()
    return Report(
        seed=seed,
        plan=plan,
        digest=world.history.digest(),
        history=tuple(world.history.lines),
        broken=tuple(world.book.broken),
        counts=world.history.counts,
        faults=_faults(world, made),
        refused=world.book.refused,
        rescued=world.book.rescued,
        delays=tuple(world.book.delays),
        lasted=lasted,
        fired=world.checker.schedules.fired,
        delivered=world.checker.outbox.delivered,
        repeated=world.checker.outbox.repeated,
    )


async def _live(world: World) -> dict[str, int]:
    """Let everybody do what he does, and everything come to rest; return what was broken."""
    fate = world.fate
    client, office = world.process("client"), world.process(OPERATOR)
    producer = Producer(world, world.app(client))
    operator = Operator(world, world.app(office), producer)
    members = [Member(world, f"node{number}") for number in range(1, fate.nodes + 1)]
    saboteur = Saboteur(world, members)
    timetable = Timetable(world)
    world.auditor.start()
    for member in members:
        await member.start()
    await office.run(timetable.begin(), "scheduling")
    world.network.weather = WEATHERS[fate.weather]
    if "wakes" in fate:
        world.notifier.loses, world.notifier.repeats = 0.3, 0.2
    await asyncio.gather(
        client.run(producer.run(), "enqueuing"),
        office.run(operator.run(fate.lasts), "interfering"),
        saboteur.run(fate.lasts),
    )
    world.network.weather = WEATHERS["fair"]
    await office.run(operator.restore(), "restoring")
    await office.run(timetable.rest(), "resting")
    await _rest(world)
    for member in members:
        member.supervised = False
    for member in members:
        await member.drain()
    world.auditor.stop()
    FinalRules(world.book).check(world.store.tables, producer.acknowledged)
    world.checker.schedules.check_end(world.store.tables)
    world.checker.outbox.check_end(world.store.tables)
    return {**saboteur.done, "lie": operator.lies}


async def _rest(world: World) -> None:
    """Wait until nothing is left to do; how long that may take is a promise too."""
    loop = running_loop()
    began = loop.time()
    while not at_rest(world.store.tables):
        # What is known to be wrong need not be looked at for long.
        if loop.time() - began > (SHORT_PATIENCE if world.book.broken else PATIENCE):
            return
        await asyncio.sleep(0.5)


async def _clean_up() -> None:
    """End everything that still runs; what ends may start something else, such as the next job."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


def _escaped(world: World, context: dict[str, Any]) -> None:
    """Something was raised where nobody could catch it."""
    what = context.get("exception") or context["message"]
    world.checker.crashed("loop", what if isinstance(what, BaseException) else RuntimeError(what))


def _faults(world: World, made: Mapping[str, int]) -> dict[str, int]:
    begun = world.ledger.runs.values()
    found = {
        **made,
        "lost messages": world.network.lost,
        "stalled messages": world.network.stalled,
        "lost wake-ups": world.notifier.lost,
        "repeated wake-ups": world.notifier.repeated,
        "poisoned": sum(run.task == "poison" for run in begun),
        "blocked loop": sum(run.task == "blocker" for run in begun),
        "skewed clocks": len(world.processes) if "skew" in world.fate else 0,
    }
    return {name: count for name, count in found.items() if count}


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep what nobody will ever wake until the end: when garbage goes would be seen otherwise.

    A killed process leaves coroutines behind. Collecting them runs their last blocks, and when
    that happens depends on what else this interpreter has been doing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
