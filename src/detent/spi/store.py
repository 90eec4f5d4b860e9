"""What a store promises, as narrow protocols: each part of the engine takes only what it needs.

Methods are intentions, not row access. All of them are safe to repeat after an unknown reply,
raise only errors of `detent.errors` (the driver's error as their cause), keep to the store's own
clock for everything that is due or expires, and hold no lock longer than one call.

A *claim* is valid while (id, fence, node) stands among the running jobs. Every write on behalf
of a running job is conditional on all three; for a claim that is no longer valid nothing is
written and the id is left out of the answer.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from detent.errors import Conflict
from detent.model.job import (
    Attempt,
    Claim,
    Completion,
    JobFilter,
    JobInfo,
    Keys,
    LogEntry,
    LogLine,
    NewJob,
    Placed,
    Position,
    Progress,
    Settlement,
    Signal,
)
from detent.model.state import IllegalMove, State, Verb, move
from detent.spi.breakers import BreakerStore
from detent.spi.daemons import DaemonStore
from detent.spi.leadership import LeaderStore
from detent.spi.limits import LimitStore
from detent.spi.locks import LockStore
from detent.spi.nodes import NodeStore
from detent.spi.notifier import Wake
from detent.spi.numbers import NumberStore
from detent.spi.outbox import AlertStore, OutboxStore
from detent.spi.rates import RateStore
from detent.spi.rescue import RescueStore
from detent.spi.retention import RetentionStore
from detent.spi.scans import LaneScan
from detent.spi.schedules import ScheduleStore


class EnqueueStore(Protocol):
    """Takes new jobs."""

    async def enqueue_jobs(self, jobs: Sequence[NewJob], tell: Sequence[Wake] = ()) -> bool:
        """Store all jobs, or none, durably.

        A job whose id is already known is left as it is: a repeated call adds nothing. Return
        whether the commit has sent the wake-ups `tell`: a store that cannot do that leaves them to
        the caller.
        """

    async def enqueue_keyed(self, job: NewJob, keys: Keys) -> Placed:
        """Store one job unless one of its keys is taken; say which job holds the keys.

        Keys belong to the task of the job. A live idempotency key always returns its first job,
        with the digest that is kept beside it. A business key held by a live job
        follows `keys.on_conflict`: `raise` and `return` store nothing (`raise` also names the
        key), `replace` cancels the holder; when the holder is running its cancel is requested
        and the new job waits until it has ended. Calls that replace at the same time take turns
        for each key: none of them fails because of another.
        """

    async def enqueue_within(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """Do the same inside the caller's transaction on `connection`, which stays the caller's.

        Nothing is visible before the caller commits, a key conflict does not abort his
        transaction, and nodes are woken by his commit. `keys` goes with exactly one job.
        """

    def enqueue_within_sync(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """Do the same on the caller's thread, for a connection of a blocking driver.

        Whatever such a connection cannot be used for is `WrongConnection`: another database, no
        open transaction, a driver that this store does not know.
        """


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a node asks for: at most `limit` jobs in all, queues in the order given."""

    node: UUID
    scans: Sequence[LaneScan]
    """The lanes of one queue stand together, and have the room of the queue in common."""
    limit: int
    boost_interval: timedelta
    inline_args: int
    """Payloads above this many bytes are left out and loaded when the job starts."""


