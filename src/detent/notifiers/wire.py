"""Wake-ups as text: without one form, processes could not hear each other whatever carries them.

A payload is a JSON list. Stores write the same form in SQL where a transaction announces its own
jobs (`notify_within.sql`).
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from detent.spi.notifier import (
    BreakerHint,
    Hint,
    LeaderHint,
    LockHint,
    ScheduleHint,
    SignalHint,
    Wake,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def encode(wakes: Sequence[Wake]) -> str:
    """Return wake-ups as a payload, in ASCII."""
    return json.dumps([_fields(wake) for wake in wakes], separators=(",", ":"))


def _fields(wake: Wake) -> list[Any] | dict[str, str]:
    if isinstance(wake, SignalHint):
        return [wake.node.hex]
    if isinstance(wake, LeaderHint):
        return {"role": wake.role}
    if isinstance(wake, LockHint):
        return {"lock": wake.name}
    if isinstance(wake, BreakerHint):
        return {"breaker": wake.name}
    if isinstance(wake, ScheduleHint):
        return {"schedules": "changed"}
    if wake.due_at is None or wake.id is None:
        return [wake.lane, wake.priority]
    micros = (wake.due_at - _EPOCH) // timedelta(microseconds=1)
    return [wake.lane, wake.priority, micros, wake.id.hex]


def decode(payload: str | bytes) -> list[Wake]:
    """Return the wake-ups in a payload; what this version cannot read is left out."""
    wakes: list[Wake] = []
    try:
        for fields in json.loads(payload):
            match fields:
                case [str(node)]:
                    wakes.append(SignalHint(UUID(node)))
                case {"role": str(role)}:
                    wakes.append(LeaderHint(role))
                case {"lock": str(name)}:
                    wakes.append(LockHint(name))
                case {"breaker": str(name)}:
                    wakes.append(BreakerHint(name))
                case {"schedules": str()}:
                    wakes.append(ScheduleHint())
                case [str(lane), int() | None as priority]:
                    wakes.append(Hint(lane, priority))
                case [str(lane), int(priority), int(micros), str(job)]:
                    due_at = _EPOCH + timedelta(microseconds=micros)
                    wakes.append(Hint(lane, priority, due_at, UUID(job)))
    except (ValueError, TypeError, OverflowError):
        return wakes
    return wakes


def payloads(wakes: Sequence[Wake], most: int, longest: int) -> Iterator[str]:
    """Yield payloads of at most so many wake-ups, those of one wake-up as long as they are."""
    for start in range(0, len(wakes), most):
        some = wakes[start : start + most]
        payload = encode(some)
        # Names of locks can be longer than lanes, and take six bytes for a letter.
        yield from [payload] if len(payload) <= longest else [encode([wake]) for wake in some]
