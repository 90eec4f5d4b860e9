"""Keeping events until they are delivered, with the meaning that every other store must have."""

import json
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta

from detent.model.fingerprint import SUMMARY, summary
from detent.spi.notifier import Hint
from detent.spi.outbox import (
    ALERT,
    OUTBOX,
    AlertInfo,
    AlertStep,
    EventInfo,
    Failures,
    OutboxEvent,
    Taken,
)
from detent.stores.memory.tables import Event, Outcome, Tables


def record_events(tables: Tables, now: datetime, outcome: Outcome) -> None:
    """Write the events that a job asks for that has just ended."""
    new = tables.job[outcome.id].new
    sinks = json.loads(new.options or b"{}").get("sinks") or {}
    for sink in sorted(sinks):
        if outcome.state in sinks[sink]:
            duration = outcome.duration
            event = OutboxEvent(
                id=0,
                sink=sink,
                kind=str(outcome.state),
                job=outcome.id,
                task=new.task,
                queue=new.queue,
                generation=outcome.generation,
                attempt=outcome.attempt,
                at=outcome.finished_at,
                duration=None if duration is None else duration.total_seconds(),
                node=outcome.node,
                reason=outcome.reason,
                error=outcome.error,
                alert=None,
                tries=0,
            )
            _add(tables, now, event)


def take_events(tables: Tables, now: datetime, rooms: Mapping[str, int], lease: timedelta) -> Taken:
    """Take due events for a while."""
    due = [row for row in _heads(tables, rooms) if row.due_at <= now]
    left, taken = dict(rooms), []
    for row in sorted(due, key=lambda row: row.due_at):
        if left[row.event.sink] > 0:
            left[row.event.sink] -= 1
            event = row.event._replace(tries=row.event.tries + 1)
            tables.events[event.id] = row._replace(event=event, due_at=now + lease)
            taken.append(event)
    waits = [(row.due_at - now).total_seconds() for row in _heads(tables, rooms)]
    return Taken(sorted(taken), max(min(waits), 0.0) if waits else None)


def events_delivered(tables: Tables, now: datetime, events: Sequence[OutboxEvent]) -> int:
    """Remove events that somebody has."""
    gone = [tables.events.pop(each.id) for each in events if _row_of(tables, each) is not None]
    for row in gone:
        note = f"in try {row.event.tries}" if row.event.tries > 1 else None
        alert = _note(tables, row.event.alert, AlertStep(now, "told", row.event.sink, note))
        if alert is not None and alert.delivered_at is None:
            tables.alerts[alert.id] = alert._replace(delivered_at=now)
    return len(gone)


def _row_of(tables: Tables, event: OutboxEvent) -> Event | None:
    """Return the row of an event; another one may have its id after a loss of history."""
    row = tables.events.get(event.id)
    same = row is not None and (row.event.job, row.event.kind) == (event.job, event.kind)
    return row if same else None


def put_off_event(
    tables: Tables, now: datetime, event: OutboxEvent, delay: timedelta | None, problem: str
) -> bool:
    """Let an event be taken again later, or never."""
    row = _row_of(tables, event)
    if row is None or row.event.tries != event.tries or row.parked_at is not None:
        return False
    tables.events[event.id] = row._replace(
        due_at=now + (delay or timedelta(0)),
        parked_at=now if delay is None else None,
        problem=problem,
    )
    if delay is None:
        _note(tables, event.alert, AlertStep(now, "undeliverable", event.sink, problem))
    return True


def list_events(
    tables: Tables,
    now: datetime,
    *,
    sink: str | None = None,
    parked: bool | None = None,
    limit: int = 100,
) -> list[EventInfo]:
    """Return events that wait, the oldest first."""
    found = [
        EventInfo(*row)
        for _, row in sorted(tables.events.items())
        if sink in (None, row.event.sink) and parked in (None, row.parked_at is not None)
    ]
    return found[:limit]


def retry_events(
    tables: Tables, now: datetime, ids: Sequence[int] | None, sink: str | None, limit: int
) -> int:
    """Let undeliverable events be tried again."""
    parked = [
        info.event
        for info in list_events(tables, now, sink=sink, parked=True, limit=len(tables.events))
        if ids is None or info.event.id in ids
    ][:limit]
    for event in parked:
        row = tables.events[event.id]
        tables.events[event.id] = row._replace(
            event=event._replace(tries=0), due_at=now, parked_at=None
        )
        _note(tables, event.alert, AlertStep(now, "retried", event.sink))
        tables.tell(Hint(OUTBOX))
    return len(parked)


