"""Comparing the slots of a trigger with those of the oracle, and counting what differs."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from detent.model.triggers import Cron

HOUR = 3600
AROUND = 72 * HOUR
"""The oracle walks so far before and after a change."""


@dataclass
class Tally:
    """What was compared, and what differed."""

    zones: int = 0
    changes: int = 0
    comparisons: int = 0
    slots: int = 0
    refused: int = 0
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


def compare(
    tally: Tally, place: str, trigger: Cron, expected: list[datetime], core: tuple[int, int]
) -> None:
    """Go from slot to slot, as a schedule does."""
    found = list(_slots(trigger, utc(core[0]) - timedelta(seconds=1), utc(core[1])))
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


def drop_in(
    tally: Tally,
    place: str,
    trigger: Cron,
    expected: list[datetime],
    core: tuple[int, int, int],
    chance: random.Random,
    *,
    others: int = 3,
) -> None:
    """Ask from anywhere, as a schedule that is declared just then does."""
    begin, change, end = core
    near = timedelta(microseconds=1)
    moments = [utc(change) - near, utc(change), utc(change) + near]
    moments += [utc(chance.uniform(begin, end)) for _ in range(others)]
    for moment in moments:
        wanted = next((slot for slot in expected if slot > moment), None)
        found = trigger.next_after(moment)
        tally.comparisons += 1
        if found is not None and found > utc(end):
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


def utc(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)
