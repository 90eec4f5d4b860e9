"""Dead-letter alerts: who is told that jobs fail, once for each kind of failure."""

import builtins
from collections.abc import Awaitable, Callable
from typing import Any, Final

from detent.config import check_name
from detent.config.readers import check_label
from detent.errors import AlertNotFound, ConfigError
from detent.events import AlertRaised, Bus
from detent.jobs import check_wanted
from detent.model.access import Action, Target
from detent.outbox import ALERTS, check_number, check_page
from detent.protection import Protection
from detent.sinks.called import as_sink, checked_timeout
from detent.sinks.webhook import WebhookSink
from detent.spi.outbox import AlertInfo, AlertStore, OutboxEvent
from detent.spi.runtime import Runtime
from detent.spi.sinks import Outlet, Sink

__all__ = ["AlertInfo", "Alerts", "LogAlert", "WebhookAlert"]

DEFAULT_ATTEMPTS: Final = 16


class LogAlert:
    """Writes alerts to the logger `detent`, and tells `AlertRaised` to those who listen."""


class WebhookAlert(WebhookSink):
    """Posts alerts as JSON to a URL; takes what `detent.sinks.WebhookSink` takes."""


Told = LogAlert | Sink | Callable[[AlertInfo], Awaitable[None] | None]


class Alerts:
    """All alerts, and those who are told of them."""

    def __init__(
        self,
        store: Callable[[], AlertStore],
        runtime: Runtime,
        bus: Bus,
        protection: Protection | None = None,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._bus = bus
        self._protection = protection or Protection()
        self.outlets: dict[str, Outlet] = {}

    def to(self, target: Told, *, name: str | None = None) -> None:
        """Tell somebody of each alert: `LogAlert()`, `WebhookAlert(url)`, or a function of yours.

        The name must be the same on all nodes; without one it is the function's, or `log` or
        `webhook`.
        """
        sink = self._sink(target)
        label = name or _name_of(target)
        check_name("alerts.to(): name", label)
        if ALERTS + label in self.outlets:
            raise ConfigError(f"alerts.to(): name = {label!r}: there is one already; give another")
        timeout = checked_timeout("alerts.to()", None, target)
        outlet = Outlet(ALERTS + label, sink, timeout, DEFAULT_ATTEMPTS)
        self.outlets[outlet.name] = outlet

    def _sink(self, target: Any) -> Sink:
        if isinstance(target, LogAlert):
            return _Logged(self._bus)
        # Any class makes something of what it is called with: LogAlert without its brackets.
        sink = None if isinstance(target, type) else as_sink(target, self._runtime)
        if sink is None:
            raise ConfigError(
                f"alerts.to({target!r}): must be LogAlert(), WebhookAlert(url) or a function"
            )
        return sink

    async def list(
        self, *, task: str | None = None, acked: bool | None = None, limit: int = 100
    ) -> builtins.list[AlertInfo]:
        """Return alerts, the newest first: of one task, or only those nobody has acknowledged."""
        check_page(limit)
        check_wanted("task", task)
        await self._permit(Action.READ, "*", task)
        return await self._store().alerts(limit, task=task, acked=acked)

    async def get(self, alert: int) -> AlertInfo:
        """Return an alert, with its count so far."""
        check_number("alert", alert)
        await self._permit(Action.READ, f"{alert}")
        return _found(alert, await self._store().get_alert(alert))

    async def ack(self, alert: int, by: str) -> AlertInfo:
        """Note that somebody has seen an alert; the first one stands."""
        check_number("alert", alert)
        check_label("by =", by)
        await self._permit(Action.CONFIGURE, f"{alert}")
        return _found(alert, await self._store().ack_alert(alert, by))

    async def _permit(self, action: Action, name: str, task: str | None = None) -> None:
        await self._protection.permit(action, Target(task, kind="alert", name=name))


class _Logged:
    """The sink behind `LogAlert`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """See `Sink.deliver`."""
        if alert is not None:
            words = f"{alert.type}: {alert.message}" + (f" in {alert.frame}" if alert.frame else "")
            self._bus.emit(AlertRaised(alert.id, alert.first_job, alert.task, words, alert.times))


def _found(alert: int, info: AlertInfo | None) -> AlertInfo:
    if info is None:
        raise AlertNotFound(alert)
    return info


def _name_of(target: Any) -> str:
    if isinstance(target, LogAlert):
        return "log"
    if isinstance(target, WebhookSink):
        return "webhook"
    return str(getattr(target, "__name__", type(target).__name__))
