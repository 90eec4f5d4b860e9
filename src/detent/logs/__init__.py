"""Turns events into log lines: the only place that decides what is said, and how loudly.

Every line says what happened and ends with what happens next. Arguments and results of jobs are
never logged. The event itself goes along as `record.event`, for handlers that write fields.
"""

import logging
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from detent.events import Bus
from detent.logs import cluster, guards, jobs, nodes, outbox, protection, schedules
from detent.logs.words import Lines, Words
from detent.model.failure import Clean

LOGGER: Final = logging.getLogger("detent")

LINES: Final[Lines] = {
    **jobs.LINES,
    **nodes.LINES,
    **cluster.LINES,
    **guards.LINES,
    **outbox.LINES,
    **protection.LINES,
    **schedules.LINES,
}
_LONGEST: Final = 1000
# The fields of events that hold what others wrote: `clean` looks at the lines that quote them.
_QUOTES: Final = ("error", "problem", "reason", "message")
# For events that bring their own: what people write in their daemons.
_SEVERITIES: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_attached: Final[WeakKeyDictionary[Bus, set[logging.Logger]]] = WeakKeyDictionary()


def attach(bus: Bus, logger: logging.Logger = LOGGER, clean: Clean | None = None) -> None:
    """Write a line to `logger` for the events of `bus` that its level lets through.

    `clean` takes out of lines that quote errors what nobody is to see.

    What happens with every single job is listened to only when the logger is at DEBUG now:
    those events then cost nothing. Doing it again changes nothing.
    """
    if logger in _attached.setdefault(bus, set()):
        return
    _attached[bus].add(logger)
    for event_type, (level, words) in LINES.items():
        if level > logging.DEBUG or logger.isEnabledFor(logging.DEBUG):
            quotes = any(name in event_type.__annotations__ for name in _QUOTES)
            bus.subscribe(event_type, _listener(logger, level, words, clean if quotes else None))


def _listener(
    logger: logging.Logger, level: int, words: Words, clean: Clean | None
) -> Callable[[Any], None]:
    def listen(event: Any) -> None:
        loudness = _SEVERITIES.get(getattr(event, "severity", ""), level)
        if logger.isEnabledFor(loudness):
            line = words(event) if clean is None else clean(words(event))
            logger.log(loudness, "%s", _one_line(line), extra={"event": event})

    return listen


def _one_line(text: str) -> str:
    """Keep what others wrote (an exception's message) from posing as a line of its own."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    if len(line) <= _LONGEST:
        return line
    # What happens next stands at the end, so the middle is what can go.
    return f"{line[: _LONGEST * 3 // 4]} ... {line[-_LONGEST // 4 :]}"
