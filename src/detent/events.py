"""Everything that can be told about a running system, as values.

The engine emits events and knows nothing of logs or metrics; those listen. An event that nobody
listens to costs one dictionary look-up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from detent.cluster_events import *  # noqa: F403  all events can be found here
from detent.guard_events import *  # noqa: F403  the same
from detent.outbox_events import *  # noqa: F403  the same
from detent.protection_events import *  # noqa: F403  the same
from detent.schedule_events import *  # noqa: F403  the same


@dataclass(frozen=True, slots=True)
class JobStarted:
    """An attempt begins; it may still wait for a worker of its executor, and go back from there."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID


@dataclass(frozen=True, slots=True)
class JobSucceeded:
    """An attempt returned; its success is about to be written."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID
    duration: float


@dataclass(frozen=True, slots=True)
class JobRetrying:
    """An attempt failed and another will follow."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID
    error: str
    delay: float


@dataclass(frozen=True, slots=True)
class JobDied:
    """The last attempt failed: the job joins the dead-letter set."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID
    error: str


@dataclass(frozen=True, slots=True)
class JobSnoozed:
    """The task asked to be run later, or a guard said so; nothing is charged."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID
    delay: float
    reason: str | None = None
    """Why a guard held it back; None when the task asked."""

    @property
    def severity(self) -> str:
        """How loud its line is: a breaker may hold back any number of jobs."""
        return "info" if self.reason is None else "debug"


@dataclass(frozen=True, slots=True)
class JobTimedOut:
    """An attempt took longer than allowed, or gave no sign of life, and was stopped."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID
    timeout: float
    silent: bool = False
    """Whether it was stopped by its `heartbeat_timeout`."""


@dataclass(frozen=True, slots=True)
class JobWasCanceled:
    """A running job followed a request to stop."""

    job_id: UUID
    task: str
    queue: str
    attempt: int
    node: UUID
    reason: str | None


@dataclass(frozen=True, slots=True)
class ClaimWasLost:
    """An end could not be written: the claim was no longer this node's."""

    job_id: UUID
    task: str
    node: UUID


@dataclass(frozen=True, slots=True)
class ResultDropped:
    """A result could not be stored; the job succeeded without it."""

    job_id: UUID
    task: str
    problem: str


@dataclass(frozen=True, slots=True)
class TaskUnknown:
    """A claimed job names a task that this node does not know; it is parked."""

    job_id: UUID
    task: str
    node: UUID


@dataclass(frozen=True, slots=True)
class ExecutorTrouble:
    """An executor could not begin a job; the job comes back later, nothing is charged."""

    job_id: UUID
    task: str
    executor: str
    node: UUID
    error: str
    delay: float


@dataclass(frozen=True, slots=True)
class StuckThread:
    """A thread goes on after its attempt was given up; it keeps its slot."""

    job_id: UUID
    task: str
    node: UUID


@dataclass(frozen=True, slots=True)
class StuckCoroutine:
    """A coroutine goes on after it was canceled and its job has ended; it keeps its slot."""

    job_id: UUID
    task: str
    node: UUID


@dataclass(frozen=True, slots=True)
class NodeReplaced:
    """A node ends to be replaced: calls that do not end occupy more than half of an executor."""

    node: UUID
    executor: str
    stuck: int
    capacity: int


@dataclass(frozen=True, slots=True)
class NodeStarted:
    """A node has joined the cluster."""

    node: UUID
    name: str
    queues: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TasksUnreached:
    """A node has started that will never run some tasks of its app."""

    node: UUID
    tasks: Mapping[str, str]
    """What it lacks for each: the queue, or capabilities."""


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """A node claims no more and waits for what runs."""

    node: UUID
    running: int


@dataclass(frozen=True, slots=True)
class NodeStopped:
    """A node has left."""

    node: UUID
    released: int


@dataclass(frozen=True, slots=True)
class NodeFenced:
    """A node could not prove that it is alive: it dropped all its work and joins anew."""

    node: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class NodeDied:
    """The lease of another node ran out, and this one noticed first."""

    node: UUID
    name: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class JobRescued:
    """The claim of a dead node was ended."""

    job_id: UUID
    task: str
    queue: str
    node: UUID
    """The one that died."""
    state: str
    """Pending again; canceled, as somebody had asked; or failed after too many crashes."""
    crashes: int


@dataclass(frozen=True, slots=True)
class ClaimOrphaned:
    """A claim was removed because the row of its job is missing."""

    job_id: UUID
    queue: str
    node: UUID
    """The one that held the claim."""
    fence: int


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """Something keeps the event loop from going on; emitted on another thread."""

    node: UUID | None
    seconds: float
    """For how long, so far."""
    job_id: UUID | None
    """The job that was running, if it was one."""
    task: str | None
    stack: str


@dataclass(frozen=True, slots=True)
class ProcessHeldUp:
    """No thread of the process went on for a while, the heartbeat neither; emitted afterwards."""

    node: UUID | None
    seconds: float
    job_id: UUID | None
    """The job that was running on the event loop just then, if it was one."""
    task: str | None
    tasks: list[str]
    """The tasks of all jobs that were running, each once."""


@dataclass(frozen=True, slots=True)
class StoreTrouble:
    """A call to the store failed and will be tried again."""

    where: str
    error: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class StoreRecovered:
    """The store answers again."""

    where: str


@dataclass(frozen=True, slots=True)
class WakeupsLost:
    """No wake-ups reach this node for the time being: it finds jobs by polling only."""

    reason: str


@dataclass(frozen=True, slots=True)
class WakeupsRestored:
    """Wake-ups reach this node again."""


@dataclass(frozen=True, slots=True)
class FinishGaveUp:
    """The store did not take the end of a job; the run counts as failed, or as a crash."""

    job_id: UUID
    task: str
    error: str


@dataclass(frozen=True, slots=True)
class ClaimsReconciled:
    """Claims in this node's name that it did not know of went back."""

    node: UUID
    released: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """A sweep removed what had had its time; it worked for that many seconds."""

    deleted: int
    archived: int
    expired_keys: int
    dropped: int
    """Archived jobs that went from the archive."""
    seconds: float


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """This machine's clock and the store's differ."""

    node: UUID
    seconds: float


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A listener of the application raised, or a last step of a drain failed; all else goes on."""

    name: str
    error: str


class Bus:
    """Hands events to those who listen, at once and in the order of subscription."""

    def __init__(self) -> None:
        self._listeners: dict[type, list[Callable[[Any], None]]] = {}

    def subscribe(self, event_type: type, listener: Callable[[Any], None]) -> None:
        """Call `listener` with every event of exactly this type; it must not block."""
        self._listeners.setdefault(event_type, []).append(listener)

    def wants(self, event_type: type) -> bool:
        """Whether anybody listens: for events that are costly to make."""
        return event_type in self._listeners

    def emit(self, event: object) -> None:
        """Tell the listeners."""
        for listener in self._listeners.get(type(event), ()):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001  a user's function must not harm a job
                if not isinstance(event, HookFailed):
                    self.emit(HookFailed(getattr(listener, "__qualname__", "?"), repr(error)))
