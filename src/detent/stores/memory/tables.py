"""Where everything is: the tables of the design, as dictionaries of values that never change.

A job's state is the dictionary its row is in. Rows are immutable and moved or replaced, never
altered, so a copy of the dictionaries is a snapshot of everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from detent.model.gates import Gate
from detent.model.job import Attempt, LogEntry, NewJob, Progress
from detent.model.lease import Pulse
from detent.model.limits import Limit
from detent.model.rates import Grants
from detent.model.rescue import Autopsy
from detent.model.schedule import ScheduleInfo, SlotInfo
from detent.model.state import State
from detent.spi.breakers import BreakerRow
from detent.spi.notifier import Hint, Wake
from detent.spi.outbox import AlertInfo, OutboxEvent

CANCEL: Final = "cancel"
IDEMPOTENCY: Final = "idempotency"
PAUSED: Final = "paused"
REPLACES: Final = "replaces"
UNIQUE: Final = "unique"
UNKNOWN_TASK: Final = "unknown_task"


class Job(NamedTuple):
    """A job as it was enqueued; written once."""

    new: NewJob
    due_at: datetime
    enqueued_at: datetime
    idempotency_key: str | None = None
    unique_key: str | None = None


class Ready(NamedTuple):
    """A place in a lane: what a claim looks at, and what goes wherever the job goes."""

    id: UUID
    lane: str
    priority: int
    due_at: datetime
    hooks: int
    attempt: int = 1
    crashes: int = 0
    generation: int = 1


class Running(NamedTuple):
    """A claim; `place` is where the job returns to when it is released."""

    place: Ready
    fence: int
    node: UUID
    claimed_at: datetime
    permits: tuple[Gate, ...] = ()
    """The gates at which the job counts while it runs."""


class Parked(NamedTuple):
    """A job that is not to be claimed: paused, or waiting for something."""

    place: Ready
    reason: str
    waits_for: UUID | None = None


class Outcome(NamedTuple):
    """How a job ended."""

    id: UUID
    state: State
    generation: int
    attempt: int
    finished_at: datetime
    fence: int | None = None
    node: UUID | None = None
    started_at: datetime | None = None
    duration: timedelta | None = None
    result: bytes | None = None
    error: bytes | None = None
    reason: str | None = None
    superseded_by: UUID | None = None


class Archived(NamedTuple):
    """An ended job that was put aside."""

    job: Job
    outcome: Outcome
    archived_at: datetime


class Key(NamedTuple):
    """Who holds a key; a business key has no end but its job's."""

    job: UUID
    expires_at: datetime | None
    digest: bytes | None = None


class Node(NamedTuple):
    """A node's row."""

    incarnation: UUID
    name: str
    state: str
    queues: dict[str, int]
    host: str
    pid: int
    version: str
    started_at: datetime
    heartbeat_at: datetime
    lease_until: datetime
    capabilities: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    info: Mapping[str, str] = {}
    load: Mapping[str, float] = {}
    dead_at: datetime | None = None
    death: str | None = None
    steady_since: datetime = datetime.min.replace(tzinfo=UTC)
    """Since when its heartbeats have had no gap."""
    fenced: bool = False
    """Whether it had stopped its jobs itself before it was declared dead."""
    autopsy: Autopsy | None = None
    """What it held when it died; None until a rescue has looked."""

    @property
    def pulse(self) -> Pulse:
        """Its heartbeats."""
        return Pulse(self.heartbeat_at, self.lease_until, self.steady_since)


class Leadership(NamedTuple):
    """Who leads a role. The row stays when nobody does: terms never begin anew."""

    role: str
    term: int
    node: UUID | None
    name: str | None
    since: datetime
    lease_until: datetime


class Lock(NamedTuple):
    """A lock that is held, or was not given back."""

    name: str
    fence: int
    holder: UUID
    owner: str
    acquired_at: datetime
    expires_at: datetime


class Event(NamedTuple):
    """An event that waits to be delivered."""

    event: OutboxEvent
    created_at: datetime
    due_at: datetime
    problem: str | None = None
    parked_at: datetime | None = None


class Daemon(NamedTuple):
    """The last report on a daemon."""

    name: str
    state: str
    node: UUID
    node_name: str
    term: int
    since: datetime
    restarts: int
    last_error: str | None
    failed_at: datetime | None


class Rule(NamedTuple):
    """A limit that holds, and what code says about it."""

    limit: Limit
    declared: Limit | None
    edited: bool


