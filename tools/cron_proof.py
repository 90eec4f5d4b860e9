"""Without this program "no slot is missed or doubled" would be a hope.

- world: for every IANA zone (zones with equal changes once), every change of its offset from 2000
  to 2037, and every expression below, the slots around the change are compared with those of an
  oracle that walks through the minutes one by one and shares no code with Detent
  (`cron_oracle.py`).
- random: 50,000 random expressions in each of 25 zones, around gaps and folds (`cron_random.py`).
- years: the same expressions over the years after a random day.
- peers: random expressions of a common kind, against croniter and cronsim (`cron_peers.py`).

    make cron-proof                                          everything, on all cores
    make cron-proof ARGS="--zones Europe/Berlin,Asia/Gaza"   the world, or a part of it
    make cron-proof ARGS="--part random --count 5000 --seed 7"
"""

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.pool import Pool
from zoneinfo import available_timezones

from detent.model.triggers import Cron
from tools.cron_oracle import Pattern, Walk, read, transitions
from tools.cron_peers import prove_peers
from tools.cron_random import ZONES, prove_random, prove_years
from tools.cron_tally import AROUND, HOUR, Tally, compare, drop_in, utc

FIRST_YEAR, LAST_YEAR = 2000, 2037
CHUNK = 1_000
"""A process takes so many random expressions at a time."""
SHOWN = 20
"""Of differences, so many are printed."""

#: What is compared, and how many hours before and after the change.
EXPRESSIONS: dict[str, int] = {
    # Named local times: around the hours at which clocks are set, and at midnight.
    "0 0 * * *": 36,
    "30 0 * * *": 36,
    "15 1 * * *": 36,
    "0 2 * * *": 36,
    "30 2 * * *": 36,
    "0 3 * * *": 36,
    "59 23 * * *": 36,
    "0,30 0,1,2,3,23 * * *": 36,
    "0-10 2 * * *": 36,
    "0 9 * * MON-FRI": 36,
    "30 2 * * SAT,SUN": 36,
    "0 0 L * *": 36,
    "30 1 LW * *": 36,
    "30 2 * * SUN#1": 36,
    "0 1 * * 0L": 36,
    "45 23 28-31 * *": 36,
    "30 0 1 * *": 36,
    "15 2 13 * FRI": 36,
    "0 12 * MAR,OCT *": 36,
    "15 30 2 * * *": 36,
    "*/20 30 1 * * *": 36,
    "@daily": 36,
    "@weekly": 36,
    "30 */3 * * *": 36,
    "0 */2 * * *": 36,
    "0 1-5/2 * * *": 36,
    "*/20 1-3 * * *": 26,
    "7-59/15 0-3 * * SAT,SUN": 26,
    "0 0 */6 * * *": 36,
    "10 */30 0-2 * * *": 26,
    "15 22-2 * * *": 36,
    "30 2 L-1W * *": 36,
    # Every minute or every hour: patterns, which follow real time.
    "* * * * *": 3,
    "*/15 * * * *": 4,
    "5/10 * * * *": 4,
    "0 * * * *": 26,
    "30 0-23 * * *": 26,
    "@hourly": 26,
    "* 2 * * *": 4,
    "0-59 1-3 * * *": 4,
    "*/10 * L * *": 4,
    "*/7 * * * SAT-SUN": 4,
    "*/30 * * * * *": 2,
    "45 59 * * * *": 26,
}
PATTERNS: dict[str, Pattern] = {expression: read(expression) for expression in EXPRESSIONS}


def prove_zone(zone: str, changes: Sequence[tuple[int, int, int]]) -> Tally:
    """Compare all expressions around the changes of one zone."""
    tally = Tally(zones=1)
    for instant, before, after in changes:
        tally.changes += 1
        walk = Walk(zone, instant - AROUND, instant + AROUND)
        chance = random.Random(f"{zone} {instant}")
        for expression, hours in EXPRESSIONS.items():
            begin, end = instant - hours * HOUR, instant + hours * HOUR
            expected = walk.slots(PATTERNS[expression], begin, end)
            trigger = Cron(expression, zone)
            place = f"{zone} at {utc(instant)} ({before:+}s to {after:+}s): {expression}"
            compare(tally, place, trigger, expected, (begin, end))
            drop_in(tally, place, trigger, expected, (begin, instant, end), chance)
    return tally


