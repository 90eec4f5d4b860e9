"""If these fail, a call that goes on after its timeout exceeds the limit of its job."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent import App, BatchItem, JobFailed, Retry
from detent.handle import Job

NewApp = Callable[[], App]
PATIENCE = 60.0
ONCE = Retry(max_attempts=1)


class Smtp:
    """Says how many calls are under way, and lets the first of them hang."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.goes_on = threading.Event()
        self._lock = threading.Lock()

    def send(self, number: int) -> int:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        if number == 0:
            assert self.goes_on.wait(PATIENCE)
        with self._lock:
            self.running -= 1
        return number


def configured(app: App) -> App:
    settings = replace(app.config.node, cancel_grace=timedelta(seconds=0.1))
    app.config = replace(app.config, node=settings)
    return app


async def failed(job: Job[Any]) -> None:
    with pytest.raises(JobFailed, match="took longer than"):
        await job.result()


async def others_pass(app: App, task: Any) -> None:
    """Let so many jobs pass that what could have begun meanwhile has."""
    for number in range(10):
        await (await task.enqueue(number)).result()


@pytest.mark.parametrize(
    "where, limited",
    [
        ("thread", "resource"),
        ("thread", "task"),
        ("thread", "key"),
        ("thread", "queue"),
        ("async", "resource"),
        ("batch", "resource"),
    ],
)
async def test_a_permit_stays_with_a_call_that_goes_on(
    new_app: NewApp, where: str, limited: str
) -> None:
    app, smtp = configured(new_app()), Smtp()
    limits: dict[str, dict[str, Any]] = {
        "resource": {"resource": "smtp"},
        "task": {"concurrency": 1},
        "key": {"concurrency": 1, "concurrency_key": lambda **_: "all"},
        "queue": {},
    }
    app.limit("smtp", concurrency=1)
    options = {"name": "send", "timeout": 0.2, "retry": ONCE, "queue": "mail", **limits[limited]}

    def send(number: int) -> int:
        return smtp.send(number)

    async def send_async(number: int) -> int:
        """Hang as a coroutine does that swallows its cancel."""
        thread = asyncio.ensure_future(asyncio.to_thread(smtp.send, number))
        while not thread.done():
            try:
                await asyncio.wait([thread])
            except asyncio.CancelledError:
                continue
        return thread.result()

    def send_many(items: list[BatchItem[int]]) -> list[int]:
        return [smtp.send(item.value) for item in items]

    made: dict[str, Any] = {"thread": send, "async": send_async, "batch": send_many}
    if where == "batch":
        options |= {"batch": 1}
    task: Any = app.task(**options)(made[where])

    @app.task(name="other")
    async def other(number: int) -> int:
        return number

    async with asyncio.timeout(PATIENCE), app:
        if limited == "queue":
            await app.limits.set("queue:mail", concurrency=1)
        async with app.node(queues={"mail": 5, "default": 5}):
            try:
                await failed(await task.enqueue(0))
                second = await task.enqueue(1)
                await others_pass(app, other)
                assert smtp.running == 1
            finally:
                smtp.goes_on.set()
            assert await second.result() == 1
    assert smtp.most == 1


async def test_what_is_left_of_a_limit_is_used(new_app: NewApp) -> None:
    app, smtp = configured(new_app()), Smtp()
    app.limit("smtp", concurrency=2)

    @app.task(name="send", resource="smtp", timeout=0.2, retry=ONCE)
    def send(number: int) -> int:
        return smtp.send(number)

    async with asyncio.timeout(PATIENCE), app, app.node():
        try:
            await failed(await send.enqueue(0))
            jobs = await app.enqueue_many([send.bind(number) for number in range(1, 21)])
            assert [await job.result() for job in jobs] == list(range(1, 21))
        finally:
            smtp.goes_on.set()
    assert smtp.most == 2
