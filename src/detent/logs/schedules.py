"""Schedules, in words."""

import logging
from datetime import datetime
from typing import Final

from detent import events
from detent.logs.words import Lines, many


def _when(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


def _declared(event: events.ScheduleDeclared) -> str:
    what = "is new" if event.created else "has changed in code"
    kept = f"; {', '.join(event.kept)} as an operator wants it" if event.kept else ""
    follows = "it has no slot" if event.next_fire is None else f"next: {_when(event.next_fire)}"
    return f"schedule {event.schedule} {what}{kept}; {follows}"


def _removed(event: events.ScheduleRemoved) -> str:
    return (
        f"schedule {event.schedule} was removed: for {event.unseen / 60:.0f} min no running node "
        "has declared it; jobs that it fired go on"
    )


def _fired(event: events.ScheduleFired) -> str:
    return (
        f"schedule {event.schedule} fired for {_when(event.slot)}, {event.late:.1f} s late; "
        f"job {event.job_id} will run"
    )


def _skipped(event: events.SlotsSkipped) -> str:
    slots = many(event.count, "slot")
    span = _when(event.first)
    if event.count > 1:
        span += f" to {_when(event.last)}"
    why = {
        "misfire": "nobody was there in time",
        "overlap": "a job of an earlier slot still lived",
    }.get(event.reason, event.reason)
    return f"schedule {event.schedule} left out {slots} ({span}): {why}; the next one comes"


def _trouble(event: events.ScheduleTrouble) -> str:
    return f"schedule {event.schedule} needs somebody: {event.problem}; the others go on"


LINES: Final[Lines] = {
    events.ScheduleDeclared: (logging.INFO, _declared),
    events.ScheduleRemoved: (logging.WARNING, _removed),
    events.ScheduleFired: (logging.DEBUG, _fired),
    events.SlotsSkipped: (logging.WARNING, _skipped),
    events.ScheduleTrouble: (logging.WARNING, _trouble),
}
