"""A function of the application as a sink."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from detent.errors import ConfigError
from detent.signature import accepts
from detent.spi.outbox import AlertInfo, OutboxEvent
from detent.spi.runtime import Runtime
from detent.spi.sinks import Sink

DEFAULT_TIMEOUT: Final = 10.0
LONGEST_TIMEOUT: Final = 600
SLACK: Final = 5.0


def as_sink(given: Any, runtime: Runtime) -> Sink | None:
    """Return a sink, or a function as one; None when it is neither, or only the class of one."""
    deliver = getattr(given, "deliver", None)
    if callable(deliver):
        if isinstance(given, type) or not accepts(deliver, "event", "alert"):
            return None
        sink: Sink = given if inspect.iscoroutinefunction(deliver) else Called(deliver, runtime)
        return sink
    return CalledSink(given, runtime) if accepts(given, "event") else None


class Called:
    """Calls a function with an event and its alert.

    An async one on the event loop, any other on a thread; what that returns is awaited if it can
    be, or a `lambda` around an async function would deliver nothing.
    """

    def __init__(self, function: Callable[..., Any], runtime: Runtime) -> None:
        self._function = function
        self._runtime = runtime
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object may be a function
        )

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """See `Sink.deliver`."""
        await self._call(event, alert)

    async def _call(self, *told: object) -> None:
        if self._is_async:
            await self._function(*told)
            return
        answer = await self._runtime.blocking(lambda: self._function(*told), "detent-sink")
        if inspect.isawaitable(answer):
            await answer


class CalledSink(Called):
    """Calls a function with each event alone, or with the alert that it tells of."""

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """See `Sink.deliver`."""
        told = event if event.alert is None else alert
        if told is not None:  # an alert that is very old may have been removed meanwhile
            await self._call(told)


def checked_timeout(where: str, timeout: timedelta | float | None, sink: object) -> timedelta:
    """Return how long a delivery to a sink may take, as was said, or as long as it needs."""
    own = getattr(sink, "timeout", DEFAULT_TIMEOUT)
    said = own if timeout is None else timeout
    seconds = said.total_seconds() if isinstance(said, timedelta) else said
    if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST_TIMEOUT:
        raise ConfigError(
            f"{where}: timeout = {said!r}: must be a timedelta or seconds, above 0, at most "
            f"{LONGEST_TIMEOUT}"
        )
    # A sink that limits its requests itself gets the time to say so.
    return timedelta(seconds=seconds + (SLACK if timeout is None else 0.0))
