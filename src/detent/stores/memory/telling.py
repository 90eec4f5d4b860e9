"""The part of the memory store that is about events and alerts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from detent.spi.outbox import AlertInfo, EventInfo, Failures, OutboxEvent, Taken
from detent.stores.memory import outbox
from detent.stores.memory.carrier import Carrier


class Telling(Carrier):
    """The part of the store that `OutboxStore` and `AlertStore` describe."""

    async def take_events(self, rooms: Mapping[str, int], lease: timedelta) -> Taken:
        return await self._do(outbox.take_events, rooms, lease)

    async def events_delivered(self, events: Sequence[OutboxEvent]) -> int:
        return await self._do(outbox.events_delivered, events)

    async def put_off_event(
        self, event: OutboxEvent, delay: timedelta | None, problem: str
    ) -> bool:
        return await self._do(outbox.put_off_event, event, delay, problem)

    async def list_events(
        self, *, sink: str | None = None, parked: bool | None = None, limit: int = 100
    ) -> list[EventInfo]:
        return await self._do(outbox.list_events, sink=sink, parked=parked, limit=limit)

    async def retry_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        return await self._do(outbox.retry_events, ids, sink, limit)

    async def discard_events(self, ids: Sequence[int] | None, sink: str | None, limit: int) -> int:
        return await self._do(outbox.discard_events, ids, sink, limit)

    async def prune_events(self, parked_for: timedelta, alerts_for: timedelta, limit: int) -> int:
        return await self._do(outbox.prune_events, parked_for, alerts_for, limit)

    async def raise_alerts(
        self,
        failures: Sequence[Failures],
        window: timedelta,
        sinks: Sequence[str],
        most_kinds: int,
    ) -> int:
        return await self._do(outbox.raise_alerts, failures, window, sinks, most_kinds)

    async def alerts(
        self, limit: int, *, task: str | None = None, acked: bool | None = None
    ) -> list[AlertInfo]:
        return await self._do(outbox.alerts, limit, task=task, acked=acked)

    async def get_alert(self, alert: int) -> AlertInfo | None:
        return await self._do(outbox.get_alert, alert)

    async def ack_alert(self, alert: int, by: str) -> AlertInfo | None:
        return await self._do(outbox.ack_alert, alert, by)
