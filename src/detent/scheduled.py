"""The part of an app that is about schedules: declaring them, and all that are there."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Unpack

from detent.calendars import Calendars
from detent.config.readers import check_label
from detent.context import JobContext
from detent.declaring import Declare
from detent.editing import Workshop
from detent.errors import ConfigError
from detent.foundation import Foundation
from detent.model.schedule import Schedule
from detent.model.triggers import Trigger
from detent.schedules import Schedules
from detent.scheduling import (
    Declaration,
    Declarations,
    ScheduleSettings,
    call_arguments,
    call_of,
    check_range,
    read_parts,
    read_trigger,
)
from detent.signature import Signature
from detent.tasks import Task

OF_THE_TASK = ("queue", "priority", "timeout", "retry", "needs", "tags")
"""What `@app.schedule` says for a plain function is said of the task that it becomes."""


class Scheduled(Foundation):
    """What an `App` offers for schedules."""

    _declare: Callable[..., Task[..., Any]]

    def __init__(self) -> None:
        super().__init__()
        self._schedules = Declarations()

    @property
    def schedules(self) -> Schedules:
        """All schedules: look, create, change, pause, fire by hand."""
        store = self.store
        return Schedules(
            store,
            jobs=self.jobs,
            codec=self._codec,
            runtime=self._runtime,
            config=self.config.schedules,
            notifier=self._notifier,
            workshop=Workshop(
                self.tasks,
                lambda call: self.client.prepare(call).job,
                self._schedules,
                self.client.renewed,
                self.client.lane_now,
                self.client.announce,
            ),
            protection=self._protection,
        )

    @property
    def calendars(self) -> Calendars:
        """All calendars: the times that schedules leave out."""
        store = self.store
        return Calendars(store, self._notifier, self._protection)

    def schedule(
        self,
        trigger: str | timedelta | Trigger,
        *,
        name: str | None = None,
        timezone: str | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Declare:
        """Declare that a task is to run at certain times: `@app.schedule("0 9 * * MON-FRI")`.

        `trigger` is the text of a cron, for which `timezone` counts (UTC if it is not given), a
        `timedelta`, or a trigger of `detent.triggers`. Put it on a function, which becomes a task
        as by `@app.task`, or above `@app.task(...)`; several on one task need a `name` each.
        Nodes store what is declared when they start.
        """

        def declare(function: Any, **unknown: Any) -> Task[..., Any]:
            if unknown:
                raise ConfigError("@app.schedule(...) is put on a function, not called with more")
            return self._declare_schedule(function, trigger, name, timezone, dict(settings))

        return Declare(declare)

    def _declare_schedule(
        self,
        function: Any,
        trigger: str | timedelta | Trigger,
        name: str | None,
        timezone: str | None,
        settings: dict[str, Any],
    ) -> Task[..., Any]:
        # All is read before a function becomes a task: a mistake leaves nothing behind.
        known = function if isinstance(function, Task) else None
        if known is not None and self.tasks.find(known.name) is not known:
            raise ConfigError(f"the task {known.name!r} belongs to another app")
        own_name = getattr(function, "__qualname__", repr(function))
        given = check_label("schedule", name or (known.name if known else own_name))
        read_trigger(given, trigger, timezone)
        parts = read_parts(given, settings)
        check_range(given, parts.get("start_at"), parts.get("end_at"))
        args, kwargs = call_arguments(given, settings)
        signature = known.signature if known else Signature(function, JobContext)
        signature.encode(self._codec, args, kwargs)
        if known is None:
            own = {option: settings.pop(option) for option in OF_THE_TASK if option in settings}
            known = self._declare(function, **own)
        label = name or known.name
        when = read_trigger(label, trigger, timezone)
        self._schedules.add(Declaration(label, when, parts, call_of(label, known, settings)))
        return known

    def _declared_schedules(self) -> Sequence[Schedule]:
        """Return all that code declares, ready to be stored."""
        if not self._schedules:
            return []
        prepare, config = self.client.prepare, self.config.schedules
        return [each.schedule(prepare(each.call).job, config) for each in self._schedules]
