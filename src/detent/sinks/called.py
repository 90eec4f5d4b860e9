"""A function of the application as a sink."""

import inspect
from collections.abc import Callable
from typing import Any

from detent.spi.outbox import AlertInfo, OutboxEvent
from detent.spi.runtime import Runtime


class CalledSink:
    """Calls a function with each event, or with the alert that it tells of.

    An async one on the event loop, any other on a thread.
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
            await self._runtime.blocking(lambda: self._function(told), "detent-sink")