class ClaimStore(Protocol):
    """Gives jobs to nodes."""

    async def claim_jobs(self, request: ClaimRequest) -> list[Claim]:
        """Move due jobs to running in the node's name and return them, best first.

        Over all lanes of a queue the order is `priority + floor(waited / boost_interval)`
        descending, then due time, then id (an interval of zero switches the boost off). Of each
        queue no more are taken than it has room for. Jobs of paused queues stay. No job is ever
        given to two nodes. A node that is not active, or whose lease has run out, gets nothing. An
        empty or short answer does not mean that nothing is due:
        another node may hold rows at this moment, or they stand below a floor.
        """

    async def look(self, lanes: Sequence[str]) -> list[Position]:
        """Return the first due job of every lane and priority, from the very beginning.

        Paused queues are left out. Locks nothing. It may be slow when the head of the queue is
        full of dead rows, so it is called beside the hot path.
        """

    async def needy_lanes(self, queues: Sequence[str]) -> list[str]:
        """Return the lanes of these queues that ask for capabilities, have no gates, and hold jobs.

        In the order of their bytes, up to a number that the store sets. Locks nothing, and walks
        over no lane's jobs. It may be slow when such lanes are full of dead rows, so it is called
        beside the hot path.
        """

    async def next_due(self, scans: Sequence[LaneScan]) -> Mapping[str, float]:
        """Return for each queue of these lanes in how many seconds its first job is due.

        From the floors on; 0 when one is due already. Queues without jobs and paused queues are
        left out. Locks nothing.
        """

    async def load_args(self, claims: Sequence[Claim]) -> Mapping[UUID, bytes]:
        """Return the payloads that a claim left out."""


class FinishStore(Protocol):
    """Takes the ends of claims."""

    async def finish_jobs(self, node: UUID, completions: Sequence[Completion]) -> list[UUID]:
        """Write successes of jobs without hooks, or with none but `Hook.LIMIT`.

        Return the ids whose claim was still valid.
        """

    async def settle_jobs(self, node: UUID, settlements: Sequence[Settlement]) -> list[UUID]:
        """Write any other end of such jobs; return the ids whose claim was still valid.

        A charged end that goes back raises the attempt by one and writes the failed attempt;
        an end without charge leaves the attempt. A delay counts from the store's now; without
        one the job returns to its old place. Terminal ends write the outcome.
        """

    async def finish_hooked(
        self, node: UUID, settlements: Sequence[Settlement], *, patience: float | None = None
    ) -> list[UUID]:
        """Write any end of jobs with hooks, in one transaction, rows locked in id order.

        A terminal end also releases the job's business keys and wakes the jobs that waited
        for this one. A store whose transactions lock rows raises `StoreBusy`, and writes
        nothing, when it has waited `patience` seconds for a row that another one has locked.
        """


class ContextStore(Protocol):
    """Serves running jobs: signals to them, and their side writes, each fenced by its claim."""

    async def signals_for(self, node: UUID) -> list[Signal]:
        """Return the messages for jobs that the node runs; they stay until the job ends."""

    async def save_progress(self, node: UUID, progress: Sequence[Progress]) -> None:
        """Keep the latest progress of each job whose claim is valid."""

    async def append_log(self, node: UUID, lines: Sequence[LogLine]) -> None:
        """Append log lines of jobs whose claim is valid."""

    def transaction(
        self, node: UUID, claim: Claim, completion: "PendingCompletion"
    ) -> AbstractAsyncContextManager[Any]:
        """Open a transaction that commits the caller's effects and the job's success together.

        Entering locks the claim, or raises `ClaimLost`. The value is a connection of the
        store's own driver. Leaving without an error writes `completion` and commits.
        """


@dataclass(slots=True)
class PendingCompletion:
    """What a `ctx.transaction()` will write when it commits."""

    queue: str
    result: bytes | None = None
    lasted: float = 0.0

    def success_of(self, claim: Claim) -> Settlement:
        """Return the end of a claim as it is known now."""
        success = Completion(
            claim.id, claim.fence, claim.task, self.queue, self.lasted, self.result
        )
        return success.as_settlement()


