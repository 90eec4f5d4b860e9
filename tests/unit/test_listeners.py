"""If these fail, the application hears of things that did not happen, or its slowness is ours."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detent import (
    App,
    BatchItem,
    ConfigError,
    DetentError,
    Fail,
    JobContext,
    Retry,
    Snooze,
    acting_as,
)
from detent._engine import execute
from detent.config import Config, EventsConfig
from detent.events import (
    ClaimWasLost,
    HookFailed,
    JobDied,
    JobEnqueued,
    JobRetrying,
    JobSnoozed,
    JobStarted,
    JobSucceeded,
    JobTimedOut,
    JobWasCanceled,
    ListenerOverflow,
    NodeStarted,
)
from detent.stores.memory.tables import PAUSED, Parked
from detent.testing.conformance.steps import crash_nodes
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SOON = Retry(max_attempts=2, delay=timedelta(seconds=1), backoff="fixed")


def small(buffer: int = 10_000, drain: float = 5.0) -> Config:
    return Config(events=EventsConfig(buffer=buffer, drain_timeout=timedelta(seconds=drain)))


@in_virtual_time
async def test_listeners_hear_of_a_life_in_its_order() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task(retry=SOON)
    async def work(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    @stage.app.listener(JobEnqueued, JobStarted, JobRetrying, JobSucceeded, JobDied)
    async def hear(event: Any) -> None:
        heard.append(event)

    async with stage.node():
        job = await work.enqueue()
        await job.result(timeout=30)
        await stage.until(lambda: len(heard) == 5)
    assert [type(event) for event in heard] == [
        JobEnqueued,
        JobStarted,
        JobRetrying,
        JobStarted,
        JobSucceeded,
    ]
    assert {event.job_id for event in heard} == {job.id}
    assert [event.attempt for event in heard[1:]] == [1, 1, 2, 2]


@in_virtual_time
async def test_nothing_is_told_before_it_is_committed() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def work() -> None: ...

    @stage.app.listener(JobSucceeded)
    async def hear(event: JobSucceeded) -> None:
        heard.append((event, stage.tables.outcome[event.job_id].state))

    async with stage.node():
        release = stage.line.hold("finish_jobs")
        job = await work.enqueue()
        await stage.until(lambda: stage.told(JobSucceeded))
        await asyncio.sleep(5)
        assert heard == [], "the engine knows, but it is not written"
        release.set()
        await stage.until(lambda: heard)
    assert [(event.job_id, state) for event, state in heard] == [(job.id, "succeeded")]


@in_virtual_time
async def test_a_refused_end_is_not_told() -> None:
    stage, heard = Stage(), list[Any]()
    going = asyncio.Event()

    @stage.app.task
    async def work() -> None:
        await going.wait()

    @stage.app.listener(JobSucceeded)
    async def hear(event: JobSucceeded) -> None:
        heard.append(event)

    async with stage.node():
        job = await work.enqueue()
        await stage.until(lambda: stage.tables.running)
        # Somebody took it away and paused it.
        claim = stage.tables.running.pop(job.id)
        stage.tables.parked[job.id] = Parked(claim.place, PAUSED)
        going.set()
        await stage.until(lambda: stage.told(ClaimWasLost))
        await asyncio.sleep(5)
    assert heard == []


@in_virtual_time
async def test_an_end_whose_reply_was_lost_is_told_once() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def work() -> None: ...

    @stage.app.listener(JobSucceeded)
    async def hear(event: JobSucceeded) -> None:
        heard.append(event.job_id)

    async with stage.node():
        stage.line.lose("finish_jobs", reply=True)
        job = await work.enqueue()
        await stage.until(lambda: heard)
        await asyncio.sleep(5)
    assert heard == [job.id]


@in_virtual_time
async def test_a_transaction_that_is_rolled_back_tells_nothing() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task(retry=SOON)
    async def work(ctx: JobContext) -> None:
        async with ctx.transaction():
            if ctx.attempt == 1:
                raise ValueError("undone")

    @stage.app.listener(JobSucceeded, JobRetrying)
    async def hear(event: Any) -> None:
        heard.append((type(event), event.attempt))

    async with stage.node():
        await (await work.enqueue()).result(timeout=30)
        await stage.until(lambda: len(heard) == 2)
    assert heard == [(JobRetrying, 1), (JobSucceeded, 2)]


@in_virtual_time
async def test_every_kind_of_end_is_told() -> None:
    stage, heard = Stage(), dict[str, list[type]]()

    @stage.app.task(timeout=1.0, retry=Retry(max_attempts=1))
    async def work(what: str) -> None:
        match what:
            case "fail":
                raise Fail("no")
            case "hang":
                await asyncio.sleep(60)
            case "snooze":
                raise Snooze(timedelta(hours=1))

    @stage.app.task
    async def wait() -> None:
        await asyncio.sleep(60)

    kinds = (JobDied, JobTimedOut, JobSnoozed, JobWasCanceled)

    @stage.app.listener(*kinds)
    async def hear(event: Any) -> None:
        heard.setdefault(names[event.job_id], []).append(type(event))

    names = {}
    async with stage.node():
        for what in ("fail", "hang", "snooze"):
            names[(await work.enqueue(what)).id] = what
        canceled = (await wait.enqueue()).id
        names[canceled] = "cancel"
        await stage.until(lambda: canceled in stage.tables.running)
        await stage.app.jobs.cancel(canceled, reason="no need")
        await stage.until(lambda: len(heard) == 4)
    assert heard == {
        "fail": [JobDied],
        "hang": [JobTimedOut, JobDied],
        "snooze": [JobSnoozed],
        "cancel": [JobWasCanceled],
    }


@in_virtual_time
async def test_a_job_that_its_node_died_with_is_told_by_another() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(3600)

    survivor = stage.new_app()

    @survivor.listener(JobDied)
    async def hear(event: JobDied) -> None:
        heard.append(event)

    job = await work.enqueue()
    await crash_nodes(stage.store, times=2)
    async with stage.node() as node:
        await stage.until(lambda: stage.tables.running)
        async with stage.node(survivor, queues={"other": 1}):
            await stage.store.declare_dead([node.identity.incarnation], "it burned")
            await stage.until(lambda: heard)
    assert [(event.job_id, event.attempt) for event in heard] == [(job.id, 1)]


@in_virtual_time
async def test_a_slow_listener_keeps_nobody_waiting_and_misses_the_oldest() -> None:
    stage = Stage(small(buffer=5, drain=60.0))
    slow, quick = list[Any](), list[Any]()
    going = asyncio.Event()

    @stage.app.task
    async def work(number: int) -> None: ...

    @stage.app.listener(JobSucceeded)
    async def crawl(event: JobSucceeded) -> None:
        await going.wait()
        slow.append(event.job_id)

    @stage.app.listener(JobSucceeded)
    async def run(event: JobSucceeded) -> None:
        quick.append(event.job_id)

    async with stage.node(concurrency=1):
        jobs = []
        for number in range(20):
            jobs.append(await work.enqueue(number))
            await jobs[-1].result(timeout=1)
        await stage.until(lambda: len(quick) == 20)
        assert slow == []
        going.set()
    ids = [job.id for job in jobs]
    assert quick == ids
    assert slow == [ids[0], *ids[-5:]], "the one it was busy with, and the newest"
    told = stage.told(ListenerOverflow)
    assert {event.listener.rpartition(".")[2] for event in told} == {"crawl"}
    assert sum(event.dropped for event in told) == 14


@in_virtual_time
async def test_a_listener_that_hangs_does_not_keep_a_node_from_leaving() -> None:
    stage = Stage(small(drain=2.0))

    @stage.app.task
    async def work() -> None: ...

    @stage.app.listener(JobSucceeded)
    async def hang(event: JobSucceeded) -> None:
        await asyncio.sleep(3600)

    async with stage.node():
        for _ in range(3):
            await (await work.enqueue()).result(timeout=1)
        before = stage.now
    assert stage.now - before < 4
    assert stage.told(ListenerOverflow) == [], "another node may still work"
    await stage.app.close()
    assert stage.now - before < 8
    assert sum(event.dropped for event in stage.told(ListenerOverflow)) == 2


@in_virtual_time
async def test_a_listener_that_will_not_end_does_not_keep_an_app_from_closing() -> None:
    stage = Stage(small(drain=2.0))

    @stage.app.task
    async def work() -> None: ...

    released = asyncio.Event()

    @stage.app.listener(JobSucceeded)
    async def stay(event: JobSucceeded) -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    async with stage.node():
        await (await work.enqueue()).result(timeout=1)
        before = stage.now
    await stage.app.close()
    assert stage.now - before < 8
    released.set()


@in_virtual_time
async def test_a_listener_acts_for_no_job_and_in_nobodys_name() -> None:
    """It is told of the jobs of many; the one that came first lends it nothing."""
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def follow() -> None: ...

    @stage.app.task
    async def work() -> None: ...

    @stage.app.listener(JobEnqueued, JobStarted, JobSucceeded)
    async def hear(event: Any) -> None:
        if event.task == work.name:
            with pytest.raises(DetentError, match="outside of a job"):
                JobContext.current()
            heard.append((await (await follow.enqueue()).info()).principal)

    async with stage.node():
        with acting_as("ada"):
            job = await work.enqueue()
        assert (await job.info()).principal == "ada"
        await stage.until(lambda: len(heard) == 3)
    assert heard == [None, None, None]


@in_virtual_time
async def test_a_blocking_listener_is_called_on_a_thread() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def work(number: int) -> None: ...

    @stage.app.listener(JobSucceeded)
    def hear(event: JobSucceeded) -> None:
        heard.append((event.job_id, threading.current_thread() is threading.main_thread()))

    async with stage.node():
        jobs = [await work.enqueue(number) for number in range(50)]
        for job in jobs:
            await job.result(timeout=5)
    assert sorted(heard) == [(job.id, False) for job in jobs]


def test_a_blocking_program_has_told_all_before_it_ends(tmp_path: Path) -> None:
    """Nobody closes an app that is used by `enqueue_sync` alone."""
    program = f"""
