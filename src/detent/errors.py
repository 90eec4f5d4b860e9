"""Every error that Detent raises on purpose, in one tree.

    DetentError
    ├── ConfigError               a setting, an option or a declaration that cannot be right
    ├── InvalidJob                what was to be enqueued cannot be stored or run
    │   ├── UnknownTask           no task of that name is registered
    │   ├── InvalidArguments      arguments that do not fit the task's signature
    │   └── PayloadTooLarge       more bytes than the limit allows
    ├── KeyTaken                  another live job holds the business key
    ├── Conflict                  a job, schedule or calendar is not in the state that was expected
    ├── JobNotFound               no job with that id
    ├── NodeNotFound              no node of that name or incarnation
    ├── ScheduleNotFound          no schedule of that name
    ├── CalendarNotFound          no calendar of that name
    ├── AlertNotFound             no alert with that number
    ├── BreakerNotFound           no circuit breaker of that name
    ├── JobFailed                 raised by `result()`: the job ended in the dead-letter set
    ├── JobCanceled               raised by `result()`, and inside a job that is canceled
    ├── InvalidResult             raised by `result()`: it does not fit the task's return type
    ├── ResultNotStored           raised by `result()`: the job succeeded, its result was dropped
    ├── JobTimeout                an attempt, or waiting for a result, took too long
    ├── RemoteError               what a task raised in a child process
    ├── ProcessDied               a child process ended before its job did
    ├── SubTaskExited             a task that a job started raised SystemExit or KeyboardInterrupt
    ├── ExecutorUnavailable       an executor could not even begin; the job comes back uncharged
    ├── ClaimLost                 this attempt no longer owns its job; nothing it writes counts
    ├── TermLost                  this leader was followed by another; nothing it writes counts
    ├── LockTaken                 somebody else held the lock for longer than one would wait
    ├── LockLost                  the lock's time ran out, or somebody took it away
    ├── DeliveryFailed            raised by a sink: it could not deliver an event
    ├── WrongThread               a blocking call on the thread of a running event loop
    ├── NotAllowed                the application's own rule does not let this principal do it
    ├── SealError                 something encrypted cannot be made, or cannot be opened
    │   ├── KeyUnavailable        who keeps the keys does not answer; trying again may help
    │   ├── KeyMissing            no key of that id is known here
    │   ├── SealTooNew            made by newer code, in a way that this code does not know
    │   └── SealBroken            altered, or not made for this job and place
    └── StoreError                the store could not do what was asked
        ├── StoreUnavailable      it cannot be reached; trying again may help
        ├── ConstraintViolated    a unique or foreign key constraint refused the write
        ├── WrongConnection       what `within=` was given cannot be used for it
        └── SchemaMismatch        its schema is older or newer than this code

Tasks raise `Snooze`, `Fail` and `RetryAfter` to say what should follow; those are not errors and
stand in `detent.control_flow`.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from detent.model.failure import Failure, Remote
from detent.model.refusals import ConfigError as ConfigError  # noqa: PLC0414  theirs too
from detent.model.refusals import DetentError as DetentError  # noqa: PLC0414


class InvalidJob(DetentError):
    """A job that cannot be stored or run; nothing was enqueued."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class UnknownTask(InvalidJob):
    """No task of that name is registered with the app."""

    def __init__(self, name: str, nearest: str | None = None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"no task is named {name!r}{hint}", path="task")
        self.name = name


class InvalidArguments(InvalidJob):
    """Arguments that the task's signature or the codec does not accept."""


