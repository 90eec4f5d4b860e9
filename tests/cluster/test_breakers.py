"""If these fail, each node has a breaker of its own, and together they call what is down too often.

Two nodes in one process, each with its own app and connections, on one PostgreSQL or one file.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from detent import App, Breaker, Retry
from detent._engine.breaker import BreakerKeeper
from detent._engine.circuits import NEVER
from detent.breakers import BreakerInfo
from detent.events import BreakerClosed, BreakerHalfOpen, BreakerOpened
from detent.model.circuit import Phase
from detent.running import RunningNode

SERVICE = Breaker(window=50, minimum=6, wait=timedelta(seconds=3), trials=3)
PATIENT = Retry(max_attempts=100, delay=timedelta(seconds=0.2), backoff="fixed")
PATIENCE = 60


@dataclass
class Pair:
    """Two nodes, and what they called."""

    apps: list[App]
    nodes: list[RunningNode]
    down: bool = True
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[str] = field(default_factory=list)
    told: list[object] = field(default_factory=list)

    async def call(self, name: str) -> None:
        self.calls.append(name)
        if self.down:
            raise ConnectionError("no answer")
        await self.gate.wait()

    async def enqueue(self, queue: str, count: int) -> None:
        task = self.apps[0].tasks.get("work").options(queue=queue)
        await self.apps[0].enqueue_many([task.bind() for _ in range(count)])

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110  what is waited for has no signal
                await asyncio.sleep(0.01)

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.told)

    async def until_heard(self) -> None:
        """Wait until both nodes know, or were told to ask, that it is no longer closed."""
        keepers = [keeper_of(node) for node in self.nodes]

        def heard(keeper: BreakerKeeper) -> bool:
            known = keeper._known["service"]
            return known.circuit.phase is not Phase.CLOSED or known.asked_at == NEVER

        await self.until(lambda: all(heard(keeper) for keeper in keepers))

    async def breaker(self) -> BreakerInfo:
        return await self.apps[0].breakers.get("service")


def keeper_of(node: RunningNode) -> BreakerKeeper:
    assert node._node is not None
    keeper = node._node._crew.breakers
    assert keeper is not None
    return keeper


@asynccontextmanager
async def pair(url: str) -> AsyncIterator[Pair]:
    """Run node `a` for queue `a` and node `b` for queue `b`."""
    both = Pair([App(url), App(url)], [])
    for name, app in zip("ab", both.apps, strict=True):
        app.breaker("service", SERVICE)
        for kind in (BreakerOpened, BreakerHalfOpen, BreakerClosed):
            app.on(kind, both.told.append)

        @app.task(name="work", breaker="service", retry=PATIENT)
        async def work(name: str = name) -> None:
            await both.call(name)

    first, second = both.apps
    a, b = first.node(queues={"a": 20}), second.node(queues={"b": 20})
    async with first, second, a, b:
        both.nodes += [a, b]
        yield both


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of this test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def test_failures_on_one_node_stop_the_calls_of_the_other(url: str) -> None:
    async with pair(url) as both:
        # The other one is at work and knows the breaker as closed.
        both.down = False
        both.gate.set()
        await both.enqueue("b", 1)
        await both.until(lambda: both.calls == ["b"])
        both.down = True
        await both.apps[0].breakers.reset("service")
        both.calls.clear()
        both.told.clear()
        await both.enqueue("a", 6)
        await both.until(lambda: both.count(BreakerOpened))
        assert both.calls == ["a"] * 6
        await both.until_heard()
        await both.enqueue("b", 20)
        await both.until(lambda: both.count(BreakerHalfOpen))
        trials = both.calls[6:]
        assert 1 <= len(trials) <= SERVICE.trials, "before the trials nobody called"
        both.down = False
        await both.until(lambda: both.count(BreakerClosed))
        await both.until(lambda: both.calls.count("b") >= 20)


async def test_exactly_so_many_trials_pass_in_half_open(url: str) -> None:
    async with pair(url) as both:
        await both.enqueue("a", 3)
        await both.enqueue("b", 3)
        await both.until(lambda: both.count(BreakerOpened))
        assert (len(both.calls), both.count(BreakerOpened)) == (6, 1)
        # The other node hears of it, at the latest when it asks again: until then it may call.
        await both.until_heard()
        await asyncio.sleep(0.1)  # what was let pass before has called by now
        called = len(both.calls)
        both.down = False
        for queue in "ab":
            await both.enqueue(queue, 60)
        await both.until(lambda: both.count(BreakerHalfOpen))
        await both.until(lambda: len(both.calls) >= called + SERVICE.trials)
        # Both nodes go on to ask for all their jobs; nobody else may call.
        await asyncio.sleep(2.0)
        assert len(both.calls) == called + SERVICE.trials
        info = await both.breaker()
        assert (info.phase, info.trials_running) == (Phase.HALF_OPEN, SERVICE.trials)
        both.gate.set()
        await both.until(lambda: both.count(BreakerClosed))
        await both.until(lambda: len(both.calls) >= called + 126)
        kinds = [type(event) for event in both.told]
        assert kinds == [BreakerOpened, BreakerHalfOpen, BreakerClosed], "each told once"
