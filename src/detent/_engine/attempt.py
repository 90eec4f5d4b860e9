"""One try of one job on this node: what it is, what has happened to it, what its task sees."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from detent._engine.scribe import Scribe
from detent.config import LimitsConfig
from detent.errors import ClaimLost, DetentError, InvalidJob, JobCanceled, PayloadTooLarge
from detent.events import Bus
from detent.lifetimes import Lifetime
from detent.listeners import Listeners
from detent.model.failure import Clean, Sanitizer, kept
from detent.model.job import Claim, LogLine, Progress
from detent.options import read_options
from detent.pace import LARGE, Pace
from detent.spi.codec import Codec
from detent.spi.executor import Encoded, Executor
from detent.spi.guard import Guard
from detent.spi.middleware import Middleware
from detent.spi.runtime import Cancelable, Runtime
from detent.spi.sealing import Sealer, Sealing, Surface
from detent.spi.store import ClaimStore, ContextStore, PendingCompletion
from detent.tasks import Registry, Task


class Stop(StrEnum):
    """Why an attempt was told to stop."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    DRAIN = "drain"
    """The job goes back uncharged: its node drains, or another node can start it sooner."""
    FENCED = "fenced"
    """The node lost its right to the job: nothing may be written any more."""


# After these the job ends, also when its call does not.
ENDS_WITHOUT: Final = (Stop.TIMEOUT, Stop.CANCEL)


@dataclass(slots=True)
class Workbench:
    """What all attempts of a node share."""

    runtime: Runtime
    bus: Bus
    registry: Registry
    claims: ClaimStore
    contexts: ContextStore
    codecs: Mapping[str, Codec]
    executors: Mapping[str, Executor]
    middleware: Sequence[Middleware]
    limits: LimitsConfig
    scribe: Scribe
    guards: tuple[Guard, ...] = ()
    listeners: Listeners | None = None
    heard: Mapping[type, object] = field(default_factory=dict)
    """The types of events that listeners of the application wait for; mostly none."""
    lifetime: Lifetime | None = None
    """Where the node keeps what its tasks depend on."""
    sealing: Sealing | None = None
    """What opens and seals, where there are keys."""
    clean: Clean | None = None
    """What takes out of errors what nobody is to see."""
    sanitizer: Sanitizer | None = None
    """What the application does with errors after that."""
    queued: "dict[UUID, Attempt]" = field(default_factory=dict)
    """Attempts that wait for a worker of their executor while others occupy all of them; the one
    that has waited longest comes first."""
    may_run: Callable[[], bool] = lambda: True
    """Whether the node still has its lease, by its own clock; asked right before a job runs."""
    on_canceled: "Callable[[Attempt], None]" = lambda _attempt: None
    """Called when a job was told to stop whose end is written even if its call goes on."""
    is_dying: Callable[[], bool] = lambda: False
    """Whether the event loop is ending under the node: then nothing can be written any more."""
    pace: Pace = field(default_factory=Pace)
    """How many bytes of arguments and results were worked on in this turn of the loop."""


