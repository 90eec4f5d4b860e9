"""If these fail, a coroutine that swallows its cancel has no timeout, and keeps a node for ever."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent import App, BatchItem, JobCanceled, JobFailed, Retry, State
from detent.events import JobTimedOut, NodeReplaced, StuckCoroutine

NewApp = Callable[[], App]
PATIENCE = 30.0
ONCE = Retry(max_attempts=1)


def configured(app: App, **node: Any) -> App:
    """Let an app's nodes wait only shortly for what does not end."""
    settings = replace(app.config.node, cancel_grace=timedelta(seconds=0.1), **node)
    app.config = replace(app.config, node=settings)
    return app


class Deaf:
    """A coroutine that goes on when it is canceled, until the test lets it end."""

    def __init__(self) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> str:
        self.begun.set()
        while not self.goes_on.is_set():
            try:
                await self.goes_on.wait()
            except asyncio.CancelledError:
                continue
        self.ended.set()
        return "too late"


async def test_a_coroutine_that_swallows_its_cancel_times_out_and_is_told_of(
    new_app: NewApp,
) -> None:
    app, deaf = configured(new_app(), concurrency=1), Deaf()
    stuck: list[StuckCoroutine] = []
    timed_out: list[JobTimedOut] = []
    app.bus.subscribe(StuckCoroutine, stuck.append)
    app.bus.subscribe(JobTimedOut, timed_out.append)

    @app.task(name="deaf", timeout=0.1, retry=ONCE)
    async def task() -> str:
        return await deaf()

    @app.task(name="next")
    async def other() -> bool:
        return deaf.ended.is_set()

    async with asyncio.timeout(PATIENCE), app, app.node():
        job = await task.enqueue()
        with pytest.raises(JobFailed, match="took longer than"):
            await job.result()
        assert [event.job_id for event in stuck] == [job.id]
        assert [event.job_id for event in timed_out] == [job.id]
        # It keeps its slot until it ends, and what it returns then is refused.
        later = await other.enqueue()
        deaf.goes_on.set()
        assert await later.result()
        info = await app.jobs.get(job.id)
        assert info.state is State.FAILED


async def test_one_that_is_canceled_ends_as_canceled(new_app: NewApp) -> None:
    app, deaf = configured(new_app()), Deaf()

    @app.task(name="deaf")
    async def task() -> str:
        return await deaf()

    async with asyncio.timeout(PATIENCE), app, app.node():
        job = await task.enqueue()
        await deaf.begun.wait()
        await job.cancel(reason="enough")
        with pytest.raises(JobCanceled, match="enough"):
            await job.result()
        deaf.goes_on.set()
        await deaf.ended.wait()


async def test_one_that_cleans_up_in_time_is_not_told_of(new_app: NewApp) -> None:
    app = new_app()
    stuck: list[StuckCoroutine] = []
    app.bus.subscribe(StuckCoroutine, stuck.append)

    @app.task(name="tidy", timeout=0.1, retry=ONCE)
    async def task() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)

    async with asyncio.timeout(PATIENCE), app, app.node():
        with pytest.raises(JobFailed, match="took longer than"):
            await (await task.enqueue()).result()
        assert not stuck


async def test_a_batch_that_swallows_its_cancel_times_out(new_app: NewApp) -> None:
    app, deaf = configured(new_app()), Deaf()
    stuck: list[StuckCoroutine] = []
    app.bus.subscribe(StuckCoroutine, stuck.append)

    @app.task(name="deaf", timeout=0.1, retry=ONCE, batch=2, linger=5)
    async def task(items: list[BatchItem[int]]) -> None:
        await deaf()

    async with asyncio.timeout(PATIENCE), app, app.node():
        jobs = await app.enqueue_many([task.bind(1), task.bind(2)])
        for job in jobs:
            with pytest.raises(JobFailed, match="took longer than"):
                await job.result()
        assert len(stuck) == 1
        deaf.goes_on.set()
        await deaf.ended.wait()


async def test_a_node_of_which_more_than_half_is_stuck_lets_itself_be_replaced(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent._engine.stuck.ENDURED", 0.1)
    app, calls = configured(new_app(), concurrency=3), [Deaf() for _ in range(2)]
    told: list[NodeReplaced] = []
    app.bus.subscribe(NodeReplaced, told.append)

    @app.task(name="deaf", timeout=0.1, retry=ONCE)
    async def task(number: int) -> str:
        return await calls[number]()

    async with asyncio.timeout(PATIENCE), app:
        node = app.node()
        await node.start()
        await task.enqueue(0)
        await calls[0].begun.wait()
        await task.enqueue(1)
        await node.wait_stopped()
        assert [(event.executor, event.stuck, event.capacity) for event in told] == [
            ("async", 2, 3)
        ]
        assert not node.was_sent_away
        for each in calls:
            each.goes_on.set()
            await each.ended.wait()
