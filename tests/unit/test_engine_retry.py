"""If these fail, tasks are tried too often, too seldom or too early, or an error costs a job."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from detent import (
    App,
    ConfigError,
    Fail,
    JobContext,
    JobFailed,
    Retry,
    RetryAfter,
    Snooze,
    State,
)
from detent.events import JobDied, JobRetrying, JobSnoozed, JobSucceeded
from detent.handle import Job
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SECOND = timedelta(seconds=1)
STEADY = Retry(max_attempts=3, delay=10 * SECOND, jitter=False)


async def failure_of(job: Any) -> dict[str, Any]:
    """Return what is stored about why a job failed."""
    with pytest.raises(JobFailed) as caught:
        await job.result(timeout=600)
    assert caught.value.error is not None
    return caught.value.error


@in_virtual_time
async def test_a_failed_try_is_followed_by_another_after_the_back_off() -> None:
    stage, starts = Stage(), list[float]()

    @stage.app.task(retry=STEADY)
    async def flaky(ctx: JobContext) -> int:
        starts.append(stage.now)
        if ctx.attempt < 3:
            raise OSError("not yet")
        return ctx.attempt

    async with stage.node():
        job = await flaky.enqueue()
        assert await job.result(timeout=60) == 3
    first, second, third = starts
    assert second - first == pytest.approx(10, abs=0.1), "10 s after the first failure"
    assert third - second == pytest.approx(20, abs=0.1), "twice as long after the second"
    info = await stage.app.jobs.get(job.id)
    assert (info.state, info.attempt) == (State.SUCCEEDED, 3)
    attempts = await stage.app.jobs.attempts(job.id)
    assert [(each.number, each.kind) for each in attempts] == [(1, "failed"), (2, "failed")]
    assert [event.delay for event in stage.told(JobRetrying)] == [10, 20]
    assert len(stage.told(JobSucceeded)) == 1


@in_virtual_time
async def test_jitter_shortens_the_wait_by_at_most_half() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=2, delay=10 * SECOND))
    async def flaky() -> None:
        raise OSError

    async with stage.node():
        jobs = [await flaky.enqueue() for _ in range(20)]
        for job in jobs:
            await failure_of(job)
    delays = [event.delay for event in stage.told(JobRetrying)]
    assert len(set(delays)) > 10, "they do not come back together"
    assert all(5 <= delay <= 10 for delay in delays)


@in_virtual_time
async def test_the_last_failed_try_ends_the_job() -> None:
    stage, tries = Stage(), list[int]()

    @stage.app.task(retry=STEADY)
    async def hopeless(ctx: JobContext) -> None:
        tries.append(ctx.attempt)
        raise ValueError("never")

    async with stage.node():
        job = await hopeless.enqueue()
        error = await failure_of(job)
    assert tries == [1, 2, 3]
    assert error["type"] == "ValueError"
    assert error["message"] == "never"
    assert "in hopeless" in error["traceback"]
    assert len(await stage.app.jobs.attempts(job.id)) == 3
    (died,) = stage.told(JobDied)
    assert died.attempt == 3


@in_virtual_time
async def test_errors_that_are_never_retried_end_the_job_at_once() -> None:
    stage, tries = Stage(), list[int]()

    @stage.app.task(retry=Retry(max_attempts=5, never=(KeyError,)))
    async def picky() -> None:
        tries.append(1)
        raise RuntimeError from KeyError("its cause counts too")

    async with stage.node():
        await failure_of(await picky.enqueue())
    assert tries == [1]


@in_virtual_time
async def test_a_snooze_is_no_try() -> None:
    stage, tries = Stage(), list[tuple[int, float]]()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def sleepy(ctx: JobContext) -> None:
        tries.append((ctx.attempt, stage.now))
        if len(tries) < 4:
            raise Snooze(timedelta(minutes=5))

    async with stage.node():
        job = await sleepy.enqueue()
        await job.result()
    assert [attempt for attempt, _ in tries] == [1, 1, 1, 1]
    assert tries[1][1] - tries[0][1] == pytest.approx(300, abs=0.1)
    assert await stage.app.jobs.attempts(job.id) == []
    assert [event.delay for event in stage.told(JobSnoozed)] == [300, 300, 300]


@in_virtual_time
async def test_fail_means_no_more_tries() -> None:
    stage = Stage()

    @stage.app.task
    async def refuse() -> None:
        raise Fail("of no use")

    async with stage.node():
        error = await failure_of(await refuse.enqueue())
    assert (error["type"], error["message"]) == ("Fail", "of no use")


@in_virtual_time
async def test_a_task_says_when_to_try_again_but_not_how_often() -> None:
    stage, starts = Stage(), list[float]()

    @stage.app.task(retry=Retry(max_attempts=2))
    async def limited() -> None:
        starts.append(stage.now)
        raise RetryAfter(timedelta(seconds=42), "rate limited")

    async with stage.node():
        error = await failure_of(await limited.enqueue())
    assert error["message"] == "rate limited"
    assert starts[1] - starts[0] == pytest.approx(42, abs=0.1)
    assert len(starts) == 2


@in_virtual_time
async def test_a_job_may_bring_its_own_policy() -> None:
    stage, tries = Stage(), list[int]()

    @stage.app.task
    async def hopeless(ctx: JobContext) -> None:
        tries.append(ctx.attempt)
        raise ValueError

    async with stage.node():
        own = hopeless.options(retry=Retry(max_attempts=2, delay=SECOND, backoff="fixed"))
        await failure_of(await own.enqueue())
    assert tries == [1, 2]


# Odd errors


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_nothing_that_a_task_raises_stops_the_node(error: type[BaseException]) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task(retry=Retry(max_attempts=2, delay=SECOND))
        async def rude(ctx: JobContext) -> str:
            if ctx.attempt == 1:
                raise error
            return "lives"

        async with stage.node():
            job = await rude.enqueue()
            assert await job.result(timeout=10) == "lives"
        assert [each.kind for each in await stage.app.jobs.attempts(job.id)] == ["failed"]

    test()


@in_virtual_time
async def test_a_task_that_cancels_itself_has_failed() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def confused() -> None:
        raise asyncio.CancelledError

    async with stage.node():
        error = await failure_of(await confused.enqueue())
    assert error["type"] == "CancelledError"


class Mute(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Deadly(Exception):
    """One that takes its reader with it."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    "error",
    [
        Mute(),
        Deadly(),
        ValueError("a lone \ud800 surrogate"),
        ValueError("a NUL \0 inside"),
        ValueError("x" * 1_000_000),
        ExceptionGroup("several", [ValueError("one"), Mute()]),
    ],
    ids=["mute", "deadly", "surrogate", "nul", "long", "group"],
)
def test_an_error_that_cannot_be_stored_as_it_is_fails_the_job_all_the_same(
    error: Exception,
) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task(retry=Retry(max_attempts=1))
        async def odd() -> None:
            raise error

        async with stage.node():
            stored = await failure_of(await odd.enqueue())
        assert stored["type"] == type(error).__name__
        text = stored["message"] + stored["traceback"]
        assert "\0" not in text
        text.encode()
        assert len(text) < 20_000

    test()


