"""What can be told about schedules; `detent.events` has all of it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

__all__ = [
    "ScheduleDeclared",
    "ScheduleFired",
    "ScheduleRemoved",
    "ScheduleTrouble",
    "SlotsSkipped",
]


@dataclass(frozen=True, slots=True)
class ScheduleDeclared:
    """A node has stored a schedule that its code declares, for it was new or different."""

    schedule: str
    created: bool
    next_fire: datetime | None
    kept: tuple[str, ...]
    """Fields that an operator has edited, and that stay as he wants them."""


@dataclass(frozen=True, slots=True)
class ScheduleRemoved:
    """A schedule that code once declared was removed: no running node declares it any more."""

    schedule: str
    unseen: float
    """Seconds since a node last declared it."""


@dataclass(frozen=True, slots=True)
class ScheduleFired:
    """A slot of a schedule got its job."""

    schedule: str
    slot: datetime
    job_id: UUID
    node: UUID | None
    late: float
    """Seconds between the slot and its firing, by the store's clock."""


@dataclass(frozen=True, slots=True)
class SlotsSkipped:
    """Slots of a schedule got no job."""

    schedule: str
    count: int
    first: datetime
    last: datetime
    reason: str
    """"misfire": nobody fired them in time; "overlap": a job of an earlier slot still lived."""


@dataclass(frozen=True, slots=True)
class ScheduleTrouble:
    """A schedule cannot fire as it stands; the others go on. Told once per problem and node."""

    schedule: str
    problem: str
