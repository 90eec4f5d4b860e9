"""Every error that Detent raises on purpose, in one tree.

    DetentError
    ├── ConfigError               a setting, an option or a declaration that cannot be right
    ├── InvalidJob                what was to be enqueued cannot be stored or run
    │   ├── UnknownTask           no task of that name is registered
    │   ├── InvalidArguments      arguments that do not fit the task's signature
    │   └── PayloadTooLarge       more bytes than the limit allows
    ├── KeyTaken                  another live job holds the business key
    ├── Conflict                  the job is not in the state that was expected
    ├── JobNotFound               no job with that id
    ├── JobFailed                 raised by `result()`: the job ended in the dead-letter set
    ├── JobCanceled               raised by `result()`, and inside a job that is canceled
    ├── JobTimeout                an attempt, or waiting for a result, took too long
    ├── ClaimLost                 this attempt no longer owns its job; nothing it writes counts
    ├── WrongThread               a blocking call on the thread of a running event loop
    └── StoreError                the store could not do what was asked
        ├── StoreUnavailable      it cannot be reached; trying again may help
        ├── ConstraintViolated    a unique or foreign key constraint refused the write
        └── SchemaMismatch        its schema is older or newer than this code

Tasks raise `Snooze`, `Fail` and `RetryAfter` to say what should follow; those are not errors and
stand in `detent.control_flow`.
"""

from typing import Any
from uuid import UUID


class DetentError(Exception):
    """The root of all errors that Detent raises on purpose."""


class ConfigError(DetentError):
    """A setting that cannot be right; the message names it, its value and what would be valid."""


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


class Conflict(DetentError):
    """The job is not in the state or generation that the operation expected."""

    def __init__(self, job_id: UUID, verb: str, state: str) -> None:
        super().__init__(f"cannot {verb} job {job_id}: it is {state}")
        self.job_id = job_id
        self.verb = verb
        self.state = state


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
    """The job was canceled."""

    def __init__(self, job_id: UUID, reason: str | None = None) -> None:
        super().__init__(f"job {job_id} was canceled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason


class JobTimeout(DetentError):
    """Something took longer than it was allowed to."""


class ClaimLost(DetentError):
    """This attempt no longer owns its job: it was rescued, or its node was declared dead."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"the claim on job {job_id} is lost; nothing this attempt writes counts")
        self.job_id = job_id


class WrongThread(DetentError):
    """A blocking call was made on the thread of a running event loop."""


class StoreError(DetentError):
    """The store could not do what was asked; the driver's error is the cause."""


class StoreUnavailable(StoreError):
    """The store cannot be reached at the moment."""


class ConstraintViolated(StoreError):
    """A constraint of the database refused the write."""

    def __init__(self, kind: str, constraint: str, detail: str) -> None:
        super().__init__(f"the {kind} constraint {constraint} refused the write: {detail}")
        self.kind = kind
        self.constraint = constraint


class SchemaMismatch(StoreError):
    """The store's schema does not fit this version of the code; the message says what to run."""
