"""A stage for tests of one thing at a time: an app in virtual time, where the test is the fate.

Calls to the store pass over a line on which the test decides what is lost or held up, and every
event is kept:

    stage = Stage()

    @stage.app.task
    async def greet(name: str) -> str: ...

    stage.line.lose("claim_jobs", reply=True)
    async with stage.node():
        job = await greet.enqueue("Ada")
        ...
    assert stage.told(ClaimsReconciled)
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from detent._engine.node import Node
from detent.app import App
from detent.config import Config
from detent.errors import StoreError, StoreUnavailable
from detent.stores.memory import MemoryNotifier
from detent.stores.memory.tables import Tables
from detent.testing.simulation.history import listen_to_all
from detent.testing.simulation.store import Call, WatchedStore
from detent.testing.virtual import VirtualRuntime

E = TypeVar("E")


@dataclass(slots=True)
class Trouble:
    """What happens to calls of one statement; nothing else is touched."""

    statement: str | None
    reply: bool
    error: StoreError | None
    times: int | None
    matching: Callable[[Call], bool]
    until: asyncio.Event | None = None


class ScriptedLine:
    """A line that does what the test says, and notes who passed."""

    def __init__(self) -> None:
        self.latency = 0.0
        """Seconds for every passage, there and back."""
        self.calls: list[Call] = []
        self._troubles: list[Trouble] = []

    def lose(
        self,
        statement: str | None = None,
        *,
        reply: bool = False,
        times: int | None = 1,
        error: StoreError | None = None,
        matching: Callable[[Call], bool] = lambda call: True,
    ) -> None:
        """Lose the next calls of a statement (or of all), or only their replies."""
        error = error or StoreUnavailable("the line is cut")
        self._troubles.append(Trouble(statement, reply, error, times, matching))

    def hold(self, statement: str, *, reply: bool = False, times: int = 1) -> asyncio.Event:
        """Keep the next calls of a statement on the way until the returned event is set."""
        until = asyncio.Event()
        self._troubles.append(Trouble(statement, reply, None, times, lambda call: True, until))
        return until

    def heal(self) -> None:
        """Let everything pass again."""
        self._troubles.clear()

    def count(self, statement: str) -> int:
        """Return how many calls of a statement were sent."""
        return sum(call.statement == statement for call in self.calls)

    async def carry(self, call: Call) -> None:
        """See `Line.carry`."""
        if not call.done:
            self.calls.append(call)
        if self.latency:
            await asyncio.sleep(self.latency)
        for trouble in self._troubles:
            if trouble.statement in (None, call.statement) and trouble.reply is call.done:
                if trouble.times == 0 or not trouble.matching(call):
                    continue
                if trouble.times is not None:
                    trouble.times -= 1
                if trouble.until is not None:
                    await trouble.until.wait()
                if trouble.error is not None:
                    raise trouble.error
                return


class Stage:
    """One app on one store, and all that was told."""

    def __init__(self, config: Config | None = None, *, wakeups: bool = True) -> None:
        self.runtime = VirtualRuntime("stage")
        self.line = ScriptedLine()
        self.store = WatchedStore(self.runtime.utcnow, self.line)
        self.notifier = MemoryNotifier() if wakeups else None
        self.config = config or Config()
        self.events: list[Any] = []
        self._apps = 0
        self.app = self.new_app()

    def new_app(self) -> App:
        """Return another app on the same store: another process."""
        self._apps += 1
        app = App(
            config=self.config,
            store=self.store,
            notifier=self.notifier,
            runtime=VirtualRuntime(f"app {self._apps}"),
        )
        listen_to_all(app.bus, self.events.append)
        return app

    @asynccontextmanager
    async def node(self, app: App | None = None, **settings: Any) -> AsyncIterator[Node]:
        """Run a node with these settings of `[node]`; it is drained at the end, if it is not."""
        app = app or self.app
        config = replace(app.config, node=replace(app.config.node, **settings))
        node = Node(app.node_parts(config))
        await node.start()
        try:
            yield node
        finally:
            await node.drain()

    @property
    def tables(self) -> Tables:
        """Everything that the store knows."""
        return self.store.tables

    @property
    def now(self) -> float:
        """The virtual second."""
        return self.runtime.monotonic()

    def told(self, kind: type[E]) -> list[E]:
        """Return all events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], object], limit: float = 60.0) -> float:
        """Wait until something is so, and return when it was seen, at most a tenth late.

        Raises `TimeoutError` when it never is.
        """
        step = 0.001
        async with asyncio.timeout(limit):
            while not condition():
                await asyncio.sleep(step)
                step = min(step * 1.1, 0.1)
        return self.now
