"""What a node may not run or cannot read, in words."""

import logging
from typing import Final

from detent import events
from detent.logs.words import Lines, job


def _task_denied(event: events.TaskDenied) -> str:
    return (
        f"this node may not run the task {event.task} ({event.rule}): its jobs, such as "
        f"{event.job_id}, go back uncharged for other nodes and can be claimed again after "
        f"{event.delay:g} s; where no node allows the task they wait until one does"
    )


def _seal_trouble(event: events.SealTrouble) -> str:
    return (
        f"{job(event)} is encrypted and cannot run here: {event.error}; "
        f"it comes back in {event.delay:g} s, nothing charged"
    )


LINES: Final[Lines] = {
    events.TaskDenied: (logging.WARNING, _task_denied),
    events.SealTrouble: (logging.WARNING, _seal_trouble),
}