import time
from detent import App
from detent.events import JobEnqueued

app = App("sqlite:///{tmp_path / "jobs.db"}")

@app.task
async def work() -> None: ...

@app.listener(JobEnqueued)
def note(event: JobEnqueued) -> None:
    time.sleep(0.1)
    print("heard", flush=True)

for _ in range(3):
    work.enqueue_sync()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["heard"] * 3, done.stderr


@in_virtual_time
async def test_the_jobs_of_a_schedule_are_told_from_their_beginning() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.schedule(timedelta(seconds=10), name="tick")
    @stage.app.task(name="tick")
    async def tick() -> None: ...

    @stage.app.listener(JobEnqueued, JobStarted, JobSucceeded)
    async def note(event: Any) -> None:
        heard.append((type(event), event.job_id, event.task, event.queue))

    async with stage.node():
        await stage.until(lambda: len(heard) >= 3, 120)
        first = heard[0][1]
    assert heard[:3] == [
        (kind, first, "tick", "default") for kind in (JobEnqueued, JobStarted, JobSucceeded)
    ]


@in_virtual_time
async def test_a_listener_around_an_async_function_is_awaited() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def work() -> None: ...

    async def note(event: JobSucceeded, number: int) -> None:
        await asyncio.sleep(0.1)
        heard.append((event.job_id, number))
        if len(heard) == 1:
            raise ValueError("no")

    stage.app.listener(JobSucceeded)(lambda event: note(event, 7))
    async with stage.node():
        jobs = [await work.enqueue() for _ in range(3)]
        for job in jobs:
            await job.result(timeout=5)
    assert sorted(heard) == sorted((job.id, 7) for job in jobs)
    assert [event.error for event in stage.told(HookFailed)] == ["ValueError: no"]


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit("no"), asyncio.CancelledError("no")]
)
@pytest.mark.parametrize("blocking", [True, False])
def test_a_listener_that_raises_hears_the_next(blocking: bool, error: BaseException) -> None:
    @in_virtual_time
    async def test() -> None:
        stage, heard = Stage(), list[Any]()

        @stage.app.task
        async def work() -> None: ...

        def note(event: JobSucceeded) -> None:
            heard.append(event)
            raise error

        async def note_async(event: JobSucceeded) -> None:
            note(event)

        stage.app.listener(JobSucceeded)(note if blocking else note_async)
        async with stage.node():
            for _ in range(3):
                await (await work.enqueue()).result(timeout=5)
        assert len(heard) == 3
        assert [event.error for event in stage.told(HookFailed)] == [
            f"{type(error).__name__}: no"
        ] * 3

    test()


