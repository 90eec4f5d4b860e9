"""Errors as they are stored and told: type, message and traceback, whatever the task raised."""

import msgspec

from detent._engine.attempt import Attempt, Workbench
from detent.model.failure import (
    LINE_LIMIT,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    TRACEBACK_LIMIT,
    Failure,
    describe,
    failure_of,
    kept,
)
from detent.model.text import storable
from detent.spi.sealing import Surface


def encode_error(attempt: Attempt, error: BaseException) -> bytes:
    """Return an exception as it is stored with a job."""
    data = msgspec.json.encode(_told(attempt.bench, error)._asdict())
    if attempt.sealer is None:
        return data
    return attempt.sealer.seal(Surface.ERROR, attempt.job_id, data)


def describe_error(attempt: Attempt, error: BaseException | None) -> str:
    """Return an exception in one line, for events and the logs and sinks that they go to."""
    bench = attempt.bench
    if attempt.sealer is not None and error is not None:
        # What it says may quote what is stored encrypted.
        return f"{_told(bench, error).type}: <encrypted>"
    if error is None or bench.sanitizer is None:
        return describe(error, bench.clean)
    told = _told(bench, error)
    return f"{told.type}: {storable(told.message, LINE_LIMIT)}"


def reason_of(attempt: Attempt, reason: str | None) -> str | None:
    """Return why a task canceled itself, in words that may be kept."""
    if reason is None:
        return None
    if attempt.sealer is not None:
        # It may quote what is stored encrypted, and has no such place itself.
        return "<encrypted>"
    return kept(reason, MESSAGE_LIMIT, attempt.bench.clean)


def _told(bench: Workbench, error: BaseException) -> Failure:
    """Return an exception in words that may be kept; in doubt, in fewer words."""
    failure = failure_of(error, bench.clean)
    if bench.sanitizer is None:
        return failure
    try:
        told = bench.sanitizer(failure)
        if not isinstance(told, Failure) or not all(isinstance(part, str) for part in told):
            raise TypeError("it must return a Failure of three texts")
    except BaseException as broken:  # noqa: BLE001  the user's function must not lose the job
        words = f"<its message was not kept: the sanitizer raised {type(broken).__name__}>"
        return Failure(failure.type, words, "")
    return Failure(
        storable(told.type, NAME_LIMIT),
        storable(told.message, MESSAGE_LIMIT),
        storable(told.traceback, TRACEBACK_LIMIT),
    )