def _changes(zone: str) -> tuple[str, list[tuple[int, int, int]]]:
    return zone, transitions(zone, FIRST_YEAR, LAST_YEAR)


def _prove(work: tuple[Callable[..., Tally], tuple[object, ...]]) -> Tally:
    prove, arguments = work
    return prove(*arguments)


def _world(pool: Pool, zones: Sequence[str]) -> list[tuple[str, list[tuple[int, int, int]]]]:
    alike: dict[tuple[tuple[int, int, int], ...], str] = {}
    for zone, changes in pool.imap(_changes, zones, chunksize=8):
        alike.setdefault(tuple(changes), zone)
    works = [(zone, list(changes)) for changes, zone in alike.items() if changes]
    print(
        f"{len(zones)} zones, {len(works)} with changes of their own, "
        f"{sum(len(changes) for _, changes in works)} changes, {len(EXPRESSIONS)} expressions"
    )
    # Long ones first, such that the processes end together.
    return sorted(works, key=lambda work: -len(work[1]))


def _chunks(seed: int, count: int) -> list[tuple[int, int]]:
    """Return the seeds of chunks, and how many expressions each has."""
    return [
        (seed * 1_000_000 + begin, min(CHUNK, count - begin)) for begin in range(0, count, CHUNK)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove, print, and return 0 if nothing differs."""
    parser = argparse.ArgumentParser(description="compare cron slots with a slow oracle")
    parser.add_argument("--part", choices=("world", "random", "years", "peers"))
    parser.add_argument("--zones", help="names with commas between (default: all, or 25)")
    parser.add_argument("--count", type=int, default=50_000, help="of random expressions")
    parser.add_argument("--seed", type=int, default=1, help="of random expressions")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    known = sorted(available_timezones() - {"localtime"})
    zones = options.zones.split(",") if options.zones else None
    if unknown := sorted(set(zones or ()) - set(known)):
        parser.error(f"unknown zone {unknown[0]!r}")
    chunks = _chunks(options.seed, options.count)
    is_clean = True
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for part in [options.part] if options.part else ("world", "random", "years", "peers"):
            works: Iterable[tuple[object, ...]]
            prove: Callable[..., Tally]
            if part == "world":
                prove, works = prove_zone, _world(pool, zones or known)
            elif part == "random":
                prove = prove_random
                works = [(zone, *chunk) for chunk in chunks for zone in zones or ZONES]
            else:
                prove, works = prove_years if part == "years" else prove_peers, chunks
            is_clean &= _run(pool, part, prove, list(works))
    return 0 if is_clean else 1


def _run(
    pool: Pool, part: str, prove: Callable[..., Tally], works: list[tuple[object, ...]]
) -> bool:
    begun, total = time.monotonic(), Tally()
    results = pool.imap_unordered(_prove, [(prove, work) for work in works])
    for done, tally in enumerate(results, 1):
        total.add(tally)
        if done % max(len(works) // 20, 1) == 0 or done == len(works):
            seconds = time.monotonic() - begun
            print(f"{part} {done}/{len(works)}, {total.slots:,} slots, {seconds:.0f} s", flush=True)
    for line in total.differences[:SHOWN]:
        print(line)
    print(
        f"{part}: {total.changes:,} changes, {total.comparisons:,} comparisons, "
        f"{total.slots:,} slots in {time.monotonic() - begun:.0f} s: "
        f"{total.refused} refused, {total.doubled} doubled, {total.missed} missed, "
        f"{total.extra} too many, {total.astray} astray"
    )
    return total.is_clean or not works


if __name__ == "__main__":
    sys.exit(main())
