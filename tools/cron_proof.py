"""Without this program "no slot is missed or doubled" would be a hope.

For every IANA zone (zones with equal changes once), every change of its offset from 2000 to 2037,
and every expression below, the slots around the change are compared with those of an oracle that
walks through the minutes one by one and shares no code with Detent (`cron_oracle.py`).

    make cron-proof                                       everything, on all cores
    make cron-proof ARGS="--zones Europe/Berlin,Asia/Gaza"   some zones
"""

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

from detent.model.triggers import Cron
from tools.cron_oracle import Pattern, Walk, read, transitions

FIRST_YEAR, LAST_YEAR = 2000, 2037
HOUR = 3600
AROUND = 72 * HOUR
"""The oracle walks so far before and after a change."""
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
    # Patterns, which follow real time.
    "* * * * *": 3,
    "*/15 * * * *": 4,
    "5/10 * * * *": 4,
    "0 * * * *": 26,
    "@hourly": 26,
    "30 */3 * * *": 36,
    "0 */2 * * *": 36,
    "0 1-5/2 * * *": 36,
    "*/20 1-3 * * *": 26,
    "* 2 * * *": 4,
    "7-59/15 0-3 * * SAT,SUN": 26,
    "*/10 * L * *": 4,
    "*/30 * * * * *": 2,
    "0 0 */6 * * *": 36,
    "10 */30 0-2 * * *": 26,
}
PATTERNS: dict[str, Pattern] = {expression: read(expression) for expression in EXPRESSIONS}


@dataclass
class Tally:
    """What was compared, and what differed."""

    zones: int = 0
    changes: int = 0
    comparisons: int = 0
    slots: int = 0
    doubled: int = 0
    missed: int = 0
    extra: int = 0
    astray: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def is_clean(self) -> bool:
        return self.slots > 0 and not self.doubled + self.missed + self.extra + self.astray


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
            place = f"{zone} at {_utc(instant)} ({before:+}s to {after:+}s): {expression}"
            _compare(tally, place, trigger, expected, (begin, end))
            _drop_in(tally, place, trigger, expected, (begin, instant, end), chance)
    return tally


def _compare(
    tally: Tally, place: str, trigger: Cron, expected: list[datetime], core: tuple[int, int]
) -> None:
    """Go from slot to slot, as a schedule does."""
    found = list(_slots(trigger, _utc(core[0]) - timedelta(seconds=1), _utc(core[1])))
    tally.comparisons += 1
    tally.slots += len(expected)
    if found == expected:
        return
    missed = sorted(set(expected) - set(found))
    extra = sorted(set(found) - set(expected))
    tally.missed += len(missed)
    tally.extra += len(extra)
    tally.doubled += len(found) - len(set(found))
    tally.differences.append(f"{place}: missed {missed[:3]}, too many {extra[:3]}")


def _drop_in(
    tally: Tally,
    place: str,
    trigger: Cron,
    expected: list[datetime],
    core: tuple[int, int, int],
    chance: random.Random,
) -> None:
    """Ask from anywhere, as a schedule that is declared just then does."""
    begin, change, end = core
    near = timedelta(microseconds=1)
    moments = [_utc(change) - near, _utc(change), _utc(change) + near]
    moments += [_utc(chance.uniform(begin, end)) for _ in range(3)]
    for moment in moments:
        wanted = next((slot for slot in expected if slot > moment), None)
        found = trigger.next_after(moment)
        tally.comparisons += 1
        if found is not None and found > _utc(end):
            found = None
        if found != wanted:
            tally.astray += 1
            tally.differences.append(f"{place}: after {moment} comes {found}, not {wanted}")


def _slots(trigger: Cron, after: datetime, end: datetime) -> Iterator[datetime]:
    slot = trigger.next_after(after)
    while slot is not None and slot <= end:
        yield slot
        following = trigger.next_after(slot)
        if following is not None and following <= slot:
            yield following  # Doubled, or backwards: told, and not followed for ever.
            return
        slot = following


def _utc(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def _changes(zone: str) -> tuple[str, list[tuple[int, int, int]]]:
    return zone, transitions(zone, FIRST_YEAR, LAST_YEAR)


def _prove(work: tuple[str, list[tuple[int, int, int]]]) -> Tally:
    return prove_zone(*work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove, print, and return 0 if nothing differs."""
    parser = argparse.ArgumentParser(description="compare cron slots with a slow oracle")
    parser.add_argument("--zones", help="names with commas between (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    known = sorted(available_timezones() - {"localtime"})
    zones = options.zones.split(",") if options.zones else known
    if unknown := sorted(set(zones) - set(known)):
        parser.error(f"unknown zone {unknown[0]!r}")
    begun = time.monotonic()
    total = Tally()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        alike: dict[tuple[tuple[int, int, int], ...], str] = {}
        for zone, changes in pool.imap(_changes, zones, chunksize=8):
            alike.setdefault(tuple(changes), zone)
        # Long ones first, such that the processes end together.
        works = sorted(((zone, list(c)) for c, zone in alike.items() if c), key=_length)
        print(
            f"{len(zones)} zones, {len(works)} with changes of their own, "
            f"{sum(len(changes) for _, changes in works)} changes, {len(EXPRESSIONS)} expressions"
        )
        for done, tally in enumerate(pool.imap_unordered(_prove, works), 1):
            total.add(tally)
            if done % 10 == 0 or done == len(works):
                seconds = time.monotonic() - begun
                print(
                    f"{done}/{len(works)} zones, {total.slots:,} slots, {seconds:.0f} s", flush=True
                )
    _report(total, time.monotonic() - begun)
    return 0 if total.is_clean or not works else 1


def _length(work: tuple[str, list[tuple[int, int, int]]]) -> int:
    return -len(work[1])


def _report(total: Tally, seconds: float) -> None:
    for line in total.differences[:SHOWN]:
        print(line)
    print(
        f"{total.zones} zones, {total.changes:,} changes, {total.comparisons:,} comparisons, "
        f"{total.slots:,} slots in {seconds:.0f} s: "
        f"{total.doubled} doubled, {total.missed} missed, "
        f"{total.extra} too many, {total.astray} astray"
    )


if __name__ == "__main__":
    sys.exit(main())