@in_virtual_time
async def test_without_a_listener_no_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, made = Stage(), list[type]()
    # The stage itself hears everything at once; here nobody does.
    stage.app.bus._listeners.clear()
    for kind in (JobStarted, JobSucceeded):
        monkeypatch.setattr(execute, kind.__name__, lambda *_, kind=kind: made.append(kind))

    @stage.app.task
    async def work() -> None: ...

    async with stage.node():
        await (await work.enqueue()).result(timeout=5)
    assert made == []


@in_virtual_time
async def test_a_closed_app_has_told_of_what_it_enqueued() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task(queue="mail")
    async def work(number: int) -> None: ...

    @stage.app.listener(JobEnqueued)
    async def hear(event: JobEnqueued) -> None:
        await asyncio.sleep(0.1)
        heard.append(event)

    jobs = await stage.app.enqueue_many([work.bind(number) for number in range(3)])
    await stage.app.close()
    assert [event.job_id for event in heard] == [job.id for job in jobs]
    assert {(event.queue, event.priority) for event in heard} == {("mail", 2)}


@in_virtual_time
async def test_a_job_in_somebodys_transaction_is_not_told_of() -> None:
    stage, heard = Stage(), list[Any]()

    @stage.app.task
    async def work() -> None: ...

    @stage.app.listener(JobEnqueued)
    async def hear(event: JobEnqueued) -> None:
        heard.append(event)

    async with stage.store.begin() as connection:
        await work.options(within=connection).enqueue()
    await stage.app.close()
    assert heard == [], "nobody tells us of his commit"


