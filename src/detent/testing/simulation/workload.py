"""The jobs of a simulation: every kind of task there is, and how each may end."""

import asyncio
import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from detent.app import App
from detent.config import Config
from detent.context import JobContext
from detent.control_flow import Fail, RetryAfter, Snooze
from detent.daemons import DaemonContext
from detent.errors import StoreUnavailable, TermLost
from detent.model.retry import Retry
from detent.model.state import State
from detent.stores.memory import MemoryStore
from detent.tasks import Task
from detent.testing.simulation.ledger import Ledger, ledger_here, stubborn_sleep
from detent.testing.simulation.plan import LANES, OUTAGE, TAIL, WORKERS
from detent.testing.simulation.process import who
from detent.testing.simulation.service import ATTEMPTS, FRAGILE
from detent.testing.simulation.workers import ATTEMPTS as POOLED_ATTEMPTS
from detent.testing.simulation.workers import POOLED

SUCCEEDED: Final = (State.SUCCEEDED,)
FAILED: Final = (State.FAILED,)
# Each trouble with the store counts as a try of a payment.
PAID: Final = (State.SUCCEEDED, State.FAILED)
# How long a lock is held by somebody who does not renew it, in seconds.
LOCKED: Final = 3.0
NEEDY: Final = "needy"
"""The task that needs a capability."""
CAPABILITY: Final = "gpu"
BIG: Final = "x" * 9_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job: what it is called with, its budget, and how it ends if left alone."""

    task: str
    weight: int
    ends: tuple[State, ...]
    attempts: int
    arguments: Callable[[random.Random], tuple[Any, ...]] = lambda chance: ()
    in_leases: bool = False
    """Whether its argument is in leases, and not in seconds."""
    fault: str | None = None
    """The fault that it is; without it there are no such jobs."""


KINDS: Final = (
    Kind("quick", 30, SUCCEEDED, 5, lambda chance: (chance.uniform(0, 0.5),)),
    Kind("slow", 12, SUCCEEDED, 5, lambda chance: (chance.uniform(3, 12),)),
    Kind("bulky", 6, SUCCEEDED, 1, lambda chance: (BIG,)),
    Kind("flaky", 12, SUCCEEDED, 4, lambda chance: (chance.randint(1, 3),)),
    Kind("asks_again", 4, SUCCEEDED, 3),
    Kind("sleepy", 6, SUCCEEDED, 1, lambda chance: (chance.randint(1, 2),)),
    Kind("talker", 8, SUCCEEDED, 5),
    Kind("payment", 10, PAID, 8, lambda chance: (chance.choice((0.1, 4.0)) * chance.random(),)),
    Kind(
        "guarded", 8, PAID, 8, lambda chance: (f"lock {chance.randrange(3)}", chance.uniform(0, 4))
    ),
    Kind("serial", 8, SUCCEEDED, 5, lambda chance: (chance.choice("abc"), chance.uniform(0, 3))),
    Kind("crowded", 6, SUCCEEDED, 5, lambda chance: (chance.uniform(0, 2),)),
    Kind("stubborn", 4, SUCCEEDED, 5, lambda chance: (chance.uniform(8, 25),)),
    Kind("hopeless", 5, FAILED, 3),
    Kind("refused", 3, FAILED, 5),
    Kind("endless", 4, FAILED, 2),
    Kind("stranger", 2, (), 1),
    Kind(FRAGILE, 60, SUCCEEDED, ATTEMPTS, lambda chance: (chance.uniform(0, 1.5),), fault=OUTAGE),
    Kind(
        POOLED,
        60,
        SUCCEEDED,
        POOLED_ATTEMPTS,
        lambda chance: (chance.uniform(1, 9),),
        fault=WORKERS,
    ),
    Kind(NEEDY, 40, SUCCEEDED, 5, lambda chance: (chance.uniform(0, 2),), fault=LANES),
    Kind("poison", 4, FAILED, 5, lambda chance: (chance.uniform(0, 2),), fault="poison"),
    Kind("lasting", 16, SUCCEEDED, 5, lambda chance: (chance.uniform(15, 45),), fault=TAIL),
    Kind("blocker", 4, SUCCEEDED, 5, lambda chance: (chance.uniform(0.5, 3.3),), True, "block"),
)
BY_TASK: Final = {kind.task: kind for kind in KINDS}


def declare(app: App) -> None:
    """Declare all tasks that nodes know."""
    for task in _tasks():
        app.tasks.add(task)


def declare_stranger(app: App) -> None:
    """Declare the task that only the client knows: its jobs wait for a node that never comes."""

    async def stranger() -> None: ...

    app.task(name="stranger")(stranger)


def declare_daemon(app: App, ledger: Ledger) -> None:
    """Declare the daemon that writes something every second, under its term."""

    @app.daemon(name="beacon")
    async def beacon(ctx: DaemonContext) -> None:
        store: Any = app.store
        with ledger.reign(ctx.term) as commit:
            while not ctx.should_stop:
                try:
                    async with store.begin() as connection:
                        await ctx.fenced(connection)
                        connection.on_commit(commit)
                except StoreUnavailable:
                    await asyncio.sleep(0.3)
                except TermLost:
                    return
                await asyncio.sleep(0.7)


@functools.cache
def _tasks() -> Sequence[Task[..., Any]]:
    """Return the tasks, made once: every process of every run has the same."""
    app = App(config=Config(), store=MemoryStore())
    _declare_well_behaved(app)
    _declare_failing(app)
    _declare_talking(app)
    _declare_harmful(app)
    return tuple(app.tasks)


def _declare_well_behaved(app: App) -> None:
    @app.task(name="quick")
    async def quick(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @app.task(name="slow")
    async def slow(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @app.task(name="lasting")
    async def lasting(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @app.task(name=NEEDY, needs=CAPABILITY)
    async def needy(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @app.task(name="bulky", retry=Retry(max_attempts=1))
    async def bulky(text: str) -> int:
        return len(text)

    @app.task(name="serial", concurrency=1, concurrency_key=lambda key: key)
    async def serial(ctx: JobContext, key: str, seconds: float) -> None:
        if ctx.attempt == 1 and seconds > 1.5:
            raise RetryAfter(timedelta(seconds=seconds))
        await asyncio.sleep(seconds)

    @app.task(name="crowded", concurrency=3)
    async def crowded(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @app.task(name="stubborn")
    async def stubborn(seconds: float) -> None:
        await stubborn_sleep(seconds)


def _declare_failing(app: App) -> None:
    @app.task(name="flaky", retry=Retry(max_attempts=4, delay=timedelta(seconds=1)))
    async def flaky(ctx: JobContext, failures: int) -> int:
        await asyncio.sleep(0.05)
        if ctx.attempt <= failures:
            raise OSError("not yet")
        return ctx.attempt

    @app.task(name="asks_again", retry=Retry(max_attempts=3))
    async def asks_again(ctx: JobContext) -> None:
        if ctx.attempt < 3:
            raise RetryAfter(timedelta(seconds=0.7))

    @app.task(name="hopeless", retry=Retry(3, timedelta(seconds=0.3), "fixed"))
    async def hopeless() -> None:
        raise ValueError("never")

    @app.task(name="refused")
    async def refused() -> None:
        raise Fail("of no use")

    @app.task(name="endless", timeout=1.5, retry=Retry(2, timedelta(seconds=0.3)))
    async def endless() -> None:
        await asyncio.sleep(36_000)


def _declare_talking(app: App) -> None:
    @app.task(name="sleepy", retry=Retry(max_attempts=1))
    async def sleepy(ctx: JobContext, times: int) -> int:
        runs = ledger_here().runs_of(ctx.job_id, ctx.generation)
        if runs <= times:
            raise Snooze(timedelta(seconds=0.8))
        return runs

    @app.task(name="talker")
    async def talker(ctx: JobContext) -> str:
        try:
            for step in range(4):
                ctx.log.info("one step more")
                await ctx.progress(step / 4)
                await asyncio.sleep(0.6)
        finally:
            ctx.log.info("last words")
        return "done"

    @app.task(name="payment", retry=Retry(max_attempts=8, delay=timedelta(seconds=0.5)))
    async def payment(ctx: JobContext, seconds: float) -> None:
        async with ctx.transaction() as connection:
            ledger = ledger_here()
            connection.on_commit(lambda: ledger.effect(ctx.job_id, ctx.generation))
            await asyncio.sleep(seconds)
            ctx.set_result("paid")

    @app.task(name="guarded", retry=Retry(max_attempts=8, delay=timedelta(seconds=0.5)))
    async def guarded(name: str, seconds: float) -> None:
        async with who().app.lock(name, ttl=LOCKED, wait=20) as lock:
            with ledger_here().held(lock):
                await asyncio.sleep(seconds)


def _declare_harmful(app: App) -> None:
    @app.task(name="poison")
    async def poison(ctx: JobContext, seconds: float) -> None:
        await asyncio.sleep(seconds)
        ledger_here().culprits[ctx.node_id] = (ctx.job_id, ctx.generation)
        who().kill()
        await asyncio.get_running_loop().create_future()

    @app.task(name="blocker")
    async def blocker(seconds: float) -> None:
        await who().block(seconds)
