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
# For events that bring their own: what people write in their daemons.
_SEVERITIES: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

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
        loudness = _SEVERITIES.get(getattr(event, "severity", ""), level)
        if logger.isEnabledFor(loudness):
            logger.log(loudness, "%s", _one_line(words(event)), extra={"event": event})

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


def _executor_trouble(event: events.ExecutorTrouble) -> str:
    return (
        f"the executor {event.executor} could not begin {_job(event)}: {event.error}; "
        f"the job comes back in {event.delay:.1f} s, nothing charged"
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


def _node_died(event: events.NodeDied) -> str:
    return (
        f"node {event.name} ({event.node}, pid {event.pid} on {event.host}) died: its lease ran "
        "out; its jobs go back to be claimed by others"
    )


def _rescued(event: events.JobRescued) -> str:
    what = {
        "pending": "it runs again, uncharged",
        "canceled": "it was to be canceled, and is",
        "failed": "it fails for good: it was the only suspect each time",
    }[event.state]
    return f"{_job(event)} was held by node {event.node}, which died; {what}"


def _loop_blocked(event: events.LoopBlocked) -> str:
    who = "something" if event.task is None else f"job {event.job_id} ({event.task})"
    return (
        f"{who} has kept the event loop from going on for {event.seconds * 1000:.0f} ms, and "
        'nothing else runs on this node; make it a plain def, or executor="process". '
        f"It is at {event.stack}"
    )


def _process_held_up(event: events.ProcessHeldUp) -> str:
    text = f"the whole process was held up for {event.seconds:.1f} s, its heartbeat too"
    stopped = "the process or its machine was stopped"
    if event.task is not None:
        culprit = f"C code in job {event.job_id} ({event.task})"
    elif event.tasks:
        culprit = f"C code in a job of {', '.join(event.tasks)}"
    else:
        return f"{text}; {stopped}"
    return f'{text}, by {culprit}, which executor="process" would keep apart; or {stopped}'


def _leader_elected(event: events.LeaderElected) -> str:
    return f"node {event.node} leads {event.role} now, in term {event.term}; others stand by"


def _leader_lost(event: events.LeaderLost) -> str:
    return (
        f"node {event.node} no longer leads {event.role} (term {event.term}): {event.reason}; "
        "nothing is written under that term any more"
    )


def _leader_resigned(event: events.LeaderResigned) -> str:
    return f"node {event.node} gave up {event.role} (term {event.term}); others are told to follow"


def _daemon(event: Any) -> str:
    return f"daemon {event.daemon} (term {event.term})"


def _daemon_started(event: events.DaemonStarted) -> str:
    return f"{_daemon(event)} started on node {event.node}; it runs nowhere else"


def _daemon_ended(event: events.DaemonEnded) -> str:
    what = "returned" if event.error is None else f"failed: {event.error}"
    return f"{_daemon(event)} {what}; starting it again in {event.delay:.1f} s"


def _daemon_stopped(event: events.DaemonStopped) -> str:
    return f"{_daemon(event)} stopped on node {event.node}: {event.reason}; another may run it"


def _daemon_stuck(event: events.DaemonStuck) -> str:
    return (
        f"{_daemon(event)} goes on although it was told to stop; "
        "what it writes under its term is refused, and it is not started here again before it ends"
    )


def _daemon_said(event: events.DaemonSaid) -> str:
    return f"{_daemon(event)}: {event.message}"


def _lock_lost(event: events.LockWasLost) -> str:
    return (
        f"the lock {event.name!r} (fence {event.fence}) is lost: {event.reason}; "
        "somebody else may hold it now"
    )


def _store_trouble(event: events.StoreTrouble) -> str:
    when = f"trying again in {event.retry_in:.1f} s" if event.retry_in else "trying again"
    return f"the store failed ({event.where}): {event.error}; {when}"


def _store_recovered(event: events.StoreRecovered) -> str:
    return f"the store answers again ({event.where}); going on"


def _wakeups_lost(event: events.WakeupsLost) -> str:
    return f"no wake-ups reach this node: {event.reason}; jobs wait for its next poll"


def _wakeups_restored(_event: events.WakeupsRestored) -> str:
    return "wake-ups reach this node again; jobs start at once"


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


def _pruned(event: events.Pruned) -> str:
    parts = {
        "deleted": (event.deleted, "ended job"),
        "archived": (event.archived, "ended job"),
        "removed": (event.expired_keys, "expired key"),
        "dropped": (event.dropped, "archived job"),
    }
    done = [f"{verb} {_many(count, noun)}" for verb, (count, noun) in parts.items() if count]
    return f"retention {', '.join(done)} in {event.seconds:.1f} s; the rest stays for its time"


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
    events.ExecutorTrouble: (logging.WARNING, _executor_trouble),
    events.StuckThread: (logging.WARNING, _stuck_thread),
    events.NodeStarted: (logging.INFO, _node_started),
    events.NodeDraining: (logging.INFO, _node_draining),
    events.NodeStopped: (logging.INFO, _node_stopped),
    events.NodeFenced: (logging.ERROR, _node_fenced),
    events.NodeDied: (logging.WARNING, _node_died),
    events.JobRescued: (logging.INFO, _rescued),
    events.LoopBlocked: (logging.WARNING, _loop_blocked),
    events.ProcessHeldUp: (logging.WARNING, _process_held_up),
    events.LeaderElected: (logging.INFO, _leader_elected),
    events.LeaderLost: (logging.WARNING, _leader_lost),
    events.LeaderResigned: (logging.INFO, _leader_resigned),
    events.DaemonStarted: (logging.INFO, _daemon_started),
    events.DaemonEnded: (logging.ERROR, _daemon_ended),
    events.DaemonStopped: (logging.INFO, _daemon_stopped),
    events.DaemonStuck: (logging.WARNING, _daemon_stuck),
    events.DaemonSaid: (logging.INFO, _daemon_said),
    events.LockWasLost: (logging.WARNING, _lock_lost),
    events.StoreTrouble: (logging.WARNING, _store_trouble),
    events.StoreRecovered: (logging.INFO, _store_recovered),
    events.WakeupsLost: (logging.WARNING, _wakeups_lost),
    events.WakeupsRestored: (logging.INFO, _wakeups_restored),
    events.FinishGaveUp: (logging.ERROR, _finish_gave_up),
    events.ClaimsReconciled: (logging.WARNING, _claims_reconciled),
    events.Pruned: (logging.INFO, _pruned),
    events.ClockSkew: (logging.WARNING, _clock_skew),
    events.HookFailed: (logging.ERROR, _hook_failed),
}
"""What is said about each event, and at which level."""
