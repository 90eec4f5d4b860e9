"""The executors that an app's tasks may choose: its own pools, named ones, and other people's."""

import asyncio
import difflib
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from detent.config import Config, PoolConfig, check_name
from detent.config.pools import OWN, PROCESS, THREAD, check_pool_name, make_pool
from detent.errors import ConfigError
from detent.executors.origin import check_importable
from detent.executors.process import ProcessExecutor
from detent.executors.thread import ThreadExecutor
from detent.spi.executor import Executor
from detent.tasks import Task

ASYNC: Final = "async"

Maker = Callable[[], Executor]


class Pools:
    """What was declared in code; the configuration of each node adds its own."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, Any]] = {}
        self._makers: dict[str, Maker] = {}

    # Declaring

    def add_pool(self, name: str, settings: Mapping[str, Any], config: Config) -> None:
        """Declare a pool; what is not given comes from the configuration."""
        self._check_free(name)
        self._given[name] = dict(settings)
        try:
            self._pool(name, config)
        except ConfigError:
            del self._given[name]
            raise

    def add_executor(self, name: str, executor: Executor | Maker, config: Config) -> None:
        """Declare an executor, or what makes one for each node."""
        self._check_free(name)
        if self._pool(name, config) is not None:
            raise ConfigError(f"the executor {name!r}: a pool has that name")
        if not isinstance(executor, type) and hasattr(executor, "run"):
            self._makers[name] = functools.partial(lambda made: made, executor)
        elif callable(executor):
            self._makers[name] = executor
        else:
            raise ConfigError(
                f"the executor {name!r}: {executor!r} has no run() and makes no executor"
            )

    def _check_free(self, name: str) -> None:
        check_pool_name(name)
        if name in self._given or name in self._makers:
            raise ConfigError(f"two executors are named {name!r}; give one of them another name")

    # Checking tasks

    def check(
        self,
        function: Callable[..., Any],
        executor: str,
        label: str,
        config: Config,
        *,
        batch: bool = False,
    ) -> None:
        """Refuse a task that its executor cannot run, as far as that is known by now."""
        is_async = asyncio.iscoroutinefunction(function)
        pool = self._pool(executor, config)
        takes_async = executor == ASYNC or pool is None or pool.kind == PROCESS
        if (is_async and not takes_async) or (executor == ASYNC and not is_async):
            kind = "async def" if is_async else "def"
            raise ConfigError(
                f"executor = {executor!r}: does not fit {label}, a function made with {kind}"
            )
        if executor != ASYNC:
            check_name("executor", executor)
        if batch and (executor in self._makers or (pool is not None and pool.kind == PROCESS)):
            raise ConfigError(
                f"executor = {executor!r}: does not fit {label}: batches run on the event loop "
                f"or on threads"
            )
        if pool is not None and pool.kind == PROCESS:
            check_importable(function, label)

    def check_all(self, tasks: Iterable[Task[..., Any]], config: Config) -> None:
        """Refuse what no node with this configuration could run."""
        known = [ASYNC, *self._names(config)]
        for task in tasks:
            executor = task.options_declared.executor
            if executor not in known:
                near = difflib.get_close_matches(executor, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(
                    f"task {task.name}: executor = {executor!r}: "
                    f"must be one of {', '.join(known)}{hint}"
                )
            self.check(task.function, executor, task.name, config, batch=task.is_batch)

    # Making them

    def make(self, config: Config) -> dict[str, Executor]:
        """Return the executors of a node; they start threads or children when first used."""
        return {name: self._make(name, config) for name in self._names(config)}

    def _names(self, config: Config) -> list[str]:
        return list(dict.fromkeys((*OWN, *config.pools, *self._given, *self._makers)))

    def _pool(self, name: str, config: Config) -> PoolConfig | None:
        """Return the settings of a pool: what code says, then the configuration."""
        configured: Mapping[str, PoolConfig] = config.pools
        if name not in OWN and name not in configured and name not in self._given:
            return None
        return make_pool(name, self._given.get(name, {}), configured.get(name))

    def _make(self, name: str, config: Config) -> Executor:
        pool = self._pool(name, config)
        if pool is None:
            return self._makers[name]()
        if pool.kind == THREAD:
            # The command looks for threads with this beginning when a node has stopped.
            prefix = "detent-job" if name == THREAD else f"detent-job-{name}"
            return ThreadExecutor(pool.size or config.node.threads, prefix)
        return ProcessExecutor(pool, pool.size or config.node.processes or _cores(), config.limits)


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
