"""Keeps events until they are delivered, and counts failures of one kind."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from detent.model.fingerprint import summary
from detent.model.job import Hook
from detent.spi.notifier import Hint, Notifier
from detent.spi.outbox import (
    OUTBOX,
    AlertInfo,
    AlertStep,
    EventInfo,
    Failures,
    OutboxEvent,
    Taken,
)
from detent.stores.postgres.database import Connection, Database

_FIELDS = len(OutboxEvent._fields)


class Telling:
    """The part of the store that `OutboxStore` and `AlertStore` describe."""

    database: Database
    notifier: Notifier

    async def take_events(self, rooms: Mapping[str, int], lease: timedelta) -> Taken:
        """See `OutboxStore.take_events`."""
        names = list(rooms)
        rows = await self.database.fetch(
            "take_events", names, list(rooms.values()), lease.total_seconds()
        )
        events = sorted(OutboxEvent._make(row) for row in rows)
        if any(each >= rooms[name] for name, each in Counter(e.sink for e in events).items()):
            # There may be more; whoever has room for them finds out.
            return Taken(events, 0.0)
        (due,) = await self.database.fetch("next_event", names)
        return Taken(events, due[0])

    async def events_delivered(self, events: Sequence[OutboxEvent]) -> int:
        """See `OutboxStore.events_delivered`."""
        if not events:
            return 0
        known = sorted((event.id, event.job, event.kind) for event in events)
        (row,) = await self.database.fetch("events_delivered", *map(list, zip(*known, strict=True)))
        count: int = row[0]
        return count

    async def put_off_event(
        self, event: OutboxEvent, delay: timedelta | None, problem: str
    ) -> bool:
        """See `OutboxStore.put_off_event`."""
        seconds = None if delay is None else delay.total_seconds()
        which = (event.id, event.tries, event.job, event.kind)
        rows = await self.database.fetch("put_off_event", *which, seconds, problem)
        return bool(rows)

    async def list_events(
        self, *, sink: str | None = None, parked: bool | None = None, limit: int = 100
    ) -> list[EventInfo]:
        """See `OutboxStore.list_events`."""
        rows = await self.database.fetch("list_events", sink, parked, limit)
        return [
            EventInfo(OutboxEvent._make(tuple(row)[:_FIELDS]), *tuple(row)[_FIELDS:])
            for row in rows
        ]

    async def retry_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        """See `OutboxStore.retry_events`."""
        wanted = None if ids is None else sorted(ids)
        rows = await self.database.fetch("retry_events", wanted, sink, limit)
        if rows:
            self.notifier.publish([Hint(OUTBOX)])
        return len(rows)

    async def discard_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        """See `OutboxStore.discard_events`."""
        wanted = None if ids is None else sorted(ids)
        return len(await self.database.fetch("discard_events", wanted, sink, limit))

    async def prune_events(self, parked_for: timedelta, alerts_for: timedelta, limit: int) -> int:
        """See `OutboxStore.prune_events`."""
        ages = (parked_for.total_seconds(), alerts_for.total_seconds())
        (row,) = await self.database.fetch("prune_events", *ages, limit)
        count: int = row[0]
        return count

    async def raise_alerts(
        self,
        failures: Sequence[Failures],
        window: timedelta,
        sinks: Sequence[str],
        most_kinds: int,
    ) -> int:
        """See `AlertStore.raise_alerts`."""
        if not failures:
            return 0
        columns = list(zip(*sorted(map(_row, failures)), strict=True))
        rest = (window.total_seconds(), list(sinks), most_kinds, *summary(most_kinds)[:3])

        async def work(connection: Connection) -> list[Any]:
            await connection.execute(self.database.sql("lock_alerts"))
            rows: list[Any] = await connection.fetch(
                self.database.sql("raise_alerts"), *columns, *rest
            )
            return rows

        rows = await self.database.transact(work)
        if rows:
            self.notifier.publish([Hint(OUTBOX)])
        return len(rows)

    async def alerts(
        self, limit: int, *, task: str | None = None, acked: bool | None = None
    ) -> list[AlertInfo]:
        """See `AlertStore.alerts`."""
        rows = await self.database.fetch("list_alerts", task, acked, limit)
        return [_alert_info(row) for row in rows]

    async def get_alert(self, alert: int) -> AlertInfo | None:
        """See `AlertStore.get_alert`."""
        rows = await self.database.fetch("get_alert", alert)
        return _alert_info(rows[0]) if rows else None

    async def ack_alert(self, alert: int, by: str) -> AlertInfo | None:
        """See `AlertStore.ack_alert`."""
        await self.database.fetch("ack_alert", alert, by)
        return await self.get_alert(alert)


def is_watched(row: Any) -> bool:
    """Tell whether a sink wants to hear of the end of a job."""
    return bool(row["hooks"] & Hook.EVENT)


def hints_for(rows: Sequence[Any]) -> list[Hint]:
    """Return what tells nodes of events that were written with these rows."""
    return [Hint(OUTBOX)] if any(is_watched(row) for row in rows) else []


async def record_events(database: Database, connection: Connection, ended: Sequence[UUID]) -> None:
    """Write the events of jobs whose end this transaction has written."""
    if ended:
        await connection.fetch(database.sql("record_events"), sorted(ended))


def _alert_info(row: Any) -> AlertInfo:
    found = AlertInfo._make(row)
    steps = json.loads(row["trail"])
    trail = tuple(
        AlertStep(datetime.fromtimestamp(at, UTC), what, who, note) for at, what, who, note in steps
    )
    return found._replace(trail=trail)


def _row(failures: Failures) -> tuple[Any, ...]:
    mark = failures.fingerprint
    return (
        failures.task,
        mark.digest,
        mark.type,
        mark.message,
        mark.frame,
        failures.first_job,
        failures.last_job,
        failures.times,
    )
