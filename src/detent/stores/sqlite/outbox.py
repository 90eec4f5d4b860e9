"""Keeps events until they are delivered, and counts failures of one kind."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
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
from detent.stores.sqlite.columns import (
    LAST_MOMENT,
    MICROSECONDS,
    moment,
    moment_or_none,
    packed,
    span,
    uuid,
    uuid_or_none,
    whole,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

_FIELDS = len(OutboxEvent._fields)


class Telling:
    """The part of the store that `OutboxStore` and `AlertStore` describe."""

    database: Database
    notifier: Notifier

    async def take_events(self, rooms: Mapping[str, int], lease: timedelta) -> Taken:
        """See `OutboxStore.take_events`."""

        def nothing(session: Session) -> Taken | None:
            due = _next_due(session, rooms)
            return None if due is not None and due <= session.now else _taken(session, [], due)

        def work(session: Session) -> Taken:
            rows: list[Any] = []
            for sink, room in rooms.items():
                rows += session.table(sql("take_events", "due"), sink, room, session.now)
            ids = written([row[0] for row in rows])
            session.change(sql("take_events", "taken"), ids, _later(session, lease))
            return _taken(session, rows, _next_due(session, rooms))

        return await self.database.write(work, first=nothing)

    async def events_delivered(self, events: Sequence[OutboxEvent]) -> int:
        """See `OutboxStore.events_delivered`."""
        if not events:
            return 0
        wanted = written([[event.id, event.job.hex.upper(), event.kind] for event in events])

        def work(session: Session) -> int:
            for alert, sink, tries in session.table(sql("events_delivered", "alerts"), wanted):
                note = f"in try {tries}" if tries > 1 else None
                session.change(sql("events_delivered", "told"), alert, sink, note, session.now)
            return session.change(sql("events_delivered", "gone"), wanted)

        return await self.database.write(work)

    async def put_off_event(
        self, event: OutboxEvent, delay: timedelta | None, problem: str
    ) -> bool:
        """See `OutboxStore.put_off_event`."""

        def work(session: Session) -> int:
            due_at = session.now if delay is None else _later(session, delay)
            parked_at = session.now if delay is None else None
            which = (event.id, event.tries, event.job.bytes, event.kind)
            values = (*which, due_at, parked_at, problem)
            done = session.change(sql("put_off_event", "put"), *values)
            if done and delay is None and event.alert is not None:
                noted = (event.alert, event.sink, problem, session.now)
                session.change(sql("put_off_event", "noted"), *noted)
            return done

        return bool(await self.database.write(work))

    async def list_events(
        self, *, sink: str | None = None, parked: bool | None = None, limit: int = 100
    ) -> list[EventInfo]:
        """See `OutboxStore.list_events`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("list_events"), sink, _number(parked), limit)
        )
        return [_event_info(row) for row in rows]

    async def retry_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        """See `OutboxStore.retry_events`."""
        wanted = None if ids is None else written(list(ids))

        def work(session: Session) -> int:
            parked = session.table(sql("retry_events", "parked"), wanted, sink, limit)
            _note(session, sql("retry_events", "noted"), parked)
            numbers = written([row[0] for row in parked])
            return session.change(sql("retry_events", "retried"), numbers, session.now)

        count = await self.database.write(work)
        if count:
            self.notifier.publish([Hint(OUTBOX)])
        return count

    async def discard_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        """See `OutboxStore.discard_events`."""
        wanted = None if ids is None else written(list(ids))

        def work(session: Session) -> int:
            unwanted = session.table(sql("discard_events", "unwanted"), wanted, sink, limit)
            _note(session, sql("discard_events", "noted"), unwanted)
            numbers = written([row[0] for row in unwanted])
            return session.change(sql("discard_events", "gone"), numbers)

        return await self.database.write(work)

    async def prune_events(self, parked_for: timedelta, alerts_for: timedelta, limit: int) -> int:
        """See `OutboxStore.prune_events`."""

        def work(session: Session) -> int:
            parked, alerts = session.now - span(parked_for), session.now - span(alerts_for)
            count = session.change(sql("prune_events", "events"), parked, limit)
            return count + session.change(sql("prune_events", "alerts"), alerts, limit)

        return await self.database.write(work)

    async def raise_alerts(
        self,
        failures: Sequence[Failures],
        window: timedelta,
        sinks: Sequence[str],
        most_kinds: int,
    ) -> int:
        """See `AlertStore.raise_alerts`."""
        names, length = written(list(sinks)), span(window)

        def work(session: Session) -> int:
            since = session.now - length
            return sum(_raise(session, each, since, names, most_kinds) for each in failures)

        count = await self.database.write(work) if failures else 0
        if count:
            self.notifier.publish([Hint(OUTBOX)])
        return count

    async def alerts(
        self, limit: int, *, task: str | None = None, acked: bool | None = None
    ) -> list[AlertInfo]:
        """See `AlertStore.alerts`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("list_alerts"), task, _number(acked), limit)
        )
        return [_alert_info(row) for row in rows]

    async def get_alert(self, alert: int) -> AlertInfo | None:
        """See `AlertStore.get_alert`."""
        rows = await self.database.read(lambda session: session.rows(sql("get_alert"), alert))
        return _alert_info(rows[0]) if rows else None

    async def ack_alert(self, alert: int, by: str) -> AlertInfo | None:
        """See `AlertStore.ack_alert`."""
        name = whole(by)
        await self.database.write(
            lambda session: session.change(sql("ack_alert"), alert, name, session.now)
        )
        return await self.get_alert(alert)


def record_events(session: Session, ended: Iterable[tuple[UUID, int]]) -> list[Hint]:
    """Write the events of jobs whose end this transaction has written, by id and hooks.

    Return what tells nodes of them.
    """
    watched = [job_id for job_id, hooks in ended if hooks & Hook.EVENT]
    if not watched:
        return []
    session.change(sql("record_events"), packed(watched), session.now)
    return [Hint(OUTBOX)]


def _note(session: Session, statement: str, events: Iterable[Any]) -> None:
    """Add to what became of the alerts among some events."""
    for _, alert, sink in events:
        if alert is not None:
            session.change(statement, alert, sink, session.now)


def _raise(session: Session, said: Failures, since: int, sinks: str, most_kinds: int) -> int:
    """Count failures; return 1 if they are the first of their kind in the window."""
    mark, task, last = said.fingerprint, whole(said.task), said.last_job.bytes
    known, counted = sql("raise_alerts", "known"), (since, last, said.times, session.now)
    if session.change(known, task, mark.digest, *counted):
        return 0
    if session.value(sql("raise_alerts", "kinds"), task, since) >= most_kinds:
        mark = summary(most_kinds)
        if session.change(known, task, mark.digest, *counted):
            return 0
    key = (task, mark.digest, session.now)
    words = (whole(mark.type), whole(mark.message), whole(mark.frame))
    jobs = (said.first_job.bytes, last)
    session.change(sql("raise_alerts", "raised"), *key, *words, *jobs, said.times, session.now)
    session.change(sql("raise_alerts", "told"), *key, sinks, session.now)
    return 1


def _next_due(session: Session, sinks: Iterable[str]) -> int | None:
    """Return when the next event of some sinks may be taken, None when none waits."""
    found = [session.value(sql("next_event"), sink) for sink in sinks]
    return min((due for due in found if due is not None), default=None)


def _later(session: Session, delay: timedelta) -> int:
    return min(session.now + span(delay), LAST_MOMENT)


def _number(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)


def _taken(session: Session, rows: Sequence[Any], due: int | None) -> Taken:
    wait = None if due is None else max(due - session.now, 0) / MICROSECONDS
    return Taken(sorted(_event(row) for row in rows), wait)


def _event(row: Sequence[Any]) -> OutboxEvent:
    """Return an event from a row in JSON, where blobs are hexadecimal digits."""
    *values, no_error = row
    values[3] = uuid(values[3])
    values[8] = moment(values[8])
    values[10] = uuid(values[10]) if values[10] else None
    values[12] = None if no_error else bytes.fromhex(values[12])
    return OutboxEvent._make(values)


def _event_info(row: Sequence[Any]) -> EventInfo:
    values = list(row[:_FIELDS])
    values[3] = UUID(bytes=values[3])
    values[8] = moment(values[8])
    values[10] = uuid_or_none(values[10])
    created_at, due_at, problem, parked_at = row[_FIELDS:]
    return EventInfo(
        OutboxEvent._make(values),
        moment(created_at),
        moment(due_at),
        problem,
        moment_or_none(parked_at),
    )


def _alert_info(row: Sequence[Any]) -> AlertInfo:
    found = AlertInfo._make(row)
    return found._replace(
        window_start=moment(row[6]),
        first_job=UUID(bytes=row[7]),
        last_job=UUID(bytes=row[8]),
        first_at=moment(row[9]),
        last_at=moment(row[10]),
        delivered_at=moment_or_none(row[12]),
        acked_at=moment_or_none(row[13]),
        trail=tuple(AlertStep(moment(at), *rest) for at, *rest in json.loads(row[15])),
    )
