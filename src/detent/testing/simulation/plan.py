"""What a run is like: how big it is, and which troubles its seed has in store for it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from detent.testing.simulation.network import WEATHERS

FAULTS: Final = {
    "cut": "processes lose their connection, one way or both",
    "kill": "processes end without a word, and come back under their name",
    "pause": "processes are stopped, often for longer than their lease, and go on",
    "restart": "processes are asked to end, and come back",
    "store": "the store restarts: all that is on its way is lost, carried out or not",
    "slow": "the store takes seconds for everything",
    "skew": "clocks differ by up to an hour, and run up to a hundredth too fast or slow",
    "wakes": "wake-ups are lost and come twice",
    "poison": "some jobs kill their process",
    "lie": "somebody declares nodes dead that are alive",
    "daemon": "nodes compete for a daemon that writes under its term",
    "block": "some jobs block their loop for up to three leases",
    "tail": "the store loses its last seconds, as when a standby is promoted that lagged behind",
}
TAIL: Final = "tail"
# Drawn apart: seeds without it have the histories that they had before there was this fault.
TAIL_SHARE: Final = 0.15
OUTAGE: Final = "outage"
"""No fault of the cluster: a service that jobs call, behind a breaker, is down now and then."""
OUTSIDE: Final = "outside"
"""No fault either: somebody outside is told how jobs end, and is slow and moody himself."""
WORKERS: Final = "workers"
"""Nor is this: some jobs need a worker of an executor, of which each node has fewer than slots."""
LANES: Final = "lanes"
"""Nor this: there are more jobs than slots, and a share of them needs a capability."""
USUAL: Final = ("fair", "fair", "windy", "rough")
LEASES: Final = (timedelta(seconds=6), timedelta(seconds=9), timedelta(seconds=15))
# Beats are a third of a lease apart, which is the most that is allowed.
BEATS: Final = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How big a run is; what is left open follows from its seed."""

    nodes: int | None = None
    """How many there are; None leaves it to the seed, from 3 to 5."""
    jobs: int = 36
    lasts: float = 30.0
    """Virtual seconds during which jobs are enqueued and trouble is made."""
    weather: str | None = None
    """How bad the lines are, one of `WEATHERS`; None leaves it to the seed."""
    faults: Sequence[str] | None = None
    """Which of `FAULTS` there are; None leaves it to the seed."""
    schedules: int | None = None
    """How many schedules fire every few seconds; None leaves it to the seed, up to 4."""
    breakers: bool = False
    """Whether a share of the jobs calls a service that fails for a while, behind a breaker.

    Never left to the seed: those who were there before it would have other histories.
    """

    sinks: bool = False
    """Whether somebody outside is told how jobs end; never left to the seed either."""

    workers: bool = False
    """Whether a share of the jobs needs workers that are few; never left to the seed either."""

    lanes: bool = False
    """Whether a share of the jobs needs a capability; never left to the seed either."""

    def arguments(self) -> str:
        """Return the plan as arguments of `python -m detent.testing.simulation`."""
        usual = Plan()
        given = [
            f"--{name} {value}"
            for name, value in (
                ("nodes", self.nodes),
                ("jobs", None if self.jobs == usual.jobs else self.jobs),
                ("weather", self.weather),
                ("faults", None if self.faults is None else ",".join(self.faults) or "none"),
                ("schedules", self.schedules),
            )
            if value is not None
        ]
        flags = (
            ("--breakers", self.breakers),
            ("--sinks", self.sinks),
            ("--workers", self.workers),
            ("--lanes", self.lanes),
        )
        return " ".join([*given, *(flag for flag, is_set in flags if is_set)])


@dataclass(frozen=True, slots=True)
class Fate:
    """A plan with nothing left open."""

    seed: str
    nodes: int
    jobs: int
    lasts: float
    weather: str
    faults: Sequence[str]
    wakeups: bool
    lease: timedelta
    small: bool
    """Whether pages and batches are so small that their ends are met."""
    hands: int
    """How many troubles may come at a time."""
    spares_one: bool
    """Whether the first node is left alone, so that somebody is always able to help."""
    knows_the_dead: bool
    """Whether a process that starts can tell that its predecessor has ended."""
    schedules: int
    """How many schedules fire every few seconds."""

    def __contains__(self, fault: str) -> bool:
        return fault in self.faults


def fate_of(seed: int, plan: Plan) -> Fate:
    """Return what a seed makes of a plan: another mixture of troubles for each."""
    chance = random.Random(f"{seed} plan")
    share = chance.choice((0.2, 0.4, 0.6))
    drawn = [fault for fault in FAULTS if fault != TAIL and chance.random() < share]
    if random.Random(f"{seed} tail").random() < TAIL_SHARE:
        drawn.append(TAIL)
    weather = chance.choice(USUAL)
    faults = drawn if plan.faults is None else plan.faults
    asked = (
        (OUTAGE, plan.breakers),
        (OUTSIDE, plan.sinks),
        (WORKERS, plan.workers),
        (LANES, plan.lanes),
    )
    return Fate(
        seed=str(seed),
        nodes=chance.randint(3, 5) if plan.nodes is None else plan.nodes,
        jobs=plan.jobs,
        lasts=plan.lasts,
        weather=weather if plan.weather is None else plan.weather,
        faults=(*faults, *(name for name, is_asked in asked if is_asked)),
        wakeups=chance.random() < 0.7,
        lease=chance.choice(LEASES),
        small=chance.random() < 0.5,
        hands=chance.randint(1, 3),
        spares_one=chance.random() < 0.5,
        knows_the_dead=chance.random() < 0.5,
        schedules=chance.choice((0, 0, 2, 4)) if plan.schedules is None else plan.schedules,
    )


def checked(faults: Sequence[str]) -> Sequence[str]:
    """Return names of faults, all of which exist."""
    unknown = [fault for fault in faults if fault not in FAULTS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no fault; there are: {', '.join(FAULTS)}")
    return faults


__all__ = ["FAULTS", "WEATHERS", "Fate", "Plan", "checked", "fate_of"]
