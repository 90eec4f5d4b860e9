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
    AnsweredHint,
    BreakerHint,
    Hint,
    LeaderHint,
    LockHint,
    Receive,
    ScheduleHint,
    SignalHint,
    Wake,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def encode(wakes: Sequence[Wake]) -> str:
    """Return wake-ups as a payload, in ASCII."""
    return json.dumps([_fields(wake) for wake in wakes], separators=(",", ":"))


def _fields(wake: Wake) -> list[Any] | dict[str, Any]:
    if isinstance(wake, SignalHint):
        return [wake.node.hex]
    if isinstance(wake, LeaderHint):
        return {"role": wake.role}
    if isinstance(wake, LockHint):
        return {"lock": wake.name}
    if isinstance(wake, BreakerHint):
        return {"breaker": wake.name}
    if isinstance(wake, AnsweredHint):
        return {"answered": wake.lane, "tokens": wake.tokens}
    if isinstance(wake, ScheduleHint):
        return {"schedules": "changed"}
    token = () if wake.token is None else (wake.token,)
    if wake.due_at is None or wake.id is None:
        return [wake.lane, wake.priority, *token]
    micros = (wake.due_at - _EPOCH) // timedelta(microseconds=1)
    return [wake.lane, wake.priority, micros, wake.id.hex, *token]


def decode(payload: str | bytes) -> list[Wake]:
    """Return the wake-ups in a payload; what this version cannot read is left out."""
    wakes: list[Wake] = []
    try:
        for fields in json.loads(payload):
            wake = _hint(fields) if isinstance(fields, list) else _other_wake(fields)
            if wake is not None:
                wakes.append(wake)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return wakes
    return wakes


def pass_on(payload: str | bytes, receive: Receive) -> None:
    """Pass on the wake-ups in a payload, if there are any.

    To receive nothing means that some may be missing, and costs a look at everything: what anyone
    can send to the channel must not lead to that.
    """
    if wakes := decode(payload):
        receive(wakes)


def _hint(fields: list[Any]) -> Wake | None:
    match fields:
        case [str(node)]:
            return SignalHint(UUID(node))
        case [str(lane), int() | None as priority]:
            return Hint(lane, priority)
        case [str(lane), int() | None as priority, int(token)]:
            return Hint(lane, priority, token=token)
        case [str(lane), int(priority), int(micros), str(job), *token]:
            due_at = _EPOCH + timedelta(microseconds=micros)
            return Hint(lane, priority, due_at, UUID(job), *map(int, token[:1]))
    return None


def _other_wake(fields: Any) -> Wake | None:
    match fields:
        case {"role": str(role)}:
            return LeaderHint(role)
        case {"lock": str(name)}:
            return LockHint(name)
        case {"breaker": str(name)}:
            return BreakerHint(name)
        case {"answered": str(lane), "tokens": list(tokens)}:
            return AnsweredHint(lane, tuple(map(int, tokens)))
        case {"schedules": str()}:
            return ScheduleHint()
    return None


def payloads(wakes: Sequence[Wake], most: int, longest: int) -> Iterator[str]:
    """Yield payloads of at most so many wake-ups, those of one wake-up as long as they are."""
    for start in range(0, len(wakes), most):
        some = wakes[start : start + most]
        payload = encode(some)
        # Names of locks can be longer than lanes, and take six bytes for a letter.
        yield from [payload] if len(payload) <= longest else [encode([wake]) for wake in some]
