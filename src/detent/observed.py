"""The part of an app that tells others what happens: listeners, sinks and alerts."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import is_dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, TypeVar

from detent import events as known_events
from detent.alerts import DEFAULT_ATTEMPTS, Alerts
from detent.config import check_name
from detent.errors import ConfigError
from detent.events import (
    JobDied,
    JobEnqueued,
    JobRetrying,
    JobSnoozed,
    JobStarted,
    JobSucceeded,
    JobTimedOut,
    JobWasCanceled,
    TaskUnknown,
)
from detent.foundation import Foundation
from detent.listeners import Audience, Listeners
from detent.outbox import Outbox
from detent.signature import accepts
from detent.sinks.called import as_sink, checked_timeout
from detent.spi.outbox import OutboxEvent
from detent.spi.sinks import Outlet, Sink

Event = TypeVar("Event")
Function = TypeVar("Function", bound=Callable[[Any], Any])

TOLD: Final = (
    JobEnqueued,
    JobStarted,
    JobSucceeded,
    JobRetrying,
    JobSnoozed,
    JobTimedOut,
    JobDied,
    JobWasCanceled,
    TaskUnknown,
)
# The ends of jobs, and the states that they are written as.
ENDS: Final[dict[type, str]] = {
    JobSucceeded: "succeeded",
    JobDied: "failed",
    JobWasCanceled: "canceled",
}


class Watch(NamedTuple):
    """Which ends a sink wants to hear of."""

    sink: str
    states: list[str]
    tasks: Sequence[str]


class Observed(Foundation):
    """What an `App` offers to those who want to know."""

    def __init__(self) -> None:
        super().__init__()
        self._made_listeners: Listeners | None = None
        self._made_alerts: Alerts | None = None
        self._outlets: dict[str, Outlet] = {}
        self._watches: list[Watch] = []

    # Listeners

    def on(self, event_type: type[Event], listener: Callable[[Event], None]) -> None:
        """Call `listener` at once with every event of this type of `detent.events`.

        It is called by the engine itself, before what the event speaks of is written, and must
        not block: for metrics and tests. For anything else there is `app.listener`.
        """
        shown = getattr(event_type, "__name__", repr(event_type))
        if not is_dataclass(event_type) or getattr(known_events, shown, None) is not event_type:
            raise ConfigError(f"app.on({shown}, ...): must be an event of detent.events")
        if not accepts(listener, "event") or inspect.iscoroutinefunction(listener):
            raise ConfigError(
                f"app.on({shown}, ...): {listener!r}: must be def note(event), not async; "
                f"see @app.listener"
            )
        self.bus.subscribe(event_type, listener)

    @property
    def _listeners(self) -> Listeners:
        if self._made_listeners is None:
            with self._first_use.lock:
                if self._made_listeners is None:
                    events = self.config.events
                    patience = events.drain_timeout.total_seconds()
                    self._made_listeners = Listeners(
                        self._runtime, self.bus, events.buffer, patience
                    )
        return self._made_listeners

    def listener(self, *events: type) -> Callable[[Function], Function]:
        """Call a function with life-cycle events of jobs: `@app.listener(JobSucceeded, JobDied)`.

        It is called when what the event speaks of is committed: on the event loop if it is async,
        else on a thread, beside the work and never in its way. See `detent.events`.
        """
        for event in events:
            if event not in TOLD:
                names = ", ".join(kind.__name__ for kind in TOLD)
                shown = getattr(event, "__name__", repr(event))
                raise ConfigError(f"@app.listener({shown}): must be one of {names}")
        if not events:
            raise ConfigError("@app.listener(): must name at least one event of detent.events")

        def declare(function: Function) -> Function:
            if not accepts(function, "event"):
                raise ConfigError(f"@app.listener(...): {function!r}: must be def note(event)")
            self._listeners.add(function, tuple(dict.fromkeys(events)))
            return function

        return declare

    # Sinks

    @property
    def outbox(self) -> Outbox:
        """The events that have not been delivered: look, retry."""
        return Outbox(self.store, self._protection)

    def sink(
        self,
        name: str,
        sink: Sink | Callable[[OutboxEvent], Awaitable[None] | None],
        *,
        events: Sequence[type] = (JobSucceeded, JobDied, JobWasCanceled),
        tasks: str | Sequence[str] = "*",
        timeout: timedelta | float | None = None,
        max_attempts: int = DEFAULT_ATTEMPTS,
    ) -> None:
        """Deliver the ends of jobs to somebody outside, at least once: `WebhookSink(url)`, or a
        function of yours.

        It hears of jobs that are enqueued through an app which declares it, of these tasks (`*`
        stands for anything). Each event is written with the end itself, and any node that declares
        the sink delivers it; after `max_attempts` it stays in `app.outbox` as undeliverable.
        """
        check_name("sink", name)
        if name in self._outlets:
            raise ConfigError(f"app.sink({name!r}, ...): a sink of this name is declared already")
        states = _states(name, events)
        patterns = _patterns(name, tasks)
        limit = checked_timeout(f"app.sink({name!r})", timeout, sink)
        if type(max_attempts) is not int or not 1 <= max_attempts <= 100:
            raise ConfigError(
                f"app.sink({name!r}): max_attempts = {max_attempts!r}: must be 1 to 100"
            )
        made = as_sink(sink, self._runtime)
        if made is None:
            raise ConfigError(
                f"app.sink({name!r}, {sink!r}): must be a sink such as WebhookSink(url), or a "
                f"function"
            )
        self._outlets[name] = Outlet(name, made, limit, max_attempts)
        self._watches.append(Watch(name, states, patterns))
        if self._client is not None:
            self._client.forget_rows()

    def _sinks_of(self, task: str) -> dict[str, list[str]]:
        """Return the sinks that want to hear of the ends of a task's jobs."""
        return {
            watch.sink: watch.states
            for watch in self._watches
            if any(fnmatchcase(task, pattern) for pattern in watch.tasks)
        }

    # Alerts

    @property
    def alerts(self) -> Alerts:
        """Dead-letter alerts: whom to tell, look, acknowledge."""
        if self._made_alerts is None:
            with self._first_use.lock:
                if self._made_alerts is None:
                    self._made_alerts = Alerts(
                        lambda: self.store, self._runtime, self.bus, self._protection
                    )
        return self._made_alerts

    def _audience(self) -> Audience:
        """Return who wants to know what a node of this app does."""
        alerted = {} if self._made_alerts is None else self._made_alerts.outlets
        return Audience(self._listeners, {**self._outlets, **alerted}, tuple(alerted))

    async def _tell_the_last(self) -> None:
        """Let listeners of this event loop hear what they have not heard yet."""
        if self._made_listeners is not None:
            await self._made_listeners.close(self.config.events.drain_timeout.total_seconds())


def _states(name: str, events: Sequence[type]) -> list[str]:
    if not isinstance(events, list | tuple | set | frozenset):
        names = ", ".join(kind.__name__ for kind in ENDS)
        shown = getattr(events, "__name__", repr(events))
        raise ConfigError(
            f"app.sink({name!r}): events = {shown}: must be a list of some of {names}"
        )
    for event in events:
        if event not in ENDS:
            names = ", ".join(kind.__name__ for kind in ENDS)
            shown = getattr(event, "__name__", repr(event))
            raise ConfigError(f"app.sink({name!r}): events = {shown}: must be of {names}")
    if not events:
        raise ConfigError(f"app.sink({name!r}): events = (): must name at least one")
    return [ENDS[event] for event in dict.fromkeys(events)]


def _patterns(name: str, tasks: str | Sequence[str]) -> Sequence[str]:
    patterns = tuple(tasks) if isinstance(tasks, list | tuple | set | frozenset) else (tasks,)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern or not pattern.isprintable():
            raise ConfigError(
                f"app.sink({name!r}): tasks = {pattern!r}: must be names such as 'billing.*'"
            )
    if not patterns:
        raise ConfigError(f"app.sink({name!r}): tasks = (): must name at least one")
    return patterns
