"""If these fail, blocking tasks block the node, lose their context, or leak their slots.

Threads are real, and so is time: nothing here sleeps, everything waits for a signal.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from detent import App, JobCanceled, JobContext, JobFailed, Retry, State
from detent.config import Config, NodeConfig
from detent.events import JobTimedOut, StuckThread
from detent.stores.memory import MemoryNotifier, MemoryStore

ONCE = Retry(max_attempts=1)
QUICK = Config(
    node=NodeConfig(
        concurrency=1,
        signal_interval=timedelta(milliseconds=5),
        drain_timeout=timedelta(seconds=0),
    )
)


class Line:
    """A way to the store that can be held up; heartbeats, on a loop of their own, pass."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self) -> None:
        # An event belongs to one loop; the first to wait would take it from the others.
        if asyncio.get_running_loop() is self._loop:
            await self.open.wait()


@pytest.fixture
async def line() -> Line:
    return Line()


@pytest.fixture
async def app(line: Line) -> AsyncIterator[App]:
    app = App(config=QUICK, store=MemoryStore(latency=line), notifier=MemoryNotifier())
    yield app
    await app.close()


class Gate:
    """Something that a thread waits for, and that tells when it does."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(10), "nobody opened the gate"

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 10), "nobody came to the gate"


def heard(app: App, kind: type) -> asyncio.Event:
    """Return an event that is set when an event of this type was told."""
    told = asyncio.Event()
    app.on(kind, lambda event: told.set())
    return told


async def test_blocking_tasks_leave_the_loop_alone(app: App) -> None:
    gate = Gate()

    @app.task
    def block() -> str:
        gate.wait()
        return threading.current_thread().name

    async with app.node():
        job = await block.enqueue()
        await gate.until_reached()
        gate.opened.set()  # by the loop, which is free to do it
        assert (await job.result(timeout=10)).startswith("detent-job")


async def test_the_context_is_there_on_threads_too(app: App) -> None:
    def below() -> JobContext:
        return JobContext.current()

    def introspect(ctx: JobContext, number: int) -> list[Any]:
        ctx.progress(0.5)  # type: ignore[unused-awaitable]
        ctx.log.info("from a thread")
        return [str(below().job_id), ctx.attempt, number]

    task = app.task(introspect)
    async with app.node():
        job = await app.enqueue(task.bind(number=7))
        assert await job.result(timeout=10) == [str(job.id), 1, 7]
    assert [line.message for line in await app.jobs.log(job.id)] == ["from a thread"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, StopIteration, ValueError])
async def test_nothing_that_a_thread_raises_stops_the_node(
    app: App, error: type[BaseException]
) -> None:
    @app.task(retry=ONCE)
    def rude() -> None:
        raise error

    @app.task
    def polite() -> str:
        return "lives"

    async with app.node():
        with pytest.raises(JobFailed, match=error.__name__):
            await (await rude.enqueue()).result(timeout=10)
        assert await (await polite.enqueue()).result(timeout=10) == "lives"


async def test_a_stuck_thread_is_told_and_keeps_its_slot_until_it_ends(app: App) -> None:
    gate, stuck, timed_out = Gate(), heard(app, StuckThread), heard(app, JobTimedOut)

    @app.task(timeout=0.02, retry=ONCE)
    def block() -> str:
        gate.wait()
        return "too late"

    @app.task
    async def other() -> str:
        assert gate.opened.is_set(), "the only slot was taken"
        return "ran"

    async with app.node():
        job = await block.enqueue()
        with pytest.raises(JobFailed, match="longer than"):
            await job.result(timeout=10)
        assert stuck.is_set()
        assert timed_out.is_set()
        waiting = await other.enqueue()
        await gate.until_reached()
        assert (await app.jobs.get(waiting.id)).state is State.PENDING
        gate.opened.set()
        assert await waiting.result(timeout=10) == "ran"
    assert (await app.jobs.get(job.id)).state is State.FAILED, "its result was refused"


async def test_a_thread_that_ends_while_its_last_words_are_written_frees_its_slot(
    app: App, line: Line
) -> None:
    gate, stuck = Gate(), heard(app, StuckThread)
    ended = threading.Event()

    def block(ctx: JobContext) -> None:
        ctx.log.info("something to be written before the end")
        gate.wait()
        ended.set()

    @app.task
    async def other() -> str:
        return "ran"

    task = app.task(timeout=0.02, retry=ONCE)(block)
    async with app.node():
        job = await app.enqueue(task.bind())
        await gate.until_reached()
        line.open.clear()
        await asyncio.wait_for(stuck.wait(), 10)
        # Given up, and its log line is on its way to the store. Now the thread ends.
        gate.opened.set()
        await asyncio.to_thread(ended.wait, 10)
        await asyncio.to_thread(_idle)
        line.open.set()
        with pytest.raises(JobFailed):
            await job.result(timeout=10)
        assert await (await other.enqueue()).result(timeout=10) == "ran"


def _idle() -> None:
    """Take one turn through the loop and its threads: what was announced before has arrived."""


async def test_a_thread_hears_of_its_cancel_when_it_looks(app: App) -> None:
    gate, heard_it = Gate(), threading.Event()
    asked: list[bool] = []

    def loop(ctx: JobContext) -> None:
        gate.reached.set()
        while not gate.opened.wait(0.001):
            try:
                ctx.check_canceled()
            except JobCanceled:
                asked.append(ctx.cancel_requested)
                heard_it.set()
                raise

    task = app.task(loop)
    async with app.node():
        job = await app.enqueue(task.bind())
        await gate.until_reached()
        await job.cancel("enough")
        with pytest.raises(JobCanceled, match="enough"):
            await job.result(timeout=10)
        await asyncio.to_thread(heard_it.wait, 10)
        gate.opened.set()
    assert asked == [True]


async def test_jobs_that_wait_for_a_thread_are_simply_off_when_canceled() -> None:
    config = Config(
        node=NodeConfig(
            concurrency=5,
            threads=1,
            signal_interval=timedelta(milliseconds=5),
            drain_timeout=timedelta(0),
        )
    )
    app = App(config=config, store=MemoryStore(), notifier=MemoryNotifier())
    gate, stuck, ran = Gate(), heard(app, StuckThread), list[int]()

    @app.task
    def block(number: int) -> int:
        ran.append(number)
        gate.wait()
        return number

    @app.task
    async def free() -> None:
        """Need no thread: the node claims more than it has threads."""

    async with app.node():
        first = await block.enqueue(1)
        await gate.until_reached()
        second = await block.enqueue(2)
        while (await app.jobs.get(second.id)).state is not State.RUNNING:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await second.cancel()
        with pytest.raises(JobCanceled):
            await second.result(timeout=10)
        gate.opened.set()
        assert await first.result(timeout=10) == 1
    assert ran == [1]
    assert not stuck.is_set()
