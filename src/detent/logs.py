"""Turns events into log lines: the only place that decides what is said, and how loudly.

Every line says what happened and ends with what happens next. Arguments and results of jobs are
never logged. The event itself goes along as `record.event`, for handlers that write fields.
"""

import logging
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from detent import events
from detent.events import Bus

LOGGER: Final = logging.getLogger("detent")

_LONGEST: Final = 1000

Words = Callable[[Any], str]

_attached: Final[WeakKeyDictionary[Bus, set[logging.Logger]]] = WeakKeyDictionary()


def attach(bus: Bus, logger: logging.Logger = LOGGER) -> None:
    """Write a line to `logger` for the events of `bus` that its level lets through.

    What happens with every single job is listened to only when the logger is at DEBUG now:
    those events then cost nothing. Doing it again changes nothing.
    """
    if logger in _attached.setdefault(bus, set()):
        return
    _attached[bus].add(logger)
    for event_type, (level, words) in LINES.items():
        if level > logging.DEBUG or logger.isEnabledFor(logging.DEBUG):
            bus.subscribe(event_type, _listener(logger, level, words))


def _listener(logger: logging.Logger, level: int, words: Words) -> Callable[[Any], None]:
    def listen(event: Any) -> None:
        if logger.isEnabledFor(level):
            logger.log(level, "%s", _one_line(words(event)), extra={"event": event})

    return listen


def _one_line(text: str) -> str:
    """Keep what others wrote (an exception's message) from posing as a line of its own."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    if len(line) <= _LONGEST:
        return line
    # What happens next stands at the end, so the middle is what can go.
    return f"{line[: _LONGEST * 3 // 4]} ... {line[-_LONGEST // 4 :]}"


def _job(event: Any) -> str:
    return f"job {event.job_id} ({event.task})"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _started(event: events.JobStarted) -> str:
    return f"{_job(event)} from queue {event.queue} started; attempt {event.attempt} is running"


def _succeeded(event: events.JobSucceeded) -> str:
    return (
        f"{_job(event)} succeeded in attempt {event.attempt} after {event.duration:.3f} s; "
        "its outcome is being written"
    )


def _retrying(event: events.JobRetrying) -> str:
    return (
        f"{_job(event)} failed in attempt {event.attempt}: {event.error}; "
        f"retrying in {event.delay:.1f} s as attempt {event.attempt + 1}"
    )


def _died(event: events.JobDied) -> str:
    return (
        f"{_job(event)} failed for good in attempt {event.attempt}: {event.error}; "
        "it stays with the failed jobs until it is retried or deleted"
    )


def _snoozed(event: events.JobSnoozed) -> str:
    return f"{_job(event)} asked to wait; running it again in {event.delay:.1f} s, nothing charged"


def _timed_out(event: events.JobTimedOut) -> str:
    return (
        f"{_job(event)} took longer than {event.timeout:g} s in attempt {event.attempt} and was "
        "stopped; its retry policy decides what follows"
    )


def _canceled(event: events.JobWasCanceled) -> str:
    reason = f" ({event.reason})" if event.reason else ""
    return f"{_job(event)} was canceled while it ran{reason}; it runs again only if it is retried"


def _claim_lost(event: events.ClaimWasLost) -> str:
    return (
        f"the claim on {_job(event)} was lost; what this attempt came to is dropped, "
        "the next claim decides"
    )


def _result_dropped(event: events.ResultDropped) -> str:
    return (
        f"the result of {_job(event)} could not be kept: {event.problem}; "
        "the job succeeds without it"
    )


def _task_unknown(event: events.TaskUnknown) -> str:
    return (
        f"job {event.job_id} names the task {event.task!r}, which this node does not know; "
        "it waits, uncharged, for a node that does"
    )


def _stuck_thread(event: events.StuckThread) -> str:
    return (
        f"the thread of {_job(event)} goes on after its attempt was given up; "
        "its result will be refused and it keeps its slot until it returns"
    )


def _node_started(event: events.NodeStarted) -> str:
    queues = ", ".join(f"{queue} ({slots})" for queue, slots in event.queues.items())
    return f"node {event.name} ({event.node}) started; taking jobs from {queues}"


def _node_draining(event: events.NodeDraining) -> str:
    what = f"waiting for {_many(event.running, 'running job')}" if event.running else "leaving"
    return f"node {event.node} is draining and claims no more; {what}"


def _node_stopped(event: events.NodeStopped) -> str:
    what = (
        f"{_many(event.released, 'unfinished job')} went back, uncharged, for other nodes"
        if event.released
        else "all its jobs have ended or gone back"
    )
    return f"node {event.node} stopped; {what}"


def _node_fenced(event: events.NodeFenced) -> str:
    return (
        f"node {event.node} could not prove that it is alive: {event.reason}; "
        "it dropped its jobs, others will run them, and it joins anew"
    )


def _store_trouble(event: events.StoreTrouble) -> str:
    when = f"trying again in {event.retry_in:.1f} s" if event.retry_in else "trying again"
    return f"the store failed ({event.where}): {event.error}; {when}"


def _store_recovered(event: events.StoreRecovered) -> str:
    return f"the store answers again ({event.where}); going on"


def _finish_gave_up(event: events.FinishGaveUp) -> str:
    return (
        f"the end of {_job(event)} could not be written: {event.error}; "
        "it will run again when its claim is released"
    )


def _claims_reconciled(event: events.ClaimsReconciled) -> str:
    return (
        f"{_many(event.released, 'claim')} in the name of node {event.node} were unknown to it; "
        "they went back, uncharged, to be claimed again"
    )


def _clock_skew(event: events.ClockSkew) -> str:
    return (
        f"the clock of node {event.node} and the store's differ by {abs(event.seconds):.1f} s; "
        "jobs go on by the store's clock, but this machine's should be set right"
    )


def _hook_failed(event: events.HookFailed) -> str:
    return f"the hook {event.name} failed: {event.error}; going on without it"


LINES: Final[dict[type, tuple[int, Words]]] = {
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
    events.StuckThread: (logging.WARNING, _stuck_thread),
    events.NodeStarted: (logging.INFO, _node_started),
    events.NodeDraining: (logging.INFO, _node_draining),
    events.NodeStopped: (logging.INFO, _node_stopped),
    events.NodeFenced: (logging.ERROR, _node_fenced),
    events.StoreTrouble: (logging.WARNING, _store_trouble),
    events.StoreRecovered: (logging.INFO, _store_recovered),
    events.FinishGaveUp: (logging.ERROR, _finish_gave_up),
    events.ClaimsReconciled: (logging.WARNING, _claims_reconciled),
    events.ClockSkew: (logging.WARNING, _clock_skew),
    events.HookFailed: (logging.ERROR, _hook_failed),
}
"""What is said about each event, and at which level."""
