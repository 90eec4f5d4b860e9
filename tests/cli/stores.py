"""Real stores for the tests of the command, and a program of their own that fills and looks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

from detent import App, Fail, JobInfo, State

T = TypeVar("T")

MODULE = """
import asyncio
from detent import App, Fail, JobContext
from dataclasses import dataclass

app = App()

@dataclass
class Order:
    number: int

@app.task(name="hello")
async def hello(ctx: JobContext, name: str, times: int = 1) -> str:
    return f"Hello, {name}!" * times

@app.task(name="ship", queue="mail")
async def ship(order: Order) -> Order:
    return order

@app.task(name="fail")
async def fail(why: str) -> None:
    raise Fail(why)
"""


class Program:
    """Another program on the same store: it enqueues, runs and looks."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, work: Callable[[App], Awaitable[T]]) -> T:
        """Do something with an app of its own."""

        async def whole() -> T:
            async with App(self.url) as app:
                return await work(app)

        return asyncio.run(whole())

    def enqueue(self, task: str = "hello", count: int = 1, **options: Any) -> list[UUID]:
        """Enqueue some jobs of a task that nobody here runs."""

        async def enqueue(app: App) -> list[UUID]:
            async def nothing(number: int) -> None: ...

            declared = app.task(name=task)(nothing).options(**options)
            return [(await declared.enqueue(number)).id for number in range(count)]

        return self.call(enqueue)

    def enqueue_many(self, task: str, count: int) -> None:
        """Enqueue a whole lot at once."""

        async def enqueue(app: App) -> None:
            async def nothing(number: int) -> None: ...

            declared = app.task(name=task)(nothing)
            await app.enqueue_many([declared.bind(number) for number in range(count)])

        self.call(enqueue)

    def fail(self, task: str = "hello", count: int = 1) -> list[UUID]:
        """Enqueue some jobs, and have them fail."""
        ids = self.enqueue(task, count)
        self.run_all(ids, task)
        return ids

    def run_all(self, ids: list[UUID], task: str = "hello") -> None:
        """Run jobs to their bitter end."""

        async def run(app: App) -> None:
            @app.task(name=task)
            async def broken(number: int) -> None:
                raise Fail("no")

            async with app.node():
                for job_id in ids:
                    await asyncio.gather(app.jobs.result(job_id, 30), return_exceptions=True)

        self.call(run)

    def job(self, job_id: UUID) -> JobInfo:
        return self.call(lambda app: app.jobs.get(job_id))

    def states(self, ids: list[UUID]) -> list[State]:
        async def states(app: App) -> list[State]:
            return [job.state for job in await app.store.get_jobs(ids)]

        return self.call(states)
