"""The values that stand for a job on its way through the system.

They are named tuples where thousands pass each second (a row of the database becomes one
without a loop, a batch becomes columns with one `zip`), and frozen dataclasses elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, IntFlag
from typing import Any, Final, NamedTuple
from uuid import UUID

from detent.model.payloads import decoded
from detent.model.state import State

LOWEST_ID: Final = UUID(int=0)
HIGHEST_ID: Final = UUID(int=(1 << 128) - 1)
# The reason of a job that another one has replaced begins so; stores write it.
REPLACED_BY: Final = "replaced by"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Priority(IntEnum):
    """How urgent a job is; waiting jobs rise by one step each boost interval."""

    LOWEST = 0
    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


class Hook(IntFlag):
    """What must happen besides the outcome when a job ends; 0 takes the short way."""

    NONE = 0
    KEY = 1
    LIMIT = 2
    FLOW = 4
    SLOT = 8
    EVENT = 16


# As plain numbers, since arithmetic with flags is slow: a limit alone does not make an end slow.
LIMIT_HOOK: Final = int(Hook.LIMIT)
OTHER_HOOKS: Final = ~LIMIT_HOOK

LANE_SEPARATOR: Final = "+"
# Begins each gate of a lane: see `detent.model.gates`.
GATE_SEPARATOR: Final = "~"
# Ends the lanes of jobs that may have killed their node: see `detent.model.rescue`.
SUSPECT: Final = "!"


def lane_of(queue: str, needs: Sequence[str] = (), gates: Sequence[str] = ()) -> str:
    """Return the lane of a queue, the capabilities a job needs, and the gates it stands behind.

    `mail`, `mail+gpu`, `mail~resource:smtp`.
    """
    lane = LANE_SEPARATOR.join((queue, *sorted(set(needs))))
    return GATE_SEPARATOR.join((lane, *sorted(set(gates)))) if gates else lane


def queue_of(lane: str) -> str:
    """Return the queue that a lane belongs to."""
    return lane.partition(GATE_SEPARATOR)[0].partition(LANE_SEPARATOR)[0]


def needs_of(lane: str) -> tuple[str, ...]:
    """Return the capabilities that a lane asks for."""
    plain = lane.partition(GATE_SEPARATOR)[0]
    return tuple(need for need in plain.split(LANE_SEPARATOR)[1:] if need != SUSPECT)


class NewJob(NamedTuple):
    """A job as it is enqueued; stores keep these values and never change them."""

    id: UUID
    task: str
    queue: str
    lane: str
    priority: int
    delay: float | None
    """Seconds from the store's now; the store's clock decides when that is."""
    due_at: datetime | None
    """A moment given by the caller; at most one of `delay` and `due_at` is set."""
    args: bytes
    codec: str
    options: bytes | None
    params: bytes | None
    tags: list[str] | None
    hooks: int
    principal: str | None
    trace: str | None


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys under which a job is enqueued; a job has at most one of each kind.

    A key belongs to the task of its job: the same text under another task is another key.
    """

    idempotency: str | None = None
    idempotency_ttl: timedelta = timedelta(hours=24)
    unique: str | None = None
    on_conflict: str = "raise"
    digest: bytes | None = None
    """What the arguments come to; it is kept beside the idempotency key, and sealed if they are."""


class Placed(NamedTuple):
    """What a keyed enqueue came to: the job that holds the key, and whether it is the new one."""

    id: UUID
    created: bool
    taken_key: str | None = None
    """The business key that another live job holds, when the caller asked to be told."""
    digest: bytes | None = None
    """What is kept beside the idempotency key that led to this job, if it did."""


class Claim(NamedTuple):
    """A node's right to run a job, with all that is needed to start it."""

    id: UUID
    fence: int
    task: str
    lane: str
    priority: int
    due_at: datetime
    attempt: int
    crashes: int
    generation: int
    hooks: int
    args: bytes | None
    """None when the payload is large: it is loaded when the job starts."""
    codec: str
    options: bytes | None
    params: bytes | None
    tags: list[str] | None


class Completion(NamedTuple):
    """A success to be written, in the order of the columns that the finish statement takes."""

    id: UUID
    fence: int
    task: str
    queue: str
    lasted: float
    result: bytes | None

    def as_settlement(self) -> "Settlement":
        """Return it in the form that any end has."""
        return Settlement(
            *self,
            state=State.SUCCEEDED,
            delay=None,
            charged=False,
            kind=None,
            error=None,
            reason=None,
        )


