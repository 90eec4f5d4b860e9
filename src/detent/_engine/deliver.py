"""Brings the events of the outbox to their sinks: each at least once, those of one job in order.

Any node does it for the sinks that its program declares. An event is taken for a while; whoever
dies with it, or does not get rid of it, leaves it to the next. Without a sink there is no
deliverer at all.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

from detent._engine.service import Service
from detent.errors import DeliveryFailed
from detent.events import (
    Bus,
    EventDelivered,
    EventPutOff,
    EventUndeliverable,
    SinkRecovered,
    SinkTrouble,
)
from detent.model.delivery import next_delay
from detent.model.failure import Clean, describe
from detent.model.text import storable
from detent.spi.outbox import AlertInfo, AlertStore, OutboxEvent, OutboxStore
from detent.spi.runtime import Runtime
from detent.spi.sinks import ClosableSink, Outlet

# How many events are on their way to one sink at once.
SLOTS: Final = 8
# How often to look, besides being told and besides what is known to be due.
POLL: Final = 10.0
SHORTEST: Final = 0.05
# How much longer an event is ours than its delivery may take: time to write down what came of it.
MARGIN: Final = timedelta(seconds=10)
# How long deliveries that have begun may go on when the node stops.
GRACE: Final = 5.0
PRUNE_INTERVAL: Final = 3_600.0
PAGE: Final = 500
PROBLEM_LIMIT: Final = 500


class DeliverStore(OutboxStore, AlertStore, Protocol):
    """What is needed to deliver."""


class Deliverer(Service):
    """Takes events, offers them to their sinks, and notes what came of it."""

    name = "deliverer"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: DeliverStore,
        outlets: Mapping[str, Outlet],
        *,
        keep_undeliverable: timedelta,
        keep_alerts: timedelta,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._outlets = outlets
        self._lease = max(outlet.timeout for outlet in outlets.values()) + MARGIN
        self._keep = (keep_undeliverable, keep_alerts)
        self._prune_at = runtime.monotonic() + PRUNE_INTERVAL * runtime.uniform(0.1, 1.0)
        self._going: dict[int, OutboxEvent] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._delivered: list[OutboxEvent] = []
        self._troubled: dict[str, None] = {}
        self.clean: Clean | None = None
        """What takes out of errors what nobody is to read."""

    async def run(self) -> None:
        """Work until stopped; then let what has begun end, for a while."""
        await super().run()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=GRACE)
        for task in list(self._tasks.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        await self._run_guarded()
        for outlet in self._outlets.values():
            if isinstance(outlet.sink, ClosableSink):
                await outlet.sink.close()

    async def run_once(self) -> float:
        """Note what was delivered, and take more where there is room."""
        await self._note_delivered()
        if self._stopping:
            return 0.0
        now = self.runtime.monotonic()
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_INTERVAL * self.runtime.uniform(0.8, 1.0)
            if await self._store.prune_events(*self._keep, PAGE) >= PAGE:
                # There may be more; deliveries come first.
                self._prune_at = now + POLL
        rooms = self._rooms()
        if not rooms:
            return POLL  # the first that ends wakes us
        taken = await self._store.take_events(rooms, self._lease)
        for event in taken.events:
            self._begin(event)
        if taken.next_due is None:
            return POLL
        return min(max(taken.next_due, SHORTEST), POLL)

    def _rooms(self) -> dict[str, int]:
        """Return the sinks that can be offered more, and how much: a slow one stops no other."""
        busy = [event.sink for event in self._going.values()]
        rooms = {name: SLOTS - busy.count(name) for name in self._outlets}
        return {name: room for name, room in rooms.items() if room > 0}

    async def _note_delivered(self) -> None:
        if not self._delivered:
            return
        events, self._delivered = self._delivered, []
        try:
            await self._store.events_delivered(events)
        except BaseException:
            self._delivered = events + self._delivered
            raise

    # One delivery

    def _begin(self, event: OutboxEvent) -> None:
        self._going[event.id] = event
        work = self._deliver(event)
        self._tasks[event.id] = self.runtime.spawn(work, f"detent-deliver-{event.id}")

    async def _deliver(self, event: OutboxEvent) -> None:
        try:
            problem = await self._offer(event)
            if problem is None:
                self._delivered.append(event)
                self._tell_delivered(event)
            else:
                await self._put_off(event, problem)
        except Exception as error:  # noqa: BLE001  the store's trouble: the lease will run out
            self._tell_trouble(event.sink, describe(error, self.clean))
        finally:
            self._going.pop(event.id, None)
            self._tasks.pop(event.id, None)
            self.wake()

    async def _offer(self, event: OutboxEvent) -> BaseException | None:
        """Offer an event to its sink; return what went wrong."""
        outlet = self._outlets[event.sink]
        if event.tries > outlet.max_attempts:
            # Whoever took it never said what came of it: it may be what they died of.
            return DeliveryFailed(f"its delivery was begun {event.tries - 1} times and never ended")
        alert = None if event.alert is None else await self._store.get_alert(event.alert)
        seconds = outlet.timeout.total_seconds()
        work: Any = self.runtime.spawn(_offered(outlet, event, alert), f"detent-sink-{event.sink}")
        timer = self.runtime.later(seconds, work.cancel)
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            # The node stops, and has waited long enough: another may have it now.
            work.cancel()
            await self._store.put_off_event(event, timedelta(0), "the node stopped")
            raise
        finally:
            timer.cancel()
        if work.cancelled():
            return TimeoutError(f"took longer than {seconds:g} s")
        problem: BaseException | None = work.result()
        return problem

    async def _put_off(self, event: OutboxEvent, problem: BaseException) -> None:
        """Let it be tried again later, or give it up."""
        wait = problem.retry_after if isinstance(problem, DeliveryFailed) else None
        refused = isinstance(problem, DeliveryFailed) and problem.refused
        words = storable(describe(problem, self.clean), PROBLEM_LIMIT)
        most = self._outlets[event.sink].max_attempts
        delay = next_delay(
            event.tries, most, self.runtime.uniform(0.5, 1.0), refused=refused, asked=wait
        )
        if not await self._store.put_off_event(event, delay, words):
            return
        self._tell_trouble(event.sink, words)
        what = (event.id, event.sink, event.job, event.tries, words)
        if delay is None:
            self.bus.emit(EventUndeliverable(*what))
        elif self.bus.wants(EventPutOff):
            self.bus.emit(EventPutOff(*what, delay.total_seconds()))

    def _tell_delivered(self, event: OutboxEvent) -> None:
        if event.sink in self._troubled:
            del self._troubled[event.sink]
            self.bus.emit(SinkRecovered(event.sink))
        if self.bus.wants(EventDelivered):
            self.bus.emit(EventDelivered(event.id, event.sink, event.job, event.tries))

    def _tell_trouble(self, sink: str, words: str) -> None:
        if sink not in self._troubled:
            self._troubled[sink] = None
            self.bus.emit(SinkTrouble(sink, words))


async def _offered(
    outlet: Outlet, event: OutboxEvent, alert: AlertInfo | None
) -> BaseException | None:
    try:
        await outlet.sink.deliver(event, alert)
    except BaseException as error:
        # The user's function: `exit()` is no way out, nor is something canceled that it awaited.
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return error
    return None
