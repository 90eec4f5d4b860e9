"""Jobs as values for programs, and in words for people."""

from datetime import datetime
from typing import Any, Final

from detent.cli.moments import ago, iso
from detent.model.job import Attempt, JobInfo, LogEntry, Priority
from detent.model.payloads import decoded
from detent.model.state import State

REASONS: Final = {
    "unknown_task": "for a node that knows the task",
    "replaces": "for the end of the job that it replaces",
}


def brief(job: JobInfo) -> dict[str, Any]:
    """Return a job without its payloads, for listings."""
    return {
        "id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "state": str(job.state),
        "priority": Priority(job.priority).name.lower(),
        "attempt": job.attempt,
        "generation": job.generation,
        "crashes": job.crashes,
        "enqueued_at": iso(job.enqueued_at),
        "due_at": iso(job.due_at),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
        "archived_at": iso(job.archived_at),
        "duration": None if job.duration is None else round(job.duration.total_seconds(), 6),
        "node": None if job.node is None else str(job.node),
        "needs": list(job.needs),
        "tags": list(job.tags),
        "key": job.idempotency_key,
        "unique": job.unique_key,
        "reason": job.reason,
        "cancel_requested": job.cancel_requested,
        "cancel_too_late": job.cancel_too_late,
        # A database may keep it as a short float: 0.4 comes back with a long tail.
        "progress": None if job.progress is None else round(job.progress, 4),
        "progress_message": job.progress_message,
    }


def full(job: JobInfo) -> dict[str, Any]:
    """Return all that is known about a job."""
    return brief(job) | {
        "fence": job.fence,
        "principal": job.principal,
        "superseded_by": None if job.replaced_by is None else str(job.replaced_by),
        "args": job.decoded_args,
        "params": decoded(job.params, job.codec),
        "options": said(job.options),
        "result": job.decoded_result,
        "error": job.decoded_error,
    }


def attempt_record(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt that did not succeed."""
    return {
        "number": attempt.number,
        "generation": attempt.generation,
        "kind": attempt.kind,
        "node": None if attempt.node is None else str(attempt.node),
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "error": decoded(attempt.error),
    }


def log_record(entry: LogEntry) -> dict[str, Any]:
    """Return a line of the log."""
    return {
        "at": iso(entry.at),
        "attempt": entry.attempt,
        "level": entry.level,
        "message": entry.message,
    }


def said(options: bytes | None) -> Any:
    """Return the options of a job without its principal, which is shown by itself."""
    found = decoded(options)
    if isinstance(found, dict):
        found.pop("principal", None)
    return found or None


def when(job: JobInfo, at: datetime) -> str:
    """Return what the time means to a job in its state."""
    match job.state:
        case State.PENDING | State.PAUSED:
            return f"due {ago(job.due_at, at)}"
        case State.RUNNING:
            words = f"started {ago(job.started_at or at, at)}"
            return words if job.progress is None else f"{words}, {job.progress:.0%}"
        case State.WAITING:
            return "no node knows it" if job.reason == "unknown_task" else "another job first"
        case _:
            return f"ended {ago(job.finished_at or at, at)}"
