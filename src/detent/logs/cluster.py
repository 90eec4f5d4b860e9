"""Leaders, daemons and locks, in words."""

import logging
from typing import Any, Final

from detent import events
from detent.logs.words import Lines


def _daemon(event: Any) -> str:
    return f"daemon {event.daemon} (term {event.term})"


def _leader_elected(event: events.LeaderElected) -> str:
    return f"node {event.node} leads {event.role} now, in term {event.term}; others stand by"


def _leader_lost(event: events.LeaderLost) -> str:
    return (
        f"node {event.node} no longer leads {event.role} (term {event.term}): {event.reason}; "
        "nothing is written under that term any more"
    )


def _leader_resigned(event: events.LeaderResigned) -> str:
    return f"node {event.node} gave up {event.role} (term {event.term}); others are told to follow"


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


LINES: Final[Lines] = {
    events.LeaderElected: (logging.INFO, _leader_elected),
    events.LeaderLost: (logging.WARNING, _leader_lost),
    events.LeaderResigned: (logging.INFO, _leader_resigned),
    events.DaemonStarted: (logging.INFO, _daemon_started),
    events.DaemonEnded: (logging.ERROR, _daemon_ended),
    events.DaemonStopped: (logging.INFO, _daemon_stopped),
    events.DaemonStuck: (logging.WARNING, _daemon_stuck),
    events.DaemonSaid: (logging.INFO, _daemon_said),
    events.LockWasLost: (logging.WARNING, _lock_lost),
}
