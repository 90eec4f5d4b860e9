"""A function of the application as a sink."""

import inspect
from collections.abc import Callable
from typing import Any

from detent.spi.outbox import AlertInfo, OutboxEvent
from detent.spi.runtime import Runtime
from detent.spi.sinks import Sink


def as_sink(given: Any, runtime: Runtime) -> Sink | None:
    """Return a sink, or a function as one; None when it is neither, or only the class of one."""
    if callable(getattr(given, "deliver", None)):
        sink: Sink = given
        return None if isinstance(given, type) else sink
    return CalledSink(given, runtime) if callable(given) else None


class CalledSink:
    """Calls a function with each event, or with the alert that it tells of.

    An async one on the event loop, any other on a thread; what that returns is awaited if it can
    be, or a `lambda` around an async function would deliver nothing.
    """

    def __init__(self, function: Callable[[Any], Any], runtime: Runtime) -> None:
        self._function = function
        self._runtime = runtime
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object may be a function
        )

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """See `Sink.deliver`."""
        told = event if event.alert is None else alert
        if told is None:
            return  # an alert that is so old that it was removed meanwhile
        if self._is_async:
            await self._function(told)
        else:
            answer = await self._runtime.blocking(lambda: self._function(told), "detent-sink")
            if inspect.isawaitable(answer):
                await answer