@in_virtual_time
async def test_a_back_off_rule_that_raises_costs_no_job() -> None:
    stage = Stage()

    def broken(attempt: int) -> timedelta:
        raise ZeroDivisionError

    @stage.app.task(retry=Retry(max_attempts=2, delay=SECOND, backoff=broken))
    async def unlucky() -> None:
        raise OSError

    async with stage.node():
        job = await unlucky.enqueue()
        await failure_of(job)
    assert len(await stage.app.jobs.attempts(job.id)) == 2


@in_virtual_time
async def test_stored_options_that_cannot_be_read_fail_the_job_instead_of_losing_it() -> None:
    stage = Stage()

    @stage.app.task
    async def fine() -> None: ...

    job, _ = stage.app.client.prepare(fine.bind())
    await stage.store.enqueue_jobs([job._replace(options=b'{"timeout": "soon"}')])
    async with stage.node():
        error = await failure_of(Job(job.id, True, stage.app.jobs))
    assert error["type"] == msgspec.ValidationError.__name__


@in_virtual_time
async def test_an_app_has_a_policy_for_tasks_that_name_none() -> None:
    stage = Stage()
    app = App("memory://", store=stage.store, runtime=stage.runtime, retry=Retry(max_attempts=2))

    @app.task
    async def usual() -> None: ...

    @app.task(retry=Retry(max_attempts=7))
    async def own() -> None: ...

    assert usual.options_declared.retry.max_attempts == 2
    assert own.options_declared.retry.max_attempts == 7
    with pytest.raises(ConfigError, match=r"App\(retry=\.\.\.\) = 3"):
        App("memory://", retry=3)  # type: ignore[arg-type]


@in_virtual_time
async def test_options_keep_the_errors_that_the_task_names() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(never=(KeyError,)))
    async def work() -> None:
        raise KeyError("no")

    async with stage.node():
        for retry in (Retry(max_attempts=3, delay="1s"), work.options_declared.retry.replace()):
            job = await work.options(retry=retry).enqueue()
            with pytest.raises(JobFailed):
                await job.result(timeout="1m")
            assert (await job.info()).attempt == 1, "not retried at all"
    with pytest.raises(ConfigError, match="cannot be stored"):
        work.options(retry=Retry(only=(OSError,)))
