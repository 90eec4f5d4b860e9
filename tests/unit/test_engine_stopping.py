"""If these fail, time limits and cancels are words: work goes on, or ends without a trace."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from detent import (
    ConfigError,
    Conflict,
    JobCanceled,
    JobContext,
    JobFailed,
    JobTimeout,
    Retry,
    State,
)
from detent.errors import CancelTooLate
from detent.events import JobTimedOut, JobWasCanceled
from detent.testing.simulation.ledger import stubborn_sleep
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time

ONCE = Retry(max_attempts=1)


# Timeouts


@in_virtual_time
async def test_a_task_is_stopped_when_its_time_is_up() -> None:
    stage, ended = Stage(), list[float]()

    @stage.app.task(timeout=3, retry=Retry(max_attempts=2, delay=timedelta(seconds=1)))
    async def endless() -> None:
        began = stage.now
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(stage.now - began)

    async with stage.node():
        job = await endless.enqueue()
        with pytest.raises(JobFailed, match="longer than 3"):
            await job.result(timeout=60)
    assert ended == pytest.approx([3, 3]), "a timeout is a failed try like any other"
    kinds = [each.kind for each in await stage.app.jobs.attempts(job.id)]
    assert kinds == ["timed_out", "timed_out"]
    assert [event.timeout for event in stage.told(JobTimedOut)] == [3, 3]


@in_virtual_time
@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
async def test_a_task_is_stopped_when_it_gives_no_sign_of_life(sign: str) -> None:
    stage, ended = Stage(), list[float]()

    @stage.app.task(heartbeat_timeout=5, retry=ONCE)
    async def lives_for(ctx: JobContext, seconds: float) -> None:
        began = stage.now
        try:
            while stage.now < began + seconds:
                await asyncio.sleep(4)
                await (ctx.heartbeat() if sign == "heartbeat" else ctx.progress(0.5))
            await asyncio.sleep(3600)
        finally:
            ended.append(stage.now - began)

    async with stage.node():
        job = await lives_for.enqueue(100)
        with pytest.raises(JobFailed, match="gave no sign of life for 5"):
            await job.result(timeout=200)
    assert ended == [pytest.approx(105, abs=0.01)]
    assert [each.kind for each in await stage.app.jobs.attempts(job.id)] == ["timed_out"]
    assert [(event.timeout, event.silent) for event in stage.told(JobTimedOut)] == [(5, True)]


@in_virtual_time
async def test_signs_of_life_do_not_lengthen_a_timeout() -> None:
    stage = Stage()

    @stage.app.task(heartbeat_timeout=2, timeout=9, retry=ONCE)
    async def lively(ctx: JobContext) -> None:
        while True:
            await asyncio.sleep(1)
            await ctx.heartbeat()

    async with stage.node():
        job = await lively.enqueue()
        with pytest.raises(JobFailed, match="longer than 9"):
            await job.result(timeout=60)
        assert stage.now == pytest.approx(9, abs=1)
    assert [(event.timeout, event.silent) for event in stage.told(JobTimedOut)] == [(9, False)]


@in_virtual_time
async def test_who_holds_up_the_event_loop_does_not_silence_others() -> None:
    stage = Stage()

    @stage.app.task(heartbeat_timeout=2, retry=ONCE)
    async def lively(ctx: JobContext) -> str:
        for _ in range(20):
            await asyncio.sleep(1)
            await ctx.heartbeat()
        return "heard"

    @stage.app.task
    async def block() -> None:
        await asyncio.sleep(3.5)
        loop: Any = asyncio.get_running_loop()
        loop._now += 5  # time passes, and nobody gets a turn

    async with stage.node():
        job = await lively.enqueue()
        await block.enqueue()
        assert await job.result(timeout=60) == "heard"


@pytest.mark.parametrize(
    "value", [0, -1, 0.5, float("nan"), float("inf"), "five", True, timedelta(0)]
)
def test_what_is_no_heartbeat_timeout_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="heartbeat_timeout = "):
        Stage().app.task(heartbeat_timeout=value)(stubborn_sleep)


@in_virtual_time
async def test_a_task_that_swallows_its_timeout_has_timed_out_all_the_same() -> None:
    stage = Stage()

    @stage.app.task(timeout=3, retry=ONCE)
    async def deaf() -> str:
        await stubborn_sleep(20)
        return "as if nothing had happened"

    @stage.app.task
    async def other() -> float:
        return stage.now

    async with stage.node(concurrency=1):
        job = await deaf.enqueue()
        with pytest.raises(JobFailed, match="longer than 3"):
            await job.result(timeout=60)
        assert stage.now == pytest.approx(8, abs=1), "it had 5 s to clean up"
        later = await (await other.enqueue()).result(timeout=60)
        assert later == pytest.approx(20, abs=1), "it kept its slot until it really ended"


@in_virtual_time
async def test_an_error_raised_after_the_timeout_does_not_hide_it() -> None:
    stage = Stage()

    @stage.app.task(timeout=3, retry=ONCE)
    async def rude() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ValueError("in the middle of something") from None

    async with stage.node():
        job = await rude.enqueue()
        with pytest.raises(JobFailed, match="longer than 3"):
            await job.result(timeout=60)


@in_virtual_time
async def test_a_job_may_bring_its_own_time_limit_and_its_task_can_see_it() -> None:
    stage, deadlines = Stage(), list[datetime | None]()

    @stage.app.task
    async def look(ctx: JobContext) -> None:
        deadlines.append(ctx.deadline)
        await asyncio.sleep(1)
        deadlines.append(ctx.deadline)

    async with stage.node():
        await (await look.options(timeout=30).enqueue()).result()
        await (await look.enqueue()).result()
    with_limit, later, *without = deadlines
    assert with_limit is not None
    assert later is not None
    assert abs(later - with_limit) < timedelta(milliseconds=1)
    assert START + timedelta(seconds=30) <= with_limit.astimezone(UTC)
    assert without == [None, None]


# Cancels


@in_virtual_time
async def test_a_pending_job_is_canceled_at_once_and_never_runs() -> None:
    stage, ran = Stage(), list[str]()

    @stage.app.task
    async def unwanted() -> None:
        ran.append("ran")

    async with stage.node():
        job = await unwanted.options(delay=timedelta(seconds=5)).enqueue()
        assert await job.cancel("changed my mind") is State.CANCELED
        with pytest.raises(JobCanceled, match="changed my mind"):
            await job.result(timeout=1)
        await asyncio.sleep(60)
    assert ran == []


@pytest.mark.parametrize("wakeups", [True, False])
def test_a_running_job_hears_of_its_cancel_within_a_second(wakeups: bool) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage(wakeups=wakeups)
        stopped: list[float] = []

        @stage.app.task
        async def long(ctx: JobContext) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                assert ctx.cancel_requested
                stopped.append(stage.now)

        async with stage.node():
            job = await long.enqueue()
            await stage.until(lambda: stage.tables.running)
            await asyncio.sleep(7.3)
            asked = stage.now
            assert await job.cancel("enough") is State.RUNNING, (
                "it was asked, and runs until it ends"
            )
            with pytest.raises(JobCanceled, match="enough"):
                await job.result(timeout=5)
            assert stopped[0] - asked <= 1.0
        assert [event.reason for event in stage.told(JobWasCanceled)] == ["enough"]
        assert stage.tables.signals == {}
        assert await stage.app.jobs.attempts(job.id) == []

    test()


@in_virtual_time
async def test_a_task_may_look_for_its_cancel_by_itself() -> None:
    stage = Stage()

    @stage.app.task
    async def polite(ctx: JobContext) -> None:
        while True:
            await stubborn_sleep(0.3)
            ctx.check_canceled()

    async with stage.node():
        job = await polite.enqueue()
        await stage.until(lambda: stage.tables.running)
        await job.cancel("please")
        with pytest.raises(JobCanceled, match="please"):
            await job.result(timeout=5)


@in_virtual_time
async def test_a_success_that_comes_after_the_cancel_was_heard_is_canceled() -> None:
    stage = Stage()

    @stage.app.task
    async def deaf() -> str:
        await stubborn_sleep(5)
        return "too late"

    async with stage.node():
        job = await deaf.enqueue()
        await stage.until(lambda: stage.tables.running)
        await job.cancel()
        with pytest.raises(JobCanceled):
            await job.result(timeout=30)


@in_virtual_time
async def test_a_cancel_that_comes_too_late_is_a_conflict() -> None:
    stage = Stage()

    @stage.app.task
    async def quick() -> int:
        return 1

    async with stage.node():
        job = await quick.enqueue()
        assert await job.result() == 1
        with pytest.raises(Conflict):
            await job.cancel()
        assert await job.result() == 1


@in_virtual_time
@pytest.mark.parametrize("delay", [1.6, 2.0, 2.1, 2.3, 2.6])
async def test_a_cancel_during_a_failing_try_ends_the_job_with_it(delay: float) -> None:
    """The node looks for signals once a second, and a try of half a second may lie in between."""
    stage, tries = Stage(), list[int]()

    @stage.app.task(retry=Retry(max_attempts=5, delay=timedelta(seconds=delay), jitter=False))
    async def failing(ctx: JobContext) -> None:
        tries.append(ctx.attempt)
        await asyncio.sleep(0.5)
        raise OSError

    async with stage.node():
        stage.line.lose("signals_for", times=4)
        job = await failing.enqueue()
        await stage.until(lambda: stage.tables.running)
        await job.cancel("stop")
        with pytest.raises(JobCanceled, match="stop"):
            await job.result(timeout=60)
    assert tries == [1], "also when looks were lost"
    assert [each.kind for each in await stage.app.jobs.attempts(job.id)] == ["failed"]


@in_virtual_time
async def test_a_job_that_is_canceled_while_it_waits_on_the_node_never_starts() -> None:
    stage, ran = Stage(), list[int]()

    @stage.app.task
    async def work(number: int) -> None:
        ran.append(number)

    @stage.app.task
    async def bulky(text: str) -> None:
        ran.append(len(text))

    async with stage.node():
        # Its payload is loaded when it starts: until then it is held, but does not run.
        loading = stage.line.hold("load_args")
        job = await bulky.enqueue("x" * 10_000)
        await stage.until(lambda: stage.line.count("load_args"))
        await job.cancel("in time")
        await asyncio.sleep(1.5)
        loading.set()
        with pytest.raises(JobCanceled, match="in time"):
            await job.result(timeout=10)
    assert ran == []


# What became of a cancel


@in_virtual_time
async def test_a_cancel_that_waits_says_what_happened() -> None:
    stage = Stage()
    begun = asyncio.Event()

    @stage.app.task(retry=ONCE)
    async def work() -> None:
        begun.set()
        await asyncio.sleep(3_600)

    async with stage.node():
        job = await work.enqueue()
        await begun.wait()
        assert await job.cancel("enough", wait=True) is State.CANCELED
        info = await job.info()
        assert (info.state, info.cancel_too_late) == (State.CANCELED, False)
        waiting = await work.options(delay=timedelta(hours=1)).enqueue()
        assert await waiting.cancel(wait=True) is State.CANCELED
    with pytest.raises(ConfigError, match=r"cancel\(wait='soon'\)"):
        await waiting.cancel(wait="soon")


@in_virtual_time
async def test_a_cancel_that_came_too_late_is_told() -> None:
    stage = Stage()
    stage.line.latency = 0.01
    going, begun = asyncio.Event(), asyncio.Event()

    @stage.app.task(retry=ONCE)
    async def work() -> str:
        begun.set()
        await going.wait()
        return "done"

    async with stage.node():
        job = await work.enqueue()
        await begun.wait()
        stage.line.lose("signals_for", times=None)
        with pytest.raises(JobTimeout):
            await job.cancel(wait="2s")
        asking = asyncio.create_task(job.cancel(wait=timedelta(hours=1)))
        await asyncio.sleep(0.1)
        going.set()
        with pytest.raises(CancelTooLate, match="it is succeeded: the request came too late") as e:
            await asking
        assert isinstance(e.value, Conflict)
        assert (e.value.job_id, e.value.state) == (job.id, State.SUCCEEDED)
        assert await job.result() == "done"
        assert (await job.info()).cancel_too_late
