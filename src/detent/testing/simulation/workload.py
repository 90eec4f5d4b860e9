"""The jobs of a simulation: every kind of task there is, and how each may end."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from detent.app import App
from detent.context import JobContext
from detent.control_flow import Fail, RetryAfter, Snooze
from detent.model.retry import Retry
from detent.model.state import State
from detent.tasks import Task
from detent.testing.simulation.ledger import Ledger, stubborn_sleep

SUCCEEDED: Final = (State.SUCCEEDED,)
FAILED: Final = (State.FAILED,)
BIG: Final = "x" * 9_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job: what it is called with, its budget, and how it ends if left alone."""

    task: str
    weight: int
    ends: tuple[State, ...]
    attempts: int
    arguments: Callable[[random.Random], tuple[Any, ...]] = lambda chance: ()


KINDS: Final = (
    Kind("quick", 30, SUCCEEDED, 5, lambda chance: (chance.uniform(0, 0.5),)),
    Kind("slow", 12, SUCCEEDED, 5, lambda chance: (chance.uniform(3, 12),)),
    Kind("bulky", 6, SUCCEEDED, 1, lambda chance: (BIG,)),
    Kind("flaky", 12, SUCCEEDED, 4, lambda chance: (chance.randint(1, 3),)),
    Kind("asks_again", 4, SUCCEEDED, 3),
    Kind("sleepy", 6, SUCCEEDED, 1, lambda chance: (chance.randint(1, 2),)),
    Kind("talker", 8, SUCCEEDED, 5),
    Kind("payment", 10, (State.SUCCEEDED, State.FAILED), 8),
    Kind("stubborn", 4, SUCCEEDED, 5, lambda chance: (chance.uniform(15, 40),)),
    Kind("hopeless", 5, FAILED, 3),
    Kind("refused", 3, FAILED, 5),
    Kind("endless", 4, FAILED, 2),
    Kind("stranger", 2, (), 1),
)
BY_TASK: Final = {kind.task: kind for kind in KINDS}


def declare(app: App, ledger: Ledger) -> None:
    """Declare all tasks that nodes know."""
    _declare_well_behaved(app)
    _declare_failing(app)
    _declare_talking(app, ledger)


def declare_stranger(app: App) -> Task[..., Any]:
    """Declare the task that only the client knows: its jobs wait for a node that never comes."""

    async def stranger() -> None: ...

    task: Task[..., Any] = app.task(name="stranger")(stranger)
    return task


def _declare_well_behaved(app: App) -> None:
    @app.task(name="quick")
    async def quick(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @app.task(name="slow")
    async def slow(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @app.task(name="bulky", retry=Retry(max_attempts=1))
    async def bulky(text: str) -> int:
        return len(text)

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


def _declare_talking(app: App, ledger: Ledger) -> None:
    @app.task(name="sleepy", retry=Retry(max_attempts=1))
    async def sleepy(ctx: JobContext, times: int) -> int:
        runs = ledger.runs_of(ctx.job_id, ctx.generation)
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
    async def payment(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.on_commit(lambda: ledger.effect(ctx.job_id, ctx.generation))
            await asyncio.sleep(0.1)
            ctx.set_result("paid")
