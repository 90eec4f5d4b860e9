"""What a store promises about events that must reach somebody outside: none is lost."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from detent.model.fingerprint import Fingerprint

OUTBOX: Final = "!outbox"
"""A lane on which there are no jobs: hints on it say that an event waits to be delivered."""
ALERT: Final = "alert"
"""The kind of an event that tells of an alert; of all others it is the state of a job."""


class OutboxEvent(NamedTuple):
    """An event as a sink gets it: a job has ended, or an alert was raised."""

    id: int
    sink: str
    kind: str
    """`succeeded`, `failed`, `canceled` or `alert`."""
    job: UUID
    task: str
    queue: str
    generation: int
    attempt: int
    at: datetime
    """When the job ended, or first failed in this way."""
    duration: float | None
    node: UUID | None
    reason: str | None
    error: bytes | None
    """The error of a job that failed, as it is stored."""
    alert: int | None
    tries: int
    """How often its delivery has been begun, this time included."""


class EventInfo(NamedTuple):
    """An event that waits, as people see it."""

    event: OutboxEvent
    created_at: datetime
    due_at: datetime
    """When it is tried next; while somebody delivers it, when he is taken for dead."""
    problem: str | None
    """What came of the last try."""
    parked_at: datetime | None
    """Since when it counts as undeliverable, and nobody tries any more."""


class Taken(NamedTuple):
    """What is to be delivered now, and when there may be more."""

    events: list[OutboxEvent]
    next_due: float | None
    """Seconds until another is due; None when none waits."""


class Failures(NamedTuple):
    """Some jobs of one task that failed for good in the same way."""

    task: str
    fingerprint: Fingerprint
    first_job: UUID
    last_job: UUID
    times: int


class AlertStep(NamedTuple):
    """Something that became of an alert after it was raised."""

    at: datetime
    what: str
    """`told`, `undeliverable`, `retried`, `discarded` or `acked`."""
    who: str
    """The sink, or whoever acknowledged it."""
    note: str | None = None
    """In which try it was told, or why it could not be."""


class AlertInfo(NamedTuple):
    """All failures of one kind in one window of time."""

    id: int
    task: str
    fingerprint: str
    type: str
    message: str
    frame: str
    window_start: datetime
    first_job: UUID
    last_job: UUID
    first_at: datetime
    last_at: datetime
    times: int
    """How many jobs failed in this way."""
    delivered_at: datetime | None
    """When the first sink had it."""
    acked_at: datetime | None
    acked_by: str | None
    trail: tuple[AlertStep, ...] = ()
    """What became of it, in order; it stays when the events are gone."""


class OutboxStore(Protocol):
    """Keeps events until they are delivered.

    Every terminal end of a job with `Hook.EVENT` writes one event for each sink that its stored
    options name for that state, in the transaction that writes the outcome.
    """

    async def take_events(self, rooms: Mapping[str, int], lease: timedelta) -> Taken:
        """Take due events, for each sink as many as it has room for; nobody else gets them for
        `lease`.

        Of the events of one job for one sink only the first is given; the next when that one was
        delivered or has become undeliverable.
        """

    async def events_delivered(self, events: Sequence[OutboxEvent]) -> int:
        """Remove events that somebody has; return how many were still there.

        An alert among them is marked as delivered. An event of the same id that tells of another
        job, or of another end, stays: a store that has lost the end of its history may give an id
        again.
        """

    async def put_off_event(
        self, event: OutboxEvent, delay: timedelta | None, problem: str
    ) -> bool:
        """Let an event be taken again after a delay; None makes it undeliverable.

        Return False, and change nothing, when it was delivered or taken by others meanwhile, or
        when another event has its id.
        """

    async def list_events(
        self, *, sink: str | None = None, parked: bool | None = None, limit: int = 100
    ) -> list[EventInfo]:
        """Return events that wait, the oldest first; of one sink, or only the undeliverable."""

    async def retry_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        """Let undeliverable events be tried again as if they were new; return how many."""

    async def discard_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        """Remove events that are not to be delivered any more, the oldest first; return how many.

        Those of these ids, else all of the sink; whether they wait or are undeliverable.
        """

    async def prune_events(self, parked_for: timedelta, alerts_for: timedelta, limit: int) -> int:
        """Remove up to `limit` events and as many alerts that are that old; return how many.

        Only undeliverable events are removed: all others are going to be delivered, when somebody
        declares their sink.
        """


class AlertStore(Protocol):
    """Counts failures of one kind, so that they are told of once in each window of time."""

    async def raise_alerts(
        self,
        failures: Sequence[Failures],
        window: timedelta,
        sinks: Sequence[str],
        most_kinds: int,
    ) -> int:
        """Count failures; the first of its kind in a window also writes one event for each sink.

        A window begins with the first failure of its kind, by the store's clock. A task of which
        `most_kinds` windows are open gets one more alert, the `summary`, which counts the failures
        of all other kinds. Return how many alerts are new.
        """

    async def alerts(
        self, limit: int, *, task: str | None = None, acked: bool | None = None
    ) -> list[AlertInfo]:
        """Return alerts, the newest first."""

    async def get_alert(self, alert: int) -> AlertInfo | None:
        """Return an alert."""

    async def ack_alert(self, alert: int, by: str) -> AlertInfo | None:
        """Note that somebody has seen an alert; the first one stands. None: there is no such."""
