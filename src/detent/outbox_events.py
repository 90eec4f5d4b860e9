"""What can be told about listeners, sinks and alerts; `detent.events` has all of it."""

from dataclasses import dataclass
from uuid import UUID

__all__ = [
    "AlertRaised",
    "EventDelivered",
    "EventPutOff",
    "EventUndeliverable",
    "JobEnqueued",
    "ListenerOverflow",
    "SinkRecovered",
    "SinkTrouble",
]


@dataclass(frozen=True, slots=True)
class JobEnqueued:
    """A job was stored by this process; not told when it joined a transaction of the caller's."""

    job_id: UUID
    task: str
    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class ListenerOverflow:
    """A listener of the application is too slow: the oldest events that it had not got are gone."""

    listener: str
    dropped: int
    """How many, since it was last told."""


@dataclass(frozen=True, slots=True)
class SinkTrouble:
    """A sink does not take events; told once, until it does again."""

    sink: str
    error: str


@dataclass(frozen=True, slots=True)
class SinkRecovered:
    """A sink takes events again."""

    sink: str


@dataclass(frozen=True, slots=True)
class EventDelivered:
    """A sink has got an event."""

    event_id: int
    sink: str
    job_id: UUID
    tries: int


@dataclass(frozen=True, slots=True)
class EventPutOff:
    """A sink did not take an event, and will be offered it again."""

    event_id: int
    sink: str
    job_id: UUID
    tries: int
    error: str
    delay: float


@dataclass(frozen=True, slots=True)
class EventUndeliverable:
    """An event is given up: it stays in the outbox until somebody retries it."""

    event_id: int
    sink: str
    job_id: UUID
    tries: int
    error: str


@dataclass(frozen=True, slots=True)
class AlertRaised:
    """Jobs of a task fail for good in a way that was not told in this window of time."""

    alert: int
    job_id: UUID
    task: str
    error: str
    count: int