class Attempt:
    """One try of one job."""

    # Most attempts end without any of this being set, so it costs nothing to have.
    job_task: Task[..., Any] | None = None
    task: Any = None
    """The asyncio task that runs it."""
    timeout: float | None = None
    silence: float | None = None
    """For how many seconds it may give no sign of life."""
    lasted = 0.0
    """How many seconds it has taken, once it is over."""
    heard_at = 0.0
    silent = False
    """Whether it was stopped because it gave none."""
    timer: Cancelable | None = None
    stop: Stop | None = None
    reason: str | None = None
    begun = False
    """Whether the asyncio task has taken its first step."""
    calling = False
    """Whether its function has been called. Until then it can go back as if it had never been here:
    it waits for a slot, for others of its batch, for its arguments or for a worker."""
    over = False
    """Whether the task's function has ended, so that stopping it means nothing any more."""
    cut_short = False
    """Whether the node lost its lease after that, before the end was handed on."""
    refused = False
    """Whether the store has refused its end."""
    completed = False
    """Whether `ctx.transaction()` has written the end of the job."""
    transacting = False
    """Whether one is open."""
    side_writes = False
    """Whether something was written beside the job that its end must take away."""
    admitted_by: tuple[Guard, ...] = ()
    """The guards that let it pass; they are told how it ended."""
    batch: Any = None
    """The batch that it stands for, if it is the first of one."""
    lingering = False
    """Whether its thread or coroutine goes on although the attempt was given up."""
    result: bytes | None = None
    sealer: Sealer | None = None
    """What seals its result and its error, if they are to be sealed."""
    opened_params: bytes | None = None
    """What was sealed, in the clear."""
    failure: str = ""
    """Its last error in one line that may be told."""
    news: tuple[object, ...] = ()
    """What listeners are told of it as soon as its end is committed."""
    on_freed: Callable[[], None] | None = None
    """To be called when a lingering call has ended after all."""

    log_lines = 0
    """How many this attempt has written; kept on the class until it writes the first."""

    def __init__(
        self, claim: Claim, queue: str, node_id: UUID, claimed: float, bench: Workbench
    ) -> None:
        self.claim = claim
        self.queue = queue
        self.node_id = node_id
        self.started = claimed
        self.bench = bench

    def stop_for(self, cause: Stop, reason: str | None = None) -> None:
        """Make the attempt end; the first cause counts, but losing the claim beats all."""
        if self.over:
            if cause is Stop.FENCED and self.task is not None:
                # Its end is known. It waits no longer for what is written before that.
                self.cut_short = True
                self.task.cancel()
            return
        first = self.stop is None
        if first or cause is Stop.FENCED:
            self.stop, self.reason = cause, reason
        # A coroutine that is canceled before its first step never runs, not even to its end.
        if self.task is not None and self.begun and not self.over:
            self.task.cancel()
            if first and cause in ENDS_WITHOUT:
                self.bench.on_canceled(self)

    def free(self) -> None:
        """A call that lingered has ended, perhaps before its attempt knew of its own end."""
        self.lingering = False
        on_freed, self.on_freed = self.on_freed, None
        if on_freed is not None:
            on_freed()

    # What the task sees through its JobContext:

    @property
    def job_id(self) -> UUID:
        """The id of the job."""
        return self.claim.id

    @property
    def task_name(self) -> str:
        """The name of the task."""
        return self.claim.task

    @property
    def attempt(self) -> int:
        """The number of this try."""
        return self.claim.attempt

    @property
    def generation(self) -> int:
        """How many lives the job has had."""
        return self.claim.generation

    @property
    def fence(self) -> int:
        """The fence of this claim."""
        return self.claim.fence

    @property
    def principal(self) -> str | None:
        """In whose name the job was enqueued."""
        options = self.claim.options
        return None if options is None else read_options(options).principal

    @property
    def schedule(self) -> str | None:
        """The schedule that fired the job."""
        options = self.claim.options
        return None if options is None else read_options(options).schedule

    @property
    def slot(self) -> datetime | None:
        """The slot that the job was fired for."""
        options = self.claim.options
        return None if options is None else read_options(options).slot

    def deadline(self) -> datetime | None:
        """When the attempt will be stopped."""
        if self.timeout is None:
            return None
        runtime = self.bench.runtime
        left = self.started + self.timeout - runtime.monotonic()
        return runtime.utcnow() + timedelta(seconds=left)

    def params(self) -> Mapping[str, Any]:
        """What came with `options(params=...)`."""
        params = self.opened_params or self.claim.params
        if params is None:
            return {}
        decoded: dict[str, Any] = self.bench.codecs["json"].decode(params)
        return decoded

    def tags(self) -> Sequence[str]:
        """The job's tags."""
        return tuple(self.claim.tags or ())

    def cancel_requested(self) -> bool:
        """Whether the attempt should end."""
        return self.stop is not None

    def check_canceled(self) -> None:
        """Raise if the attempt should end."""
        if self.stop is Stop.FENCED:
            raise ClaimLost(self.job_id)
        if self.stop is not None:
            raise JobCanceled(self.job_id, self.reason or str(self.stop))

    def heartbeat(self) -> None:
        """Show that the task goes on; on any thread."""
        self.heard_at = self.bench.runtime.monotonic()

    def save_progress(self, fraction: float, message: str | None) -> None:
        """Keep how far the task is."""
        self.heartbeat()
        if self.stop is Stop.FENCED:
            return
        self.side_writes = True
        text = None if message is None else self._kept(message)
        self.bench.scribe.progress(Progress(self.job_id, self.fence, fraction, text))

    def write_log(self, level: str, message: str) -> None:
        """Keep a line; what comes after the claim was lost would be refused anyway."""
        if self.stop is Stop.FENCED:
            return
        self.side_writes = True
        self.log_lines += 1
        most = self.bench.limits.max_log_lines
        if self.log_lines > most + 1:
            return
        if self.log_lines > most:
            level, message = (
                "warning",
                f"further lines are not kept: [limits] max_log_lines = {most}",
            )
        line = LogLine(self.job_id, self.fence, self.attempt, level, self._kept(message))
        self.bench.scribe.log(line)

    def _kept(self, text: str) -> str:
        """Return what is kept of what a task writes: no secrets, and not too much."""
        return kept(text, self.bench.limits.max_log_line, self.bench.clean)

    def set_result(self, value: Any) -> None:
        """Set what `transaction()` will store."""
        self.result = encode_result(self, value)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction that completes the job."""
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        if self.completed:
            raise DetentError(f"ctx.transaction() has ended job {self.job_id} already")
        if self.transacting:
            # It would wait for the claim that the other one has locked.
            raise DetentError(f"ctx.transaction() of job {self.job_id} is open: use its connection")
        self.transacting = True
        try:
            await self.bench.scribe.flush()
            pending = PendingCompletion(queue=self.queue)
            context = self.bench.contexts.transaction(self.node_id, self.claim, pending)
            async with context as connection:
                yield connection
                pending.result = self.result
                pending.lasted = self.bench.runtime.monotonic() - self.started
            self.completed = True
        finally:
            self.transacting = False


def encode_result(attempt: Attempt, value: Any) -> bytes | None:
    """Return a result as bytes, or raise `InvalidJob` when it cannot be stored."""
    if value is None:
        return None
    if isinstance(value, Encoded):
        if value.data is None:
            raise InvalidJob(value.problem or "it was not encoded")
        data = value.data
    else:
        data = attempt.bench.codecs["json"].encode(value)
    if attempt.sealer is not None:
        data = attempt.sealer.seal(Surface.RESULT, attempt.job_id, data)
    limit = attempt.bench.limits.max_result
    if len(data) >= LARGE:
        attempt.bench.pace.spend(len(data))
    if len(data) > limit:
        raise PayloadTooLarge("the result", len(data), limit)
    return data
