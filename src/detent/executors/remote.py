"""Exceptions on their way out of a child process: told in words there, raised again here."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from detent.control_flow import Fail, RetryAfter, Snooze
from detent.errors import JobCanceled, RemoteError
from detent.executors.frames import Raised
from detent.model.failure import Failure, Remote, failure_of
from detent.model.retry import Retry, is_never
from detent.model.text import storable

REASON_LIMIT: Final = 2_000


class RemoteFail(Remote, Fail):
    """A `Fail` that a task raised in a child process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RemoteRetryAfter(Remote, RetryAfter):
    """A `RetryAfter` that a task raised in a child process."""

    def __init__(self, failure: Failure, wait: timedelta, *, never: bool) -> None:
        super().__init__(wait, failure.message)
        self.failure = failure
        self.never = never


def tell(error: BaseException, policy: Retry) -> Raised:
    """Put an exception into words, with all that decides what follows from it."""
    failure = failure_of(error)
    kind = type(error)
    told = Raised(
        sort="error",
        type_name=storable(f"{kind.__module__}.{kind.__qualname__}", REASON_LIMIT),
        type=failure.type,
        message=failure.message,
        traceback=failure.traceback,
        never=is_never(policy, error),
    )
    match error:
        case Snooze():
            told.sort, told.wait = "snooze", error.wait.total_seconds()
        case RetryAfter():
            told.sort, told.wait = "retry_after", error.wait.total_seconds()
        case Fail():
            told.sort = "fail"
        case JobCanceled():
            told.sort, told.reason = "canceled", _text(error.reason)
    return told


def retold(told: Raised, job_id: UUID) -> Exception:
    """Return the exception to raise here; it leads to the same decision as the original."""
    failure = Failure(told.type, told.message, told.traceback)
    match told.sort:
        case "snooze":
            return Snooze(_wait(told.wait))
        case "retry_after":
            return RemoteRetryAfter(failure, _wait(told.wait), never=told.never)
        case "fail":
            return RemoteFail(failure)
        case "canceled":
            return JobCanceled(job_id, told.reason)
        case _:
            return RemoteError(failure, told.type_name, never=told.never)


def _wait(seconds: float) -> timedelta:
    """Return a wait that came as a number; what is too long for a timedelta is bounded later."""
    return timedelta(seconds=max(min(seconds, 1e9), 0.0))


def _text(value: Any) -> str | None:
    return None if value is None else storable(str(value), REASON_LIMIT)