class PayloadTooLarge(InvalidJob):
    """A payload of more bytes than the limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what} is {size:,} bytes, more than the limit of {limit:,}; "
            "store it elsewhere and pass a reference",
            path=what,
        )
        self.size = size
        self.limit = limit


class KeyTaken(DetentError):
    """Another live job holds the business key."""

    def __init__(self, key: str, job_id: UUID) -> None:
        super().__init__(f"the key {key!r} is held by job {job_id}, which has not ended")
        self.key = key
        self.job_id = job_id


class KeyMismatch(DetentError):
    """The idempotency key stands for a job of the same task with other arguments."""

    def __init__(self, key: str, job_id: UUID, task: str) -> None:
        super().__init__(
            f"the key {key!r} of {task} stands for job {job_id}, which has other arguments; "
            "use another key, or on_key_mismatch='return' to be given that job"
        )
        self.key = key
        self.job_id = job_id
        self.task = task


class Conflict(DetentError):
    """What is to be changed is not in the state that the operation expected; mostly a job."""

    def __init__(
        self, job_id: UUID | None, verb: str, state: str, *, subject: str | None = None
    ) -> None:
        super().__init__(f"cannot {verb} {subject or f'job {job_id}'}: it is {state}")
        self.job_id = job_id
        """None when it is about something else."""
        self.verb = verb
        self.state = state


class CancelTooLate(Conflict):
    """The job was asked to stop and ended otherwise before it did; `state` says how."""

    def __init__(self, job_id: UUID, state: str) -> None:
        super().__init__(job_id, "cancel", f"{state}: the request came too late")
        self.state = state


class NodeNotFound(DetentError):
    """There is no node of this name or incarnation."""

    def __init__(self, node: object) -> None:
        super().__init__(f"there is no node {str(node)!r}")
        self.node = node


class ScheduleNotFound(DetentError):
    """There is no schedule of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.name = name


class CalendarNotFound(DetentError):
    """There is no calendar of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no calendar {name!r}")
        self.name = name


class BreakerNotFound(DetentError):
    """There is no circuit breaker of this name, and none was ever used."""

    def __init__(self, name: str, nearest: str | None = None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"there is no breaker {name!r}{hint}")
        self.name = name


class AlertNotFound(DetentError):
    """There is no alert of this number."""

    def __init__(self, alert: int) -> None:
        super().__init__(f"there is no alert {alert}")
        self.alert = alert


class JobNotFound(DetentError):
    """No job with that id exists, or it was deleted."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"no job with the id {job_id}")
        self.job_id = job_id


class JobFailed(DetentError):
    """The job failed for good."""

    def __init__(self, job_id: UUID, error: dict[str, Any] | None) -> None:
        what = f": {error.get('type')}: {error.get('message')}" if error else ""
        super().__init__(f"job {job_id} failed{what}")
        self.job_id = job_id
        self.error = error


