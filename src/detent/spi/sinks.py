"""Where events go that must reach somebody outside: the part that a sink of your own implements."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, runtime_checkable

from detent.spi.outbox import ALERT, AlertInfo, OutboxEvent


class Sink(Protocol):
    """Somebody who takes events. It may be given an event twice: `event.id` tells."""

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """Return when the receiver has it; whatever is raised, it is tried again later.

        `detent.errors.DeliveryFailed` says when, or that there is little hope.
        """


@runtime_checkable
class ClosableSink(Sink, Protocol):
    """A sink that keeps something open between deliveries."""

    async def close(self) -> None:
        """Let go of it; a node calls this when it stops, and another may deliver afterwards."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """A sink and how patient to be with it."""

    name: str
    sink: Sink
    timeout: timedelta
    """How long one delivery may take."""
    max_attempts: int
    """After how many tries an event counts as undeliverable."""


ERROR_KEYS: Final = ("type", "message")


def document(event: OutboxEvent, alert: AlertInfo | None = None) -> dict[str, Any]:
    """Return an event as plain values, such as a webhook sends."""
    told: dict[str, Any] = {"id": event.id, "type": f"job.{event.kind}", "sink": event.sink}
    if event.kind == ALERT:
        told["type"] = "alert.raised"
        told["alert"] = None if alert is None else _alert(alert)
        return told
    told["job"] = {
        "id": str(event.job),
        "task": event.task,
        "queue": event.queue,
        "state": event.kind,
        "generation": event.generation,
        "attempt": event.attempt,
        "ended_at": event.at.isoformat(),
        "duration": event.duration,
        "node": None if event.node is None else str(event.node),
        "reason": event.reason,
        "error": _error(event.error),
    }
    return told


def _alert(alert: AlertInfo) -> dict[str, Any]:
    return {
        "id": alert.id,
        "task": alert.task,
        "fingerprint": alert.fingerprint,
        "error": {"type": alert.type, "message": alert.message, "frame": alert.frame},
        "window_start": alert.window_start.isoformat(),
        "first_job": str(alert.first_job),
        "last_job": str(alert.last_job),
        "count": alert.times,
    }


def _error(stored: bytes | None) -> dict[str, Any] | None:
    """Return type and message; a traceback is not for others, nor what cannot be read here."""
    if stored is None:
        return None
    try:
        found = json.loads(stored)
    except ValueError:
        return {"type": "unknown", "message": "it cannot be read here"}
    return {key: found.get(key) for key in ERROR_KEYS} if isinstance(found, dict) else None
