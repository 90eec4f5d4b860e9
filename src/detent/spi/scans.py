"""Where a claim looks: a lane, and the places in it at which scans may begin."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID


class Floor(NamedTuple):
    """Where a scan may begin: no live job of this lane and priority is known to stand before."""

    due_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class LaneScan:
    """One lane that a claim looks at."""

    lane: str
    queue: str
    room: int
    """How many jobs are wanted. In a claim without gates the lanes of one queue stand together and
    share this number: it belongs to the queue."""
    floors: Sequence[Floor | None] = (None,) * 5
    """One for each priority; None scans from the very beginning."""


_queue_of: Final = attrgetter("queue")


def by_queue(scans: Sequence[LaneScan]) -> Iterator[tuple[LaneScan, ...]]:
    """Return the scans of each queue; those of one queue stand together."""
    return (tuple(scans_of) for _, scans_of in groupby(scans, _queue_of))
