"""The part of an app that is about limits: declaring them, and changing them while jobs run."""

from collections.abc import Sequence
from typing import Any

from detent.config import check_name
from detent.errors import ConfigError
from detent.foundation import Foundation
from detent.limits import Declarations, Limits, full_name, make_limit
from detent.model.gates import QUEUE, RESOURCE, gate_name
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.task_limits import TaskLimits, limits_of


class Limited(Foundation):
    """What an `App` offers to keep jobs from running too many at once, or too often."""

    def __init__(self) -> None:
        super().__init__()
        self._declared_limits: dict[str, Limit] = {}
        self._declarations: Declarations | None = None

    @property
    def limits(self) -> Limits:
        """All limits: look, set, reset."""
        store = self.store
        return Limits(store, self._notifier)

    def limit(self, name: str, *, concurrency: int | None = None, rate: Rate | None = None) -> None:
        """Declare a resource for `@app.task(resource=name)`: so many permits, or such a rate.

        `app.limit("queue:mail", concurrency=5)` limits all jobs of a queue.
        """
        kind, _, rest = full_name(name).partition(":")
        if kind not in (RESOURCE, QUEUE):
            raise ConfigError(
                f"app.limit({name!r}): only resources and queues; a task's own limits are options "
                "of @app.task"
            )
        check_name(kind, rest)
        limit = make_limit(name, concurrency, rate)
        known = self._declared_limits.get(limit.name)
        if known is not None and known != limit:
            raise ConfigError(f"app.limit({name!r}): declared twice, with different values")
        self._declared_limits[limit.name] = limit
        for task in self.tasks:
            self._check_weight(task.options_declared.limits)

    def _task_limits(self, name: str, options: dict[str, Any]) -> TaskLimits | None:
        limits = limits_of(name, options)
        self._check_weight(limits)
        return limits

    def _check_weight(self, limits: TaskLimits | None) -> None:
        if limits is None or limits.resource is None:
            return
        resource = self._declared_limits.get(gate_name(RESOURCE, limits.resource))
        if resource is None or resource.concurrency is None:
            return
        if limits.weight > resource.concurrency:
            raise ConfigError(
                f"weight = {limits.weight}: {limits.task} would never run, resource "
                f"{limits.resource!r} has {resource.concurrency} permits"
            )

    def _all_limits(self) -> Sequence[Limit]:
        """Return what the store has to know before jobs of these tasks are claimed."""
        found = list(self._declared_limits.values())
        for task in self.tasks:
            limits = task.options_declared.limits
            if limits is not None:
                self._check_resource(limits)
                found += limits.definitions()
        return found

    def _check_resource(self, limits: TaskLimits) -> None:
        if limits.resource is None:
            return
        if gate_name(RESOURCE, limits.resource) not in self._declared_limits:
            names = [name.partition(":")[2] for name in self._declared_limits]
            known = f"; declared are {', '.join(sorted(names))}" if names else ""
            raise ConfigError(
                f"resource = {limits.resource!r} of {limits.task}: is not declared, say "
                f"app.limit({limits.resource!r}, concurrency=...){known}"
            )

    @property
    def _limit_declarations(self) -> Declarations:
        if self._declarations is None:
            self._declarations = Declarations(
                self.store,
                self._all_limits,
                lambda: len(self.tasks) + len(self._declared_limits),
            )
        return self._declarations
