"""What happens with single jobs, in words."""

import logging
from typing import Final

from detent import events
from detent.logs.words import Lines, job


def _started(event: events.JobStarted) -> str:
    return f"{job(event)} from queue {event.queue} started; attempt {event.attempt} is running"


def _succeeded(event: events.JobSucceeded) -> str:
    return (
        f"{job(event)} succeeded in attempt {event.attempt} after {event.duration:.3f} s; "
        "its outcome is being written"
    )


def _retrying(event: events.JobRetrying) -> str:
    return (
        f"{job(event)} failed in attempt {event.attempt}: {event.error}; "
        f"retrying in {event.delay:.1f} s as attempt {event.attempt + 1}"
    )


def _died(event: events.JobDied) -> str:
    return (
        f"{job(event)} failed for good in attempt {event.attempt}: {event.error}; "
        "it stays with the failed jobs until it is retried or deleted"
    )


def _snoozed(event: events.JobSnoozed) -> str:
    why = "asked to wait" if event.reason is None else f"is held back: {event.reason}"
    return f"{job(event)} {why}; running it again in {event.delay:.1f} s, nothing charged"


def _timed_out(event: events.JobTimedOut) -> str:
    what = "gave no sign of life for" if event.silent else "took longer than"
    return (
        f"{job(event)} {what} {event.timeout:g} s in attempt {event.attempt} and was "
        "stopped; its retry policy decides what follows"
    )


def _canceled(event: events.JobWasCanceled) -> str:
    reason = f" ({event.reason})" if event.reason else ""
    return f"{job(event)} was canceled while it ran{reason}; it runs again only if it is retried"


def _claim_lost(event: events.ClaimWasLost) -> str:
    return (
        f"the claim on {job(event)} was lost; what this attempt came to is dropped, "
        "the next claim decides"
    )


def _result_dropped(event: events.ResultDropped) -> str:
    return (
        f"the result of {job(event)} could not be kept: {event.problem}; "
        "the job succeeds without it"
    )


def _task_unknown(event: events.TaskUnknown) -> str:
    return (
        f"job {event.job_id} names the task {event.task!r}, which this node does not know; "
        "it waits, uncharged, for a node that does"
    )


def _executor_trouble(event: events.ExecutorTrouble) -> str:
    return (
        f"the executor {event.executor} could not begin {job(event)}: {event.error}; "
        f"the job comes back in {event.delay:.1f} s, nothing charged"
    )


def _stuck_thread(event: events.StuckThread) -> str:
    return (
        f"the thread of {job(event)} goes on after its attempt was given up; "
        "its result will be refused and it keeps its slot until it returns"
    )


def _stuck_coroutine(event: events.StuckCoroutine) -> str:
    return (
        f"the coroutine of {job(event)} goes on although it was canceled; "
        "its result will be refused and it keeps its slot until it returns"
    )


def _rescued(event: events.JobRescued) -> str:
    what = {
        "pending": "it runs again, uncharged",
        "canceled": "it was to be canceled, and is",
        "failed": "it fails for good: it was the only suspect each time",
    }[event.state]
    return f"{job(event)} was held by node {event.node}, which died; {what}"


def _claim_orphaned(event: events.ClaimOrphaned) -> str:
    return (
        f"job {event.job_id} of queue {event.queue} was claimed by node {event.node}, but its row "
        "in the table of jobs is missing; the claim was removed with its permits and keys"
    )


def _finish_gave_up(event: events.FinishGaveUp) -> str:
    return (
        f"the end of {job(event)} could not be written: {event.error}; "
        "the run counts as a failed attempt, or as a crash if its node ends first"
    )


LINES: Final[Lines] = {
    events.JobStarted: (logging.DEBUG, _started),
    events.JobSucceeded: (logging.DEBUG, _succeeded),
    events.JobRetrying: (logging.WARNING, _retrying),
    events.JobDied: (logging.ERROR, _died),
    events.JobSnoozed: (logging.INFO, _snoozed),
    events.JobTimedOut: (logging.WARNING, _timed_out),
    events.JobWasCanceled: (logging.INFO, _canceled),
    events.ClaimWasLost: (logging.WARNING, _claim_lost),
    events.ResultDropped: (logging.WARNING, _result_dropped),
    events.TaskUnknown: (logging.WARNING, _task_unknown),
    events.ExecutorTrouble: (logging.WARNING, _executor_trouble),
    events.StuckThread: (logging.WARNING, _stuck_thread),
    events.StuckCoroutine: (logging.WARNING, _stuck_coroutine),
    events.JobRescued: (logging.INFO, _rescued),
    events.ClaimOrphaned: (logging.ERROR, _claim_orphaned),
    events.FinishGaveUp: (logging.ERROR, _finish_gave_up),
}
