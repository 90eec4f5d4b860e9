"""Where a claim looks: a lane, and the places in it at which scans may begin."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
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
    floors: Sequence[Floor | None] = (None,) * 5
    """One for each priority; None scans from the very beginning."""
