"""What a schedule is: when it fires, what it fires, and what happens when it cannot."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from detent.model.job import NewJob


class Misfire(StrEnum):
    """What happens with slots that nobody fired in time."""

    SKIP = "skip"
    FIRE_ONCE = "fire_once"
    """One job for all of them, for the latest slot."""
    CATCH_UP = "catch_up"
    """One job for each of the latest `catch_up_limit` slots; those before are skipped."""


class Overlap(StrEnum):
    """What happens with a slot while a job of an earlier slot still lives."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    """The new job waits until the earlier one has ended."""
    REPLACE = "replace"
    """The earlier job is canceled; if it runs, the new one waits until it has ended."""


class Owner(StrEnum):
    """Who declared a schedule, and may remove it."""

    CODE = "code"
    OPERATOR = "operator"


class SlotState(StrEnum):
    """What became of a slot."""

    FIRED = "fired"
    SKIPPED_MISFIRE = "skipped_misfire"
    SKIPPED_OVERLAP = "skipped_overlap"


@dataclass(frozen=True, slots=True)
class Firing:
    """What a schedule makes jobs from; the values of each job it fires."""

    task: str
    queue: str
    lane: str
    priority: int
    args: bytes
    codec: str
    options: bytes | None = None
    params: bytes | None = None
    tags: tuple[str, ...] = ()
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is declared. The store keeps it and adds where it stands."""

    name: str
    trigger: bytes
    """As JSON: `detent.model.triggers.trigger_from` reads it. The time zone is part of it."""
    firing: Firing
    group: str = "default"
    owner: Owner = Owner.OPERATOR
    calendars: tuple[str, ...] = ()
    """Names of stored calendars whose times are left out."""
    misfire: Misfire = Misfire.FIRE_ONCE
    catch_up_limit: int = 1
    misfire_threshold: timedelta = timedelta(seconds=60)
    """A slot that is fired later than this was missed."""
    overlap: Overlap = Overlap.ALLOW
    jitter: timedelta = timedelta(0)
    """Each job is due up to this much after its slot; the slot itself does not move."""
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule and where it stands."""

    schedule: Schedule
    revision: int
    """Grows with every change and every firing: whoever writes says which one he saw."""
    next_fire: datetime | None
    """The slot that comes next; None when there is none any more."""
    prev_fire: datetime | None = None
    runs: int = 0
    paused_at: datetime | None = None
    """When it, or its group, was paused."""
    declared_at: datetime | None = None
    """When code last declared it; a schedule of code that none declares any more is removed."""
    edited: tuple[str, ...] = ()
    """Fields that an operator has changed: code does not change them back."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    problem: str | None = None
    """Why it does not fire although it should: its task is unknown, its trigger unreadable."""


class PlannedSlot(NamedTuple):
    """One slot to be written, with the job it gets, if it gets one."""

    slot: datetime
    state: SlotState
    job: NewJob | None


@dataclass(frozen=True, slots=True)
class FirePlan:
    """What a node wants to write for one due schedule; nothing, if another was faster."""

    name: str
    revision: int
    slots: Sequence[PlannedSlot]
    overlap: Overlap
    next_fire: datetime | None
    problem: str | None = None


class FiredSlot(NamedTuple):
    """A slot that was written, as the store decided."""

    schedule: str
    slot: datetime
    state: SlotState
    job: UUID | None


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A slot of the past, for people."""

    schedule: str
    slot: datetime
    fired_at: datetime
    state: SlotState
    job: UUID | None = None
    manual: bool = False
    """Fired by hand or by a backfill."""