class ControlStore(Protocol):
    """Lets people change what jobs do. A lost race is `Conflict`, never an overwrite."""

    async def control_job(self, verb: Verb, job_id: UUID, change: "Change") -> State:
        """Apply one verb to one job and return its state afterwards.

        Canceling a running job only requests it and returns `running`. Raises `JobNotFound`,
        or `Conflict` when the job's state (or the expected one) does not allow the verb.
        """

    async def control_page(self, verb: Verb, where: JobFilter, limit: int, change: "Change") -> int:
        """Apply a verb to up to `limit` matching jobs that allow it; return how many it moved.

        Calling it until it returns 0 applies the verb to all of them.
        """

    async def delete_page(self, where: JobFilter, limit: int) -> int:
        """Delete up to `limit` matching terminal jobs with all that belongs to them."""

    async def delete_jobs(self, ids: Sequence[UUID]) -> list[UUID]:
        """Delete those of `ids` that have ended, with all that belongs to them; return them."""

    async def pause_queue(self, queue: str) -> None:
        """Let no more jobs of a queue be claimed, on any node."""

    async def resume_queue(self, queue: str) -> None:
        """Let the jobs of a queue be claimed again."""

    async def scale_queue(self, queue: str, slots: int | None) -> None:
        """Let every node run that many jobs of a queue at once; None leaves it to each node."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a control verb needs to know."""

    reason: str | None = None
    due_at: datetime | None = None
    delay: timedelta | None = None
    expected: State | None = None
    generation: int | None = None

    def target(self, job_id: UUID, verb: Verb, state: State, generation: int) -> State:
        """Return the state to which a verb leads a job from where it is, or raise `Conflict`."""
        if self.expected is not None and state is not self.expected:
            raise Conflict(job_id, verb, f"{state}, not {self.expected}")
        if self.generation is not None and generation != self.generation:
            raise Conflict(job_id, verb, f"in generation {generation}, not {self.generation}")
        try:
            return move(state, verb)
        except IllegalMove as error:
            raise Conflict(job_id, verb, state) from error


class QueueInfo(NamedTuple):
    """A queue as people see it."""

    name: str
    paused: bool
    pending: int
    due: int
    running: int
    """How many of its jobs nodes have claimed: they are in the state `running`."""
    oldest_due_at: datetime | None
    slots: int | None = None
    """How many of its jobs each node runs at once; None leaves it to the node."""
    started: int = 0
    """How many of the claimed jobs have begun, as their nodes said with the last heartbeat. The
    others wait on their node: for a slot, a thread, a child process or the rest of a batch."""
    paused_jobs: int = 0
    """How many of its jobs are paused one by one."""
    unknown: int = 0
    """How many wait because no node knows their task."""
    served: bool = True
    """Whether a live node serves it."""


class InspectStore(Protocol):
    """Answers questions, without locks."""

    async def get_jobs(self, ids: Sequence[UUID]) -> list[JobInfo]:
        """Return the known jobs among `ids`, archived ones too, in that order."""

    async def list_jobs(
        self, where: JobFilter, limit: int, before: UUID | None = None
    ) -> list[JobInfo]:
        """Return matching jobs, the newest first, those with ids below `before`.

        Archived jobs are another list: `where.archived` asks for that one.
        """

    async def ended(self, ids: Sequence[UUID]) -> list[JobInfo]:
        """Return those of `ids` that have ended; an archived job has."""

    async def attempts(self, job_id: UUID) -> list[Attempt]:
        """Return the attempts of a job that did not succeed, the oldest first."""

    async def log_of(self, job_id: UUID, limit: int) -> list[LogEntry]:
        """Return the log lines of a job, the oldest first."""

    async def queues(self) -> list[QueueInfo]:
        """Return all queues that hold live jobs or were paused, by name."""


class StoreLifecycle(Protocol):
    """Opens and closes a store."""

    async def open(self) -> None:
        """Reach the store and check that its schema fits, or raise a `StoreError`."""

    async def close(self) -> None:
        """Give back what this process and event loop hold; harmless when nothing is held."""

    def connections(self) -> int:
        """Return how many connections this process has to the server now; from any thread.

        A store without a server has none.
        """


class Store(
    EnqueueStore,
    ClaimStore,
    FinishStore,
    NodeStore,
    RescueStore,
    ContextStore,
    ControlStore,
    InspectStore,
    RetentionStore,
    LeaderStore,
    LockStore,
    DaemonStore,
    NumberStore,
    BreakerStore,
    LimitStore,
    RateStore,
    ScheduleStore,
    OutboxStore,
    AlertStore,
    StoreLifecycle,
    Protocol,
):
    """All of it: what a database has to offer to be used by an app."""