def discard_events(
    tables: Tables, now: datetime, ids: Sequence[int] | None, sink: str | None, limit: int
) -> int:
    """Remove events that are not to be delivered any more."""
    unwanted = [
        info.event
        for info in list_events(tables, now, sink=sink, limit=len(tables.events))
        if ids is None or info.event.id in ids
    ][:limit]
    for event in unwanted:
        del tables.events[event.id]
        _note(tables, event.alert, AlertStep(now, "discarded", event.sink))
    return len(unwanted)


def prune_events(
    tables: Tables, now: datetime, parked_for: timedelta, alerts_for: timedelta, limit: int
) -> int:
    """Remove what is old."""
    events = [
        event_id
        for event_id, row in sorted(tables.events.items())
        if row.parked_at is not None and row.parked_at <= now - parked_for
    ][:limit]
    alerts = [
        alert.id for _, alert in sorted(tables.alerts.items()) if alert.last_at <= now - alerts_for
    ][:limit]
    for event_id in events:
        del tables.events[event_id]
    for alert_id in alerts:
        del tables.alerts[alert_id]
    return len(events) + len(alerts)


def raise_alerts(
    tables: Tables,
    now: datetime,
    failures: Sequence[Failures],
    window: timedelta,
    sinks: Sequence[str],
    most_kinds: int,
) -> int:
    """Count failures; the first of its kind in a window is told to the sinks."""
    since = now - window
    return sum(_raise(tables, now, each, since, sinks, most_kinds) for each in failures)


def alerts(
    tables: Tables,
    now: datetime,
    limit: int,
    *,
    task: str | None = None,
    acked: bool | None = None,
) -> list[AlertInfo]:
    """Return alerts, the newest first."""
    found = [
        alert
        for _, alert in sorted(tables.alerts.items(), reverse=True)
        if task in (None, alert.task) and acked in (None, alert.acked_at is not None)
    ]
    return found[:limit]


def get_alert(tables: Tables, now: datetime, alert: int) -> AlertInfo | None:
    """Return an alert."""
    return tables.alerts.get(alert)


def ack_alert(tables: Tables, now: datetime, alert: int, by: str) -> AlertInfo | None:
    """Note that somebody has seen an alert."""
    found = tables.alerts.get(alert)
    if found is not None and found.acked_at is None:
        tables.alerts[alert] = found._replace(acked_at=now, acked_by=by)
        found = _note(tables, alert, AlertStep(now, "acked", by))
    return found


def _note(tables: Tables, alert: int | None, step: AlertStep) -> AlertInfo | None:
    """Add to what became of an alert, if there is one and it still is."""
    found = None if alert is None else tables.alerts.get(alert)
    if found is not None:
        found = tables.alerts[found.id] = found._replace(trail=(*found.trail, step))
    return found


def _add(tables: Tables, now: datetime, event: OutboxEvent) -> None:
    tables.last_event += 1
    tables.events[tables.last_event] = Event(event._replace(id=tables.last_event), now, now)
    tables.tell(Hint(OUTBOX))


def _heads(tables: Tables, sinks: Container[str]) -> list[Event]:
    """Return the first event of each job for each of these sinks."""
    heads: dict[object, Event] = {}
    for _, row in sorted(tables.events.items()):
        if row.event.sink in sinks and row.parked_at is None:
            heads.setdefault((row.event.sink, row.event.job), row)
    return list(heads.values())


def _raise(
    tables: Tables,
    now: datetime,
    said: Failures,
    since: datetime,
    sinks: Sequence[str],
    most_kinds: int,
) -> int:
    mark = said.fingerprint
    kinds = {
        known.fingerprint: known
        for known in tables.alerts.values()
        if known.task == said.task and known.window_start > since
    }
    if mark.digest not in kinds and len(kinds.keys() - {SUMMARY}) >= most_kinds:
        mark = summary(most_kinds)
    if mark.digest in kinds:
        known = kinds[mark.digest]
        tables.alerts[known.id] = known._replace(
            times=known.times + said.times, last_job=said.last_job, last_at=now
        )
        return 0
    tables.last_alert += 1
    number = tables.last_alert
    tables.alerts[number] = AlertInfo(
        id=number,
        task=said.task,
        fingerprint=mark.digest,
        type=mark.type,
        message=mark.message,
        frame=mark.frame,
        window_start=now,
        first_job=said.first_job,
        last_job=said.last_job,
        first_at=now,
        last_at=now,
        times=said.times,
        delivered_at=None,
        acked_at=None,
        acked_by=None,
    )
    for sink in sinks:
        _add(tables, now, _told(tables.alerts[number], sink))
    return 1


def _told(alert: AlertInfo, sink: str) -> OutboxEvent:
    return OutboxEvent(
        id=0,
        sink=sink,
        kind=ALERT,
        job=alert.first_job,
        task=alert.task,
        queue="",
        generation=0,
        attempt=0,
        at=alert.first_at,
        duration=None,
        node=None,
        reason=None,
        error=None,
        alert=alert.id,
        tries=0,
    )
