"""Plays many seeds on all cores, and says what they saw."""

import gc
import hashlib
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Final

from detent.testing.simulation.plan import Plan
from detent.testing.simulation.run import replay, simulate
from detent.testing.virtual import Deadlock

CHUNK: Final = 20
# Garbage is collected so rarely since most of it goes by itself, and the rest is small.
COLLECT: Final = 10
SHOWN: Final = 10


@dataclass(slots=True)
class Tally:
    """What many runs have seen together."""

    seeds: int = 0
    replayed: int = 0
    """How many seeds were played twice, to compare their histories."""
    seconds: float = 0.0
    """Virtual ones."""
    jobs: int = 0
    rescued: int = 0
    refused: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    """Seed to what was wrong with it."""

    def add(self, other: "Tally") -> None:
        """Take in what others have seen."""
        for name in ("seeds", "replayed", "seconds", "jobs", "rescued", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults.update(other.faults)
        self.delays += other.delays
        self.digests.update(other.digests)
        self.broken.update(other.broken)

    def digest(self) -> str:
        """Return one hash of all histories, in the order of their seeds."""
        lines = [f"{seed} {digest}\n" for seed, digest in sorted(self.digests.items())]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def lines(self, took: float, processes: int) -> Iterator[str]:
        """Return the result, in words."""
        yield (
            f"{self.seeds:,} seeds in {took:,.0f} s on {processes} processes: "
            f"{self.seeds / took:.1f} seeds/s, {self.seconds / 3600:,.1f} virtual hours"
        )
        yield f"  jobs        {self.jobs:,} attempts begun"
        faults = [f"{name} {count:,}" for name, count in sorted(self.faults.items())]
        yield f"  faults      {' · '.join(faults) or 'none'}"
        yield f"  rescues     {self.rescued:,}{_spread(self.delays)}"
        yield f"  zombies     {self.refused:,} late writes refused"
        yield f"  histories   {self.digest()[:16]}; {self.replayed:,} played twice, and the same"
        yield f"  violations  {len(self.broken):,} seeds"
        for seed in sorted(self.broken)[:SHOWN]:
            yield self.broken[seed]


def _spread(delays: Sequence[float]) -> str:
    if not delays:
        return ""
    ordered = sorted(delays)
    middle, high = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return (
        f"; while somebody was well, after the end of a lease: half within {middle:.2f} s, "
        f"99 % within {high:.2f} s, all within {ordered[-1]:.2f} s"
    )


def play(seeds: Sequence[int], plan: Plan) -> Tally:
    """Play some seeds in this process, the first of them twice."""
    tally = Tally()
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        for number, seed in enumerate(seeds):
            _play_one(tally, seed, plan, twice=number == 0)
            if number % COLLECT == COLLECT - 1:
                gc.collect()
    finally:
        if was_on:
            gc.enable()
    return tally


def _play_one(tally: Tally, seed: int, plan: Plan, *, twice: bool) -> None:
    tally.seeds += 1
    try:
        report = simulate(seed, plan)
    except (TimeoutError, Deadlock) as error:
        problem = str(error).partition(";")[0]
        tally.broken[seed] = f"seed {seed} did not come to an end: {problem}\n{replay(seed, plan)}"
        return
    tally.seconds += report.lasted
    tally.jobs += report.counts.get("JobStarted", 0)
    tally.rescued += report.rescued
    tally.refused += report.refused
    tally.faults.update(report.faults)
    tally.delays += report.delays
    tally.digests[seed] = report.digest
    if report.broken:
        tally.broken[seed] = report.explain()
    if twice:
        tally.replayed += 1
        if simulate(seed, plan).digest != report.digest:
            tally.broken[seed] = f"seed {seed} was another history when it was played again"


def campaign(seeds: Sequence[int], plan: Plan, processes: int | None = None) -> int:
    """Play seeds on several processes and print what came of it; return 1 if a rule was broken."""
    processes = processes or os.cpu_count() or 1
    began, tally, told = time.monotonic(), Tally(), 0
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(play, chunk, plan) for chunk in chunks]):
            played = done.result()
            for problem in played.broken.values():
                # At once: a long campaign need not be waited for.
                sys.stderr.write(f"{problem}\n")
            tally.add(played)
            told = _tell_progress(tally, len(seeds), time.monotonic() - began, told)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    for line in tally.lines(time.monotonic() - began, processes):
        sys.stdout.write(line + "\n")
    return 1 if tally.broken else 0


def _tell_progress(tally: Tally, seeds: int, took: float, told: int) -> int:
    """Say how far it is: always on a terminal, else at every tenth of the way, which it returns."""
    tenth = tally.seeds * 10 // seeds
    on_terminal = sys.stderr.isatty()
    if on_terminal or tenth != told:
        text = (
            f"{tally.seeds:,} of {seeds:,} seeds, {tally.seeds / took:.1f}/s, "
            f"{tally.seconds / 3600:,.1f} virtual hours, {len(tally.broken)} broken"
        )
        sys.stderr.write(f"\r\x1b[K{text}" if on_terminal else f"{text}\n")
        sys.stderr.flush()
    return tenth
