"""Listeners, sinks and alerts, in words."""

import logging
from typing import Any, Final

from detent import events
from detent.logs.words import Lines


def _event(event: Any) -> str:
    return f"event {event.event_id} (job {event.job_id}) for the sink {event.sink}"


def _enqueued(event: events.JobEnqueued) -> str:
    return f"job {event.job_id} ({event.task}) was enqueued to {event.queue}; a node will take it"


def _overflow(event: events.ListenerOverflow) -> str:
    return (
        f"the listener {event.listener} is too slow: it missed {event.dropped} events; "
        "work goes on without it"
    )


def _trouble(event: events.SinkTrouble) -> str:
    return f"the sink {event.sink} takes no events: {event.error}; they wait and are tried again"


def _recovered(event: events.SinkRecovered) -> str:
    return f"the sink {event.sink} takes events again; what waits is delivered"


def _delivered(event: events.EventDelivered) -> str:
    return f"{_event(event)} was delivered at try {event.tries}; it leaves the outbox"


def _put_off(event: events.EventPutOff) -> str:
    return (
        f"{_event(event)} was not taken at try {event.tries}: {event.error}; "
        f"trying again in {event.delay:.1f} s"
    )


def _undeliverable(event: events.EventUndeliverable) -> str:
    tries = "1 try" if event.tries == 1 else f"{event.tries} tries"
    return (
        f"{_event(event)} is given up after {tries}: {event.error}; "
        "it stays in the outbox: detent outbox list, detent outbox retry"
    )


def _raised(event: events.AlertRaised) -> str:
    return (
        f"alert {event.alert}: jobs of {event.task} fail for good, {event.count} so far, "
        f"the first was {event.job_id}: {event.error}; more of the same are only counted"
    )


LINES: Final[Lines] = {
    events.JobEnqueued: (logging.DEBUG, _enqueued),
    events.ListenerOverflow: (logging.WARNING, _overflow),
    events.SinkTrouble: (logging.WARNING, _trouble),
    events.SinkRecovered: (logging.INFO, _recovered),
    events.EventDelivered: (logging.DEBUG, _delivered),
    events.EventPutOff: (logging.DEBUG, _put_off),
    events.EventUndeliverable: (logging.ERROR, _undeliverable),
    events.AlertRaised: (logging.ERROR, _raised),
}
