"""Reads what the nodes of the trial left behind, and finds in it what must not have happened."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tests.chaos.tasks import BEGIN, Effect
from tests.ha.tasks import LEFT


class Stretch(NamedTuple):
    """One run of the daemon, or one time with the lock: from the first to the last sign of life."""

    began: float
    ended: float
    pid: int
    number: int
    """The term of the daemon, or the fence of the lock."""


def stretches(folder: Path, kind: str) -> list[Stretch]:
    """Return all stretches of a kind, in order of time."""
    found = []
    for path in folder.glob(f"*.{kind}"):
        runs: dict[str, list[float]] = defaultdict(list)
        numbers: dict[str, int] = {}
        for line in path.read_text().splitlines():
            run, at, number = line.split()
            runs[run].append(float(at))
            numbers[run] = int(number)
        pid = int(path.stem)
        found += [Stretch(min(at), max(at), pid, numbers[run]) for run, at in runs.items()]
    return sorted(found)


def overlaps(found: Sequence[Stretch]) -> list[str]:
    """Return when there were two at once, be it in one process."""
    return [
        f"for {min(one.ended, other.ended) - other.began:.2f} s (processes {one.pid}, {other.pid})"
        for number, one in enumerate(found)
        for other in found[number + 1 :]
        if other.began < one.ended
    ]


def not_greater(found: Sequence[Stretch]) -> list[str]:
    """Return the numbers that are not greater than the one before.

    A daemon that is started again by the same node may keep its term.
    """
    return [
        f"{before.number}, then {after.number} (processes {before.pid}, {after.pid})"
        for before, after in pairwise(found)
        if after.number < before.number
        or (after.number == before.number and after.pid != before.pid)
    ]


def gaps(found: Sequence[Stretch]) -> list[float]:
    """Return for how long there was none, each time."""
    return [max(after.began - before.ended, 0.0) for before, after in pairwise(found)]


def told_twice(folder: Path) -> list[str]:
    """Return the jobs whose end was told more than once."""
    counts = Counter(
        line for path in folder.glob("*.told") for line in path.read_text().splitlines()
    )
    return [f"{job} {count} times" for job, count in counts.items() if count > 1]


def most_at_once(effects: Sequence[Effect], jobs: set[UUID]) -> int:
    """Return how many of these jobs ran at the same time, at most."""
    most = running = 0
    for effect in effects:
        if effect.job in jobs and effect.what in (BEGIN, LEFT):
            running += 1 if effect.what == BEGIN else -1
            most = max(most, running)
    return most


def beside_themselves(effects: Sequence[Effect], jobs: set[UUID]) -> list[UUID]:
    """Return which of these jobs began again before their last run had left."""
    running: dict[UUID, None] = {}
    found: dict[UUID, None] = {}
    for effect in effects:
        if effect.job not in jobs:
            continue
        if effect.what == BEGIN and effect.job in running:
            found[effect.job] = None
        elif effect.what == BEGIN:
            running[effect.job] = None
        elif effect.what == LEFT:
            running.pop(effect.job, None)
    return list(found)
