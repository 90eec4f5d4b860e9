"""Exceptions on their way out of a child process: told in words there, raised again here."""

from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from detent.control_flow import Fail, RetryAfter, Snooze
from detent.errors import JobCanceled, RemoteError
from detent.executors.frames import Raised
from detent.model.failure import NAME_LIMIT, Failure, Remote, failure_of
from detent.model.retry import CAUSES_SEARCHED, Retry, is_never
from detent.model.text import storable

REASON_LIMIT: Final = 2_000
LINEAGE: Final = 20

Traced = TypeVar("Traced", RemoteError, "RemoteFail", "RemoteRetryAfter")


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


def lineage_of(error: BaseException) -> list[str]:
    """Return the names of the classes that an exception, or one it was raised from, is of."""
    names: dict[str, None] = {}
    cause: BaseException | None = error
    for _ in range(CAUSES_SEARCHED):
        if cause is None:
            break
        kinds = type(cause).__mro__[:LINEAGE]
        names.update((storable(_full_name(kind), NAME_LIMIT), None) for kind in kinds)
        cause = cause.__cause__
    return list(names)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def tell(error: BaseException, policy: Retry) -> Raised:
    """Put an exception into words, with all that decides what follows from it."""
    failure = failure_of(error)
    kind = type(error)
    told = Raised(
        sort="error",
        type_name=storable(_full_name(kind), REASON_LIMIT),
        type=failure.type,
        message=failure.message,
        traceback=failure.traceback,
        never=is_never(policy, error),
        lineage=lineage_of(error),
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
            return _traced(RemoteRetryAfter(failure, _wait(told.wait), never=told.never), told)
        case "fail":
            return _traced(RemoteFail(failure), told)
        case "canceled":
            return JobCanceled(job_id, told.reason)
        case _:
            return _traced(RemoteError(failure, told.type_name, never=told.never), told)


def _traced(error: Traced, told: Raised) -> Traced:
    error.lineage = tuple(told.lineage)
    return error


def _wait(seconds: float) -> timedelta:
    """Return a wait that came as a number; what is too long for a timedelta is bounded later."""
    return timedelta(seconds=max(min(seconds, 1e9), 0.0))


def _text(value: Any) -> str | None:
    return None if value is None else storable(str(value), REASON_LIMIT)
