"""The composition root: an `App` holds the tasks and puts store, client and node together."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack

from detent._engine.parts import NodeParts
from detent.client import Client
from detent.clock import SystemRuntime
from detent.cluster import Clustered
from detent.codecs import JsonCodec
from detent.config import Config
from detent.config.pools import PoolSettings
from detent.config.readers import check_label
from detent.databases import open_store
from detent.declared import Declared
from detent.declaring import Declare
from detent.due import as_linger, as_timeout
from detent.entries import Entries
from detent.errors import ConfigError
from detent.events import Bus
from detent.executors.origin import modules_of, name_of
from detent.executors.pools import Pools
from detent.guarded import Guarded
from detent.handle import Job
from detent.jobs import Jobs
from detent.limited import Limited
from detent.machine import describe_process, is_gone, meter, stack_reader
from detent.model.announce import TRIGGERS
from detent.model.breaker import Breaker
from detent.model.durations import Duration
from detent.model.job import Priority
from detent.model.retry import Retry
from detent.nodes import Nodes
from detent.observed import Observed
from detent.protected import Protected
from detent.provided import Provided
from detent.queues import Queues
from detent.running import RunningNode
from detent.scheduled import Scheduled
from detent.serving import served_queues, unreached
from detent.signature import accepts, check_function
from detent.spi.codec import Codec
from detent.spi.executor import Executor
from detent.spi.middleware import Middleware
from detent.spi.nodes import NodeIdentity
from detent.spi.notifier import Notifier
from detent.spi.runtime import Runtime
from detent.spi.store import Store
from detent.sync import LoopThread
from detent.tasks import (
    DEFAULT_LINGER,
    DEFAULT_RETRY,
    BoundCall,
    Registry,
    Task,
    TaskOptions,
    as_names,
    as_priority,
    as_tags,
    check_retry,
)
from detent.version import __version__

R = TypeVar("R")
HookFunction = TypeVar("HookFunction", bound=Callable[[], Any])


class App(Observed, Scheduled, Protected, Guarded, Limited, Provided, Clustered):
    """Tasks, and the store that their jobs live in.

    `App()` reads its settings from `DETENT_URL`, the environment and `detent.toml`;
    `App("postgresql://...")` says where the jobs live. Nothing is connected before it is needed.
    `retry` is the policy of tasks that name none.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        config: Config | None = None,
        store: Store | None = None,
        notifier: Notifier | None = None,
        runtime: Runtime | None = None,
        retry: Retry = DEFAULT_RETRY,
    ) -> None:
        super().__init__()
        self._retry = check_retry("App(retry=...)", retry)
        self.config = config or Config.load(url)
        if config is not None and url is not None:
            self.config = replace(config, store=replace(config.store, url=url))
        self.bus = Bus()
        self.tasks = Registry()
        self._runtime = runtime or SystemRuntime()
        # Where time is made up, the machine must not tell on it.
        self._on_real_machine = runtime is None
        self._codec = JsonCodec(self.config.limits.max_depth)
        self._pools = Pools()
        self._hooks: dict[str, list[Callable[[], Any]]] = {}
        self._loop_thread = LoopThread()
        self._call = self._loop_thread.call
        self._store = store
        self._notifier = notifier
        self._client: Client | None = None
        self._jobs: Jobs | None = None
        self.entries = Entries(self._close_here)
        self._share_as_configured()

    # What it is made of, made when first needed

    @property
    def store(self) -> Store:
        """The store."""
        if self._store is None:
            with self._first_use.lock:
                if self._store is None:
                    # In this order: a thread that sees the store relies on its notifier.
                    store, self._notifier = open_store(self.config, self._notifier)
                    self._store = store
        return self._store

    @property
    def codecs(self) -> Mapping[str, Codec]:
        """How values become bytes, by the names that are stored with them."""
        return {self._codec.name: self._codec}

    @property
    def jobs(self) -> Jobs:
        """All jobs: look, wait, cancel, pause, retry."""
        if self._jobs is None:
            with self._first_use.lock:
                if self._jobs is None:
                    self._jobs = Jobs(self.store, self.store, self._codec, self._protection)
        return self._jobs

    @property
    def queues(self) -> Queues:
        """All queues: look, pause, resume."""
        return Queues(self.store, self.store, self._notifier, self._protection)

    @property
    def nodes(self) -> Nodes:
        """All nodes: look, drain, forget."""
        max_crashes = self.config.cluster.max_crashes
        return Nodes(self.store, self._notifier, max_crashes, self._protection)

    @property
    def client(self) -> Client:
        """What enqueues."""
        if self._client is None:
            with self._first_use.lock:
                if self._client is None:
                    self._client = self._make_client()
        return self._client

    def _make_client(self) -> Client:
        store = self.store
        return Client(
            store=store,
            notifier=self._notifier,
            registry=self.tasks,
            codec=self._codec,
            limits=self.config.limits,
            runtime=self._runtime,
            jobs=self.jobs,
            triggers=TRIGGERS[self.config.wakeup.triggers],
            enqueuing=self._enqueuing,
            listeners=self._listeners,
            sinks=self._sinks_of,
            protection=self._protection,
            declarations=self._limit_declarations,
            fair_queues=self._fair_queues,
        )

    # Declaring

    @property
    def task(self) -> Declare:
        """Declare a function as a task: `@app.task` or `@app.task(queue="mail", ...)`."""
        return Declare(self._declare)

    def _declare(  # noqa: PLR0913  each is one thing a task may say
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        executor: str | None = None,
        priority: Priority | int = Priority.NORMAL,
        timeout: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
        needs: str | Sequence[str] = (),
        tags: Sequence[str] = (),
        linger: Duration = DEFAULT_LINGER,
        breaker: str | bool | Breaker = False,
        middleware: Sequence[Middleware] = (),
        **rest: Any,
    ) -> Task[..., Any]:
        check_function(function)
        label = check_label("task", name_of(function) if name is None else name)
        chosen = executor or ("async" if asyncio.iscoroutinefunction(function) else "thread")
        batch = rest.get("batch") is not None
        self._pools.check(function, chosen, label, self.config, batch=batch)
        limits = self._task_limits(label, rest)
        rest.setdefault("retry", self._retry)
        try:
            options = TaskOptions(
                limits=limits,
                executor=chosen,
                priority=as_priority(priority),
                timeout=as_timeout(timeout),
                heartbeat_timeout=as_timeout(heartbeat_timeout, "heartbeat_timeout"),
                needs=as_names("needs", needs),
                tags=as_tags(tags),
                linger=as_linger(linger),
                breaker=self._breaker_of(label, breaker),
                middleware=tuple(middleware),
                **rest,
            )
        except TypeError as error:
            raise ConfigError(f"@app.task(...): {error}") from error
        task: Task[..., Any] = Declared(function, label, options, self)
        task.modules = modules_of(function)
        task.providers = self._providers
        self._providers.check(task)
        self._wants_encryption(task)
        self._wants_share(task)
        self.tasks.add(task)
        return task

    def pool(self, name: str, **settings: Unpack[PoolSettings]) -> None:
        """Declare a pool for `@app.task(executor=name)`: child processes, or threads.

        The settings are those of `[pools.<name>]`, which holds for what is not given.
        """
        self._pools.add_pool(name, settings, self.config)

    def executor(self, name: str, executor: Executor | Callable[[], Executor]) -> None:
        """Declare an executor of your own, or a class or function that makes one for each node."""
        self._pools.add_executor(name, executor, self.config)

    def on_start(self, hook: HookFunction) -> HookFunction:
        """Call `hook` before a node joins the cluster."""
        return self._hook("start", hook)

    def on_ready(self, hook: HookFunction) -> HookFunction:
        """Call `hook` when a node has begun to claim."""
        return self._hook("ready", hook)

    def on_drain(self, hook: HookFunction) -> HookFunction:
        """Call `hook` when a node begins to drain."""
        return self._hook("drain", hook)

    def on_stop(self, hook: HookFunction) -> HookFunction:
        """Call `hook` when a node has left."""
        return self._hook("stop", hook)

    def _hook(self, name: str, hook: HookFunction) -> HookFunction:
        if not accepts(hook):
            raise ConfigError(f"@app.on_{name}: {hook!r}: must be def hook(), async or not")
        self._hooks.setdefault(name, []).append(hook)
        return hook

    # Enqueuing

    async def enqueue(self, call: BoundCall[R]) -> Job[R]:
        """Store a bound call as a job: `app.enqueue(task.bind(...))`."""
        return await self.client.enqueue(call)

    def enqueue_sync(self, call: BoundCall[R]) -> Job[R]:
        """Do the same from blocking code; with `within=` on the caller's own thread."""
        if isinstance(call, BoundCall) and call.options.within is not None:
            return self.client.enqueue_within_sync(call)
        return self._loop_thread.call(self.client.enqueue(call))

    async def enqueue_many(
        self, calls: Iterable[BoundCall[R]], *, within: Any = None
    ) -> list[Job[R]]:
        """Store many calls, a thousand a commit (or all in the transaction of `within`)."""
        return await self.client.enqueue_many(calls, within=within)

    def enqueue_many_sync(
        self, calls: Iterable[BoundCall[R]], *, within: Any = None
    ) -> list[Job[R]]:
        """Do the same from blocking code; with `within=` on the caller's own thread."""
        if within is not None:
            return self.client.enqueue_many_within_sync(calls, within)
        return self._loop_thread.call(self.client.enqueue_many(calls))

    # Running

    def node(
        self,
        *,
        queues: Mapping[str, int] | str | None = None,
        concurrency: int | None = None,
        name: str | None = None,
        roles: Sequence[str] | None = None,
        capabilities: Sequence[str] | None = None,
        drain_timeout: Duration | None = None,
        max_jobs: int | None = None,
        max_rss: int | None = None,
    ) -> RunningNode:
        """Return a node to be run with `async with`; by default it serves all declared queues."""
        given = {
            "queues": queues,
            "concurrency": concurrency,
            "name": name,
            "roles": roles,
            "capabilities": capabilities,
            "drain_timeout": drain_timeout,
            "max_jobs": max_jobs,
            "max_rss": max_rss,
        }
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        config = replace(self.config, node=replace(self.config.node, **changes))
        return RunningNode(self, config)

    async def __aenter__(self) -> Self:
        self.entries.enter()
        try:
            await self.store.open()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.entries.closing()
        await self.entries.leave()

    async def close(self) -> None:
        """Flush what is on its way and close the connections of this event loop.

        While a node or another `async with app` uses them, the last of these does it.
        """
        self.entries.closing()
        await self.entries.close_unused()

    async def _close_here(self) -> None:
        await self._release_all()
        if self._client is not None:
            await self._client.close()
        await self._tell_the_last()
        if self._notifier is not None:
            await self._notifier.close()
        if self._store is not None:
            await self._store.close()

    def node_parts(self, config: Config, known_queues: Sequence[str] = ()) -> NodeParts:
        """Return what a node of this app is made from."""
        queues = served_queues(config.node, self.tasks, known_queues)
        config = replace(config, node=replace(config.node, queues=queues))
        self._pools.check_all(self.tasks, config)
        self._providers.check_all(self.tasks)
        host = socket.gethostname()
        identity = NodeIdentity(
            incarnation=self._runtime.new_id(),
            name=config.node.name or host,
            host=host,
            pid=os.getpid(),
            version=__version__,
            queues=config.node.slots() if "worker" in config.node.roles else {},
            capabilities=config.node.capabilities,
            roles=config.node.roles,
            info={**(describe_process() if self._on_real_machine else {}), **self.node_info},
        )
        store = self.store
        return NodeParts(
            runtime=self._runtime,
            bus=self.bus,
            store=store,
            notifier=self._notifier,
            registry=self.tasks,
            config=config,
            identity=identity,
            codecs=self.codecs,
            executors=self._pools.make(config),
            middleware=tuple(self._middleware),
            lifetime=self._providers.new_lifetime(),
            hooks=self._hooks,
            stack=stack_reader() if self._on_real_machine else None,
            load=meter() if self._on_real_machine else dict,
            is_gone=is_gone if self._on_real_machine else lambda _node: False,
            daemons=self._daemons,
            schedules=self._declared_schedules(),
            guards=self._make_guards(config),
            **self._protected_parts(self.tasks),
            resilience=self._make_resilience(),
            breakers=self._breakers_for(config, self.tasks),
            limits=self._all_limits(),
            unreached=unreached(self.tasks, identity.queues, identity.capabilities),
            fence=self._fence,
            audience=self._audience(),
        )
