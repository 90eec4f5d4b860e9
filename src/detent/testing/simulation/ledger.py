"""What the tasks themselves saw: which attempts really ran, when, where, and what came of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from detent.context import JobContext
from detent.testing.simulation.store import who


@dataclass(slots=True)
class Run:
    """One run of a task's function."""

    job: UUID
    generation: int
    attempt: int
    fence: int
    node: UUID
    queue: str
    who: str
    returned: bool = False


class Ledger:
    """All runs, kept by a middleware on every node."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.going: list[Run] = []
        self.effects: dict[tuple[UUID, int], int] = {}
        """(job, generation) to how often its effect was committed."""
        self.on_run: Callable[[Run], None] = lambda run: None

    async def watch(self, ctx: JobContext, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Keep record of a run: the middleware."""
        run = Run(
            ctx.job_id, ctx.generation, ctx.attempt, ctx.fence, ctx.node_id, ctx.queue, who.get()
        )
        self.on_run(run)
        self.runs.append(run)
        self.going.append(run)
        try:
            value = await proceed()
            run.returned = True
            return value
        finally:
            self.going.remove(run)

    def runs_of(self, job_id: UUID, generation: int) -> int:
        """Return how often a job has been run in one of its lives."""
        return sum(run.job == job_id and run.generation == generation for run in self.runs)

    def effect(self, job_id: UUID, generation: int) -> None:
        """Take note of something that must happen exactly once."""
        key = (job_id, generation)
        self.effects[key] = self.effects.get(key, 0) + 1


async def stubborn_sleep(seconds: float) -> None:
    """Sleep to the end, whoever says to stop: the worst of tasks."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    while (left := ends_at - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