async def yielding(event: JobDied) -> AsyncIterator[None]:
    """Would do nothing at all when it is called."""
    yield


def test_only_what_happens_to_jobs_can_be_listened_to() -> None:
    app = App("memory://")
    with pytest.raises(ConfigError, match=r"listener\(NodeStarted\): must be one of JobEnqueued"):
        app.listener(NodeStarted)
    with pytest.raises(ConfigError, match="must name at least one event"):
        app.listener()
    with pytest.raises(ConfigError, match=r"'mail': must be def note\(event\)"):
        app.listener(JobDied)("mail")  # type: ignore[type-var]
    with pytest.raises(ConfigError, match=r"<lambda>.*: must be def note\(event\)"):
        app.listener(JobDied)(lambda: None)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match=r"yielding.*: must be def note\(event\)"):
        app.listener(JobDied)(yielding)


async def asynchronous(_event: object) -> None: ...


@pytest.mark.parametrize(
    "event, function, problem",
    [
        ("JobDied", print, r"app.on\('JobDied', ...\): must be an event of detent.events"),
        (int, print, r"app.on\(int, ...\): must be an event of detent.events"),
        (JobDied, 5, r"5: must be def note\(event\)"),
        (JobDied, lambda: None, r"must be def note\(event\)"),
        (JobDied, asynchronous, r"must be def note\(event\), not async; see @app.listener"),
    ],
)
def test_what_could_never_be_called_is_refused(event: Any, function: Any, problem: str) -> None:
    app = App("memory://")
    with pytest.raises(ConfigError, match=problem):
        app.on(event, function)
    app.on(NodeStarted, print)


@in_virtual_time
async def test_a_node_that_leaves_takes_no_events_from_another() -> None:
    stage, heard = Stage(small(drain=1.0)), list[Any]()

    @stage.app.task
    async def work() -> None: ...

    @stage.app.listener(JobSucceeded)
    async def crawl(event: JobSucceeded) -> None:
        await asyncio.sleep(2)
        heard.append(event.job_id)

    async with stage.node(name="stays"):
        async with stage.node(name="leaves"):
            jobs = [await work.enqueue() for _ in range(5)]
            for job in jobs:
                await job.result(timeout=5)
        await stage.until(lambda: len(heard) == 5)
    assert sorted(heard) == sorted(job.id for job in jobs)
    assert stage.told(ListenerOverflow) == []


@in_virtual_time
async def test_the_jobs_of_a_batch_are_told_one_by_one() -> None:
    stage, heard, delivered = Stage(), list[Any](), list[Any]()

    @stage.app.task(batch=10)
    async def work(items: list[BatchItem[int]]) -> None: ...

    @stage.app.listener(JobStarted, JobSucceeded)
    async def hear(event: Any) -> None:
        heard.append((event.job_id, type(event)))

    stage.app.sink("billing", delivered.append)
    async with stage.node():
        jobs = [await work.enqueue(number) for number in range(3)]
        for job in jobs:
            await job.result(timeout=5)
        await stage.until(lambda: len(delivered) == 3)
    for job in jobs:
        assert [kind for job_id, kind in heard if job_id == job.id] == [JobStarted, JobSucceeded]
    assert sorted(event.job for event in delivered) == [job.id for job in jobs]
