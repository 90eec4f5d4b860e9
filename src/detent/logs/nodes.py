"""What happens with nodes and their store, in words."""

import logging
from typing import Final

from detent import events
from detent.logs.words import Lines, many

# How many tasks a line names.
SHOWN: Final = 5


def _node_started(event: events.NodeStarted) -> str:
    queues = ", ".join(f"{queue} ({slots})" for queue, slots in event.queues.items())
    what = f"taking jobs from {queues}" if queues else "it claims no jobs"
    return f"node {event.name} ({event.node}) started; {what}"


def _node_draining(event: events.NodeDraining) -> str:
    what = f"waiting for {many(event.running, 'running job')}" if event.running else "leaving"
    return f"node {event.node} is draining and claims no more; {what}"


def _tasks_unreached(event: events.TasksUnreached) -> str:
    lacks = [f"{task} (needs {what})" for task, what in event.tasks.items()]
    more = f" and {len(lacks) - SHOWN} more" if len(lacks) > SHOWN else ""
    return (
        f"node {event.node} will not run {many(len(lacks), 'task')} of its app: "
        f"{', '.join(lacks[:SHOWN])}{more}; other nodes must, or --queues has to name their queues"
    )


def _node_stopped(event: events.NodeStopped) -> str:
    what = (
        f"{many(event.released, 'unfinished job')} went back, uncharged, for other nodes"
        if event.released
        else "all its jobs have ended or gone back"
    )
    return f"node {event.node} stopped; {what}"


def _node_replaced(event: events.NodeReplaced) -> str:
    return (
        f"on node {event.node} {event.stuck} of {event.capacity} calls of {event.executor} go on "
        "long after their jobs have ended; it drains, for a fresh process to take its place"
    )


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


def _store_trouble(event: events.StoreTrouble) -> str:
    when = f"trying again in {event.retry_in:.1f} s" if event.retry_in else "trying again"
    return f"the store failed ({event.where}): {event.error}; {when}"


def _store_recovered(event: events.StoreRecovered) -> str:
    return f"the store answers again ({event.where}); going on"


def _wakeups_lost(event: events.WakeupsLost) -> str:
    return f"no wake-ups reach this node: {event.reason}; jobs wait for its next poll"


def _wakeups_restored(_event: events.WakeupsRestored) -> str:
    return "wake-ups reach this node again; jobs start at once"


def _claims_reconciled(event: events.ClaimsReconciled) -> str:
    return (
        f"{many(event.released, 'claim')} in the name of node {event.node} were unknown to it; "
        "they went back, uncharged, to be claimed again"
    )


def _history_lost(event: events.HistoryLost) -> str:
    return (
        f"history was lost: {event.evidence}; the store has forgotten what it acknowledged, "
        "so jobs may be missing and others run again"
    )


def _pruned(event: events.Pruned) -> str:
    parts = {
        "deleted": (event.deleted, "ended job"),
        "archived": (event.archived, "ended job"),
        "removed": (event.expired_keys, "expired key"),
        "dropped": (event.dropped, "archived job"),
    }
    done = [f"{verb} {many(count, noun)}" for verb, (count, noun) in parts.items() if count]
    return f"retention {', '.join(done)} in {event.seconds:.1f} s; the rest stays for its time"


def _clock_skew(event: events.ClockSkew) -> str:
    return (
        f"the clock of node {event.node} and the store's differ by {abs(event.seconds):.1f} s; "
        "jobs go on by the store's clock, but this machine's should be set right"
    )


def _hook_failed(event: events.HookFailed) -> str:
    return f"the hook {event.name} failed: {event.error}; going on without it"


LINES: Final[Lines] = {
    events.NodeStarted: (logging.INFO, _node_started),
    events.TasksUnreached: (logging.WARNING, _tasks_unreached),
    events.NodeDraining: (logging.INFO, _node_draining),
    events.NodeReplaced: (logging.WARNING, _node_replaced),
    events.NodeStopped: (logging.INFO, _node_stopped),
    events.NodeFenced: (logging.ERROR, _node_fenced),
    events.NodeDied: (logging.WARNING, _node_died),
    events.LoopBlocked: (logging.WARNING, _loop_blocked),
    events.ProcessHeldUp: (logging.WARNING, _process_held_up),
    events.StoreTrouble: (logging.WARNING, _store_trouble),
    events.StoreRecovered: (logging.INFO, _store_recovered),
    events.WakeupsLost: (logging.WARNING, _wakeups_lost),
    events.WakeupsRestored: (logging.INFO, _wakeups_restored),
    events.HistoryLost: (logging.ERROR, _history_lost),
    events.ClaimsReconciled: (logging.WARNING, _claims_reconciled),
    events.Pruned: (logging.INFO, _pruned),
    events.ClockSkew: (logging.WARNING, _clock_skew),
    events.HookFailed: (logging.ERROR, _hook_failed),
}