class Kept(NamedTuple):
    """What a rate remembers; from `until` on it might as well have forgotten."""

    grants: Grants
    until: float


class Scheduled(NamedTuple):
    """A schedule, and when firers look at it: at its next slot, or later after a problem."""

    info: ScheduleInfo
    due_at: datetime | None


@dataclass(slots=True)
class Tables:
    """Everything the store remembers."""

    fence: int = 0
    job: dict[UUID, Job] = field(default_factory=dict)
    ready: dict[UUID, Ready] = field(default_factory=dict)
    running: dict[UUID, Running] = field(default_factory=dict)
    parked: dict[UUID, Parked] = field(default_factory=dict)
    outcome: dict[UUID, Outcome] = field(default_factory=dict)
    archive: dict[UUID, Archived] = field(default_factory=dict)
    attempts: dict[UUID, tuple[Attempt, ...]] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], Key] = field(default_factory=dict)
    """By kind, key and the task that the key belongs to."""
    signals: dict[tuple[UUID, str], str | None] = field(default_factory=dict)
    """(job, kind) to the reason: a message is for a job, whichever claim runs it."""
    progress: dict[UUID, Progress] = field(default_factory=dict)
    log: dict[UUID, tuple[LogEntry, ...]] = field(default_factory=dict)
    nodes: dict[UUID, Node] = field(default_factory=dict)
    queues: dict[str, bool] = field(default_factory=dict)
    """Queue to whether it is paused."""
    slots: dict[str, int] = field(default_factory=dict)
    """Queue to how many of its jobs each node runs at once, if that was said for all."""

    leaders: dict[str, Leadership] = field(default_factory=dict)
    locks: dict[str, Lock] = field(default_factory=dict)
    lock_fence: int = 0
    daemons: dict[str, Daemon] = field(default_factory=dict)
    breakers: dict[str, BreakerRow] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    last_event: int = 0
    alerts: dict[int, AlertInfo] = field(default_factory=dict)
    last_alert: int = 0
    limits: dict[str, Rule] = field(default_factory=dict)
    rates: dict[str, Kept] = field(default_factory=dict)
    holds: dict[str, UUID] = field(default_factory=dict)
    """Of ordered gates the last job that was put back behind each."""

    schedules: dict[str, Scheduled] = field(default_factory=dict)
    revision: int = 0
    """The last revision of any schedule: none is used twice."""
    paused_groups: dict[str, datetime] = field(default_factory=dict)
    schedule_slots: dict[tuple[str, datetime], SlotInfo] = field(default_factory=dict)
    live_slots: dict[UUID, SlotInfo] = field(default_factory=dict)
    """Job to its slot, in the order of firing, until a later firing has seen its end."""
    calendars: dict[str, bytes] = field(default_factory=dict)

    wakes: dict[Wake, None] | None = None
    """What nodes are to be told of; None where nobody tells them."""

    def snapshot(self) -> Self:
        """Return a copy that later writes to either side leave alone."""
        return type(self)(**{each.name: _copied(getattr(self, each.name)) for each in fields(self)})

    def tell(self, wake: Wake) -> None:
        """Let nodes know of something, as soon as it is carried out."""
        if self.wakes is not None:
            self.wakes[wake] = None

    def put_back(self, place: Ready) -> None:
        """Give a job a place in a lane, and let nodes know: it may stand below their floors."""
        self.ready[place.id] = place
        self.tell(Hint(place.lane, place.priority, place.due_at, place.id))

    def hold(self, claim: Running) -> None:
        """Let a job that goes back hold the ordered gates that it had passed."""
        for gate in claim.permits:
            rule = self.limits.get(gate.definition)
            if rule is not None and rule.limit.ordered:
                self.holds[gate.name] = claim.place.id

    def state_of(self, job_id: UUID) -> State:
        """Return the state that the place of a known job's row means."""
        if (outcome := self.outcome.get(job_id)) is not None:
            return outcome.state
        if job_id in self.running:
            return State.RUNNING
        if job_id in self.ready:
            return State.PENDING
        return State.PAUSED if self.parked[job_id].reason == PAUSED else State.WAITING

    def place_of(self, job_id: UUID) -> Ready:
        """Return the place that a live job has, or will have again."""
        if job_id in self.ready:
            return self.ready[job_id]
        return (self.running.get(job_id) or self.parked[job_id]).place


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value
