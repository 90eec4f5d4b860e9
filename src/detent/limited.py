"""The part of an app that is about limits: declaring them, and changing them while jobs run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detent.config import check_name
from detent.errors import ConfigError
from detent.fair_queues import FairQueue
from detent.foundation import Foundation
from detent.limits import Declarations, Limits, full_name, make_limit
from detent.model.gates import QUEUE, RESOURCE, gate_name
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.task_limits import TaskLimits, limits_of
from detent.tasks import Task


class Limited(Foundation):
    """What an `App` offers to keep jobs from running too many at once, or too often."""

    def __init__(self) -> None:
        super().__init__()
        self._declared_limits: dict[str, Limit] = {}
        self._declarations: Declarations | None = None
        self._fair_queues: dict[str, FairQueue] = {}
        self._queues_in_code: dict[str, FairQueue] = {}

    @property
    def limits(self) -> Limits:
        """All limits: look, set, reset."""
        store = self.store
        return Limits(store, self._notifier, self._protection)

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

    def queue(
        self,
        name: str,
        *,
        fair_key: str | Callable[..., Any],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """Let the jobs of a queue have their turns by a key, whatever task they are of.

        `app.queue("mail", fair_key="tenant", weights={"gold": 3})`: the key is the argument
        `tenant` of each job, or else what its tag `tenant:...` says; or what a function of the
        arguments returns. Jobs without a key share one turn.
        """
        fair = FairQueue(name, fair_key, weights or {})
        known = self._queues_in_code.setdefault(name, fair)
        if known != fair:
            raise ConfigError(f"app.queue({name!r}): declared twice, with different values")
        self._share(fair)

    def _share_as_configured(self) -> None:
        """Take in what `[queues.<name>]` says; code's word counts more."""
        for name, queue in self.config.queues.items():
            if queue.fair_key is not None:
                self._share(FairQueue(name, queue.fair_key, queue.weights))

    def _share(self, fair: FairQueue) -> None:
        before = self._fair_queues.get(fair.queue)
        for limit in () if before is None else before.definitions():
            del self._declared_limits[limit.name]
        self._fair_queues[fair.queue] = fair
        self._declared_limits |= {limit.name: limit for limit in fair.definitions()}
        for task in self.tasks:
            self._wants_share(task)
        if self._client is not None:
            self._client.forget_rows()

    def _wants_share(self, task: Task[..., Any]) -> None:
        """Take note of a task whose queue has turns by key: its arguments are to be looked at."""
        if task.options_declared.queue in self._fair_queues:
            task.is_keyed = True

    def _task_limits(self, name: str, options: dict[str, Any]) -> TaskLimits | None:
        limits = limits_of(name, options)
        self._check_weight(limits)
        return limits

    def _check_weight(self, limits: TaskLimits | None) -> None:
        if limits is None or limits.resource is None:
            return
        resource = self._declared_limits.get(gate_name(RESOURCE, limits.resource))
        if resource is None:
            return
        most = f"{resource.concurrency} permits"
        fits = resource.concurrency is None or limits.weight <= resource.concurrency
        if fits and resource.rate is not None:
            # What is above the burst of a rate never flows in.
            most = f"a rate that lets {resource.rate.most} in at once"
            fits = limits.weight <= resource.rate.most
        if not fits:
            raise ConfigError(
                f"weight = {limits.weight}: {limits.task} would never run, resource "
                f"{limits.resource!r} has {most}"
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
            kinds = (name.partition(":") for name in self._declared_limits)
            names = [name for kind, _, name in kinds if kind == RESOURCE]
            known = f"; declared are {', '.join(sorted(names))}" if names else ""
            raise ConfigError(
                f"resource = {limits.resource!r} of {limits.task}: is not declared, say "
                f"app.limit({limits.resource!r}, concurrency=...){known}"
            )

    @property
    def _limit_declarations(self) -> Declarations:
        if self._declarations is None:
            with self._first_use.lock:
                if self._declarations is None:
                    self._declarations = Declarations(
                        self.store,
                        self._all_limits,
                        lambda: len(self.tasks) + len(self._declared_limits),
                    )
        return self._declarations