class JobCanceled(DetentError):
    """The job was canceled. A task that raises it cancels itself: `raise JobCanceled("why")`."""

    def __init__(
        self,
        job_id: UUID | str | None = None,
        reason: str | None = None,
        replaced_by: UUID | None = None,
    ) -> None:
        if isinstance(job_id, str):
            job_id, reason = None, job_id
        who = "the job" if job_id is None else f"job {job_id}"
        super().__init__(f"{who} was canceled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        """None where a task has raised it itself."""
        self.reason = reason
        self.replaced_by = replaced_by
        """The job that took its place, if it was canceled for that."""


class InvalidResult(DetentError):
    """What the job returned does not fit the return type of its task."""

    def __init__(self, job_id: UUID, problem: str) -> None:
        super().__init__(f"the result of job {job_id} is not what its task promises: {problem}")
        self.job_id = job_id


class ResultNotStored(DetentError):
    """The job succeeded; what it returned could not be stored, and `problem` says why."""

    def __init__(self, job_id: UUID, problem: str) -> None:
        super().__init__(f"job {job_id} succeeded, but its result was not stored: {problem}")
        self.job_id = job_id
        self.problem = problem


class JobTimeout(DetentError):
    """Something took longer than it was allowed to."""


class RemoteError(Remote, DetentError):
    """What a task raised in a child process, in words: its class may exist only there."""

    def __init__(self, failure: Failure, type_name: str, *, never: bool = False) -> None:
        super().__init__(f"{failure.type}: {failure.message}")
        self.failure = failure
        self.type_name = type_name
        """The class with its module, such as `decimal.InvalidOperation`."""
        self.never = never


class ProcessDied(DetentError):
    """A child process ended, or had to be ended, before its job did; the message says how."""


class SubTaskExited(DetentError):
    """A task that a job started raised `SystemExit` or `KeyboardInterrupt`; only its job fails."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"a task that the job started raised {error!r}")


class ExecutorUnavailable(DetentError):
    """An executor could not begin a call, through no fault of its job, which comes back later."""


class ClaimLost(DetentError):
    """This attempt no longer owns its job: it was rescued, or its node was declared dead."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"the claim on job {job_id} is lost; nothing this attempt writes counts")
        self.job_id = job_id


class TermLost(DetentError):
    """The term is over: another leads the role, or nobody does."""

    def __init__(self, role: str, term: int) -> None:
        super().__init__(
            f"term {term} of {role!r} is over; nothing that is written under it counts"
        )
        self.role = role
        self.term = term


class LockTaken(DetentError):
    """Somebody else held the lock all the time that one was willing to wait."""

    def __init__(self, name: str, waited: float) -> None:
        super().__init__(f"the lock {name!r} is held by somebody else; waited {waited:g} s for it")
        self.name = name


class LockLost(DetentError):
    """The lock is no longer held, although it was not released: somebody else may hold it."""

    def __init__(self, name: str, fence: int, reason: str) -> None:
        super().__init__(f"the lock {name!r} (fence {fence}) is lost: {reason}")
        self.name = name
        self.fence = fence
        self.reason = reason


class DeliveryFailed(DetentError):
    """A sink could not deliver an event; it is tried again, for a while.

    `retry_after` is how long the receiver wants to be left alone. A receiver that `refused` is
    tried a few times only.
    """

    def __init__(
        self, message: str, *, retry_after: timedelta | None = None, refused: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.refused = refused


class WrongThread(DetentError):
    """A blocking call was made on the thread of a running event loop."""


class NotAllowed(DetentError):
    """The rule of `@app.authorize` does not let this principal do this."""

    def __init__(self, principal: str | None, action: str, target: object) -> None:
        who = "nobody in particular" if principal is None else repr(principal)
        super().__init__(f"{who} is not allowed to {action} {target}")
        self.principal = principal
        self.action = action
        self.target = target


class SealError(DetentError):
    """A value cannot be sealed, or a sealed one cannot be opened."""


class KeyUnavailable(SealError):
    """The provider of keys does not answer at the moment; its error is the cause."""


class KeyMissing(SealError):
    """A value was sealed with a key that is not known here."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"it is encrypted with the key {key_id!r}, which is not known here")
        self.key_id = key_id


class SealTooNew(SealError):
    """A value was sealed by newer code; it can wait for a node that runs it."""


class SealBroken(SealError):
    """A sealed value was altered, or belongs to another job or another place in it."""


class StoreError(DetentError):
    """The store could not do what was asked; the driver's error is the cause."""


class StoreUnavailable(StoreError):
    """The store cannot be reached at the moment, or lacks space or memory; retry later."""


class StoreBusy(StoreUnavailable):
    """Rows that the store needs are locked by another transaction."""


class ConstraintViolated(StoreError):
    """A constraint of the database refused the write."""

    def __init__(self, kind: str, constraint: str, detail: str) -> None:
        super().__init__(f"the {kind} constraint {constraint} refused the write: {detail}")
        self.kind = kind
        self.constraint = constraint


class WrongConnection(StoreError):
    """What `within=` was given is no connection, or one that leads elsewhere or has no transaction.

    The message says what it is and what to do.
    """


class SchemaMismatch(StoreError):
    """The store's schema does not fit this version of the code; the message says what to run."""