class Settlement(NamedTuple):
    """Any end of a claim to be written: the state that follows and what the attempt came to."""

    id: UUID
    fence: int
    task: str
    queue: str
    lasted: float
    """Seconds that the attempt took; it ended when its end is written, near enough."""
    result: bytes | None
    state: State
    """Terminal; or pending or waiting when the job goes back."""
    delay: float | None
    """For a job that goes back: seconds until it is due; None is its old place in the queue."""
    charged: bool
    """Whether this was a failed attempt that counts."""
    kind: str | None
    """What is written to the attempts: failed, timed_out; None writes nothing."""
    error: bytes | None
    reason: str | None
    """Why a job is parked (unknown_task) or canceled."""


class Signal(NamedTuple):
    """A message for a running job."""

    id: UUID
    fence: int
    kind: str
    reason: str | None


class Position(NamedTuple):
    """The first due job of one lane and priority: where a scan may begin."""

    lane: str
    priority: int
    due_at: datetime
    id: UUID


class Progress(NamedTuple):
    """How far a running job says it is."""

    id: UUID
    fence: int
    fraction: float
    message: str | None


class LogLine(NamedTuple):
    """One line that a job wrote with `ctx.log`."""

    id: UUID
    fence: int
    attempt: int
    level: str
    message: str


class LogEntry(NamedTuple):
    """A log line as it is read back."""

    at: datetime
    attempt: int
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try that did not succeed, or an outcome that an operator's retry put aside."""

    number: int
    generation: int
    kind: str
    node: UUID | None
    started_at: datetime | None
    ended_at: datetime
    error: bytes | None
    alone: bool = False
    """Of a crash: whether no other job can have caused it."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """All that a store knows about one job at one moment."""

    id: UUID
    task: str
    queue: str
    state: State
    priority: int
    attempt: int
    generation: int
    crashes: int
    enqueued_at: datetime
    due_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration: timedelta | None = None
    node: UUID | None = None
    fence: int | None = None
    needs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    args: bytes = b""
    codec: str = "json"
    params: bytes | None = None
    options: bytes | None = None
    """What the caller said differently from the task, as it is stored."""
    idempotency_key: str | None = None
    unique_key: str | None = None
    result: bytes | None = None
    error: bytes | None = None
    reason: str | None = None
    superseded_by: UUID | None = None
    cancel_requested: bool = False
    cancel_too_late: bool = False
    """Whether somebody asked it to stop and it ended otherwise. The archive does not keep that."""
    progress: float | None = None
    progress_message: str | None = None
    principal: str | None = None
    """In whose name it was enqueued."""
    archived_at: datetime | None = None
    """When it went to the archive; it can be looked at there, and nothing else."""

    @property
    def decoded_args(self) -> Any:
        """The arguments as values; only described where they cannot be read here."""
        return decoded(self.args, self.codec)

    @property
    def decoded_result(self) -> Any:
        """The result as values; only described where it cannot be read here."""
        return decoded(self.result)

    @property
    def decoded_error(self) -> Any:
        """The error as a dict with `type`, `message` and `traceback`."""
        return decoded(self.error)

    @property
    def replaced_by(self) -> UUID | None:
        """The job that took the place of this one, if it was canceled for that."""
        if self.superseded_by is not None or self.state is not State.CANCELED:
            return self.superseded_by
        # One that ran was asked to stop, and ended with what it was told.
        words, _, successor = (self.reason or "").rpartition(" ")
        try:
            return UUID(successor) if words == REPLACED_BY else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a listing or a bulk operation means; unset fields do not filter."""

    states: tuple[State, ...] = ()
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    archived: bool = False
    """Means the jobs in the archive instead of the others."""

    @property
    def lowest_id(self) -> UUID:
        """The lowest id that can have been made since `since`: ids begin with their time."""
        return LOWEST_ID if self.since is None else UUID(int=max(_ticks(self.since), 0) << 80)

    @property
    def highest_id(self) -> UUID:
        """The highest id that can have been made until `until`."""
        if self.until is None:
            return HIGHEST_ID
        return UUID(int=max(((_ticks(self.until) + 1) << 80) - 1, 0))


def _ticks(moment: datetime) -> int:
    """Return a moment as ids tell it, in milliseconds."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)
