"""What keeps calls from running, in words."""

import logging
from typing import Final

from detent import events
from detent.logs.words import Lines


def _breaker_opened(event: events.BreakerOpened) -> str:
    if event.total:
        why = f"{event.failed} of the last {event.total} calls failed"
    else:
        why = "a trial call failed" if event.node is not None else "a person opened it"
    reason = "" if event.reason is None else f" ({event.reason})"
    until = "somebody resets it" if event.wait is None else f"trials begin in {event.wait:.1f} s"
    return f"breaker {event.breaker} is open: {why}{reason}; its jobs wait uncharged until {until}"


def _breaker_half_open(event: events.BreakerHalfOpen) -> str:
    return (
        f"breaker {event.breaker} is half-open: {event.trials} trial calls in the whole cluster; "
        "if all pass it closes, and it opens again if one fails"
    )


def _breaker_closed(event: events.BreakerClosed) -> str:
    why = "a person reset it" if event.node is None else "all trials passed"
    return f"breaker {event.breaker} is closed: {why}; its jobs run as usual"


LINES: Final[Lines] = {
    events.BreakerOpened: (logging.WARNING, _breaker_opened),
    events.BreakerHalfOpen: (logging.INFO, _breaker_half_open),
    events.BreakerClosed: (logging.INFO, _breaker_closed),
}
