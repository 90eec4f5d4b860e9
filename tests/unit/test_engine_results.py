"""If these fail, results get lost in silence, or jobs die of what was none of their doing."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from detent import JobCanceled, JobFailed, JobNotFound, JobTimeout, Retry, State, StoreError
from detent.config import Config, LimitsConfig
from detent.errors import ResultNotStored
from detent.events import ResultDropped, StoreTrouble, TaskUnknown
from detent.testing.conformance.builders import new_job
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

BIG = "x" * 10_000


# Results


@in_virtual_time
async def test_a_result_comes_back_as_json_would_have_it() -> None:
    stage = Stage()

    @stage.app.task
    async def echo(value: Any) -> Any:
        return value

    async with stage.node():
        for value in (None, 0, 1.5, "ü\u2028", [1, [2]], {"a": {"b": None}}, True):
            assert await (await echo.enqueue(value)).result(timeout=5) == value


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), "a \0 NUL", "a lone \udfff", {1, object()}, "x" * 2000],
    ids=["object", "nan", "nul", "surrogate", "nested", "big"],
)
def test_a_result_that_cannot_be_stored_is_dropped_and_said_so(value: object) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage(Config(limits=LimitsConfig(max_result=1000)))

        @stage.app.task
        async def odd() -> Any:
            return value

        async with stage.node():
            job = await odd.enqueue()
            with pytest.raises(ResultNotStored, match="succeeded, but its result was not") as told:
                await job.result(timeout=5)
        (event,) = stage.told(ResultDropped)
        assert (told.value.job_id, told.value.problem) == (job.id, event.problem)
        info = await job.info()
        assert info.decoded_result == {"detent": "result dropped", "problem": event.problem}
        assert event.job_id == job.id
        assert event.problem

    test()


@in_virtual_time
async def test_a_strict_task_fails_when_its_result_cannot_be_stored() -> None:
    stage, tries = Stage(), list[int]()

    @stage.app.task(strict_result=True)
    async def odd() -> Any:
        tries.append(1)
        return object()

    async with stage.node():
        job = await odd.enqueue()
        with pytest.raises(JobFailed, match="the result cannot be stored"):
            await job.result(timeout=5)
    assert tries == [1], "another try would do the work twice and end the same"


# Waiting for them


@in_virtual_time
async def test_a_result_is_what_became_of_the_job() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def work(how: str) -> str:
        if how == "slow":
            await asyncio.sleep(100)
        if how == "bad":
            raise ValueError("no")
        return how

    async with stage.node():
        good, bad, slow, gone = [await work.enqueue(h) for h in ("good", "bad", "slow", "slow")]
        assert await good.result() == "good"
        assert await good.result(timedelta(seconds=1)) == "good", "as often as one likes"
        with pytest.raises(JobFailed) as failed:
            await bad.result()
        assert failed.value.error is not None
        assert failed.value.error["type"] == "ValueError"
        with pytest.raises(JobTimeout):
            await slow.result(timeout=5)
        await gone.cancel("because")
        with pytest.raises(JobCanceled, match="because") as canceled:
            await gone.result()
        assert canceled.value.reason == "because"


@in_virtual_time
async def test_a_thousand_waiters_ask_together_and_none_is_forgotten() -> None:
    stage = Stage()

    @stage.app.task
    async def work(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    long = await stage.app.enqueue_many([work.bind(50.0)] * 1200)
    async with stage.node(concurrency=1300):
        short = await work.enqueue(1.0)
        waiting = [asyncio.ensure_future(job.result()) for job in long]
        await asyncio.sleep(0.1)
        assert await short.result(timeout=5) == 1.0, "it is not behind those who take longer"
        await asyncio.gather(*waiting)
    assert stage.line.count("ended") < 400
    assert stage.line.count("get_jobs") < 30, "that they are still there is asked now and then"


def looked_up(stage: Stage) -> int:
    """Return how many jobs were looked for by those who wait for results."""
    return sum(len(call.args[0]) for call in stage.line.calls if call.statement == "ended")


@pytest.mark.parametrize("waiters", [10, 2_000, 6_000])
def test_what_others_wait_for_is_not_looked_up_more_often_since_one_waits(waiters: int) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task
        async def work(seconds: float) -> None:
            await asyncio.sleep(seconds)

        long = await stage.app.enqueue_many([work.bind(1_000.0)] * waiters)
        async with stage.node(concurrency=waiters + 100):
            waiting = [asyncio.ensure_future(job.result()) for job in long]
            await asyncio.sleep(60)
            before = looked_up(stage)
            for _ in range(100):
                began = stage.now
                await (await work.enqueue(0.05)).result(timeout=5)
                assert stage.now - began < 0.05 * 1.6 + 0.02
            passed = stage.now - 60
            assert looked_up(stage) - before < 100 * 30 + passed * 4_500
            for waiter in waiting:
                waiter.cancel()

    test()


@in_virtual_time
async def test_results_of_a_drain_come_at_once_although_thousands_wait() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(0.1)

    jobs = await stage.app.enqueue_many([work.bind() for _ in range(6_000)])

    async with stage.node(concurrency=100):
        await asyncio.gather(*(job.result() for job in jobs))
        ends = 6_000 / 100 * 0.1
        assert stage.now < ends + 1.0
    assert looked_up(stage) < 6_000 * 30


@in_virtual_time
async def test_nobody_waits_for_a_job_that_is_gone() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        pass

    unknown, deleted = new_job().id, await work.enqueue()
    waiting = [asyncio.ensure_future(deleted.result()) for _ in range(2)]
    with pytest.raises(JobNotFound, match=str(unknown)):
        await stage.app.jobs.result(unknown)
    assert not any(waiter.done() for waiter in waiting), "it has not run, and is there"
    await deleted.cancel()
    await stage.app.jobs.delete(deleted.id)
    for waiter in waiting:
        with pytest.raises(JobNotFound, match=str(deleted.id)):
            await waiter


@in_virtual_time
async def test_results_that_are_there_are_not_waited_for() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        pass

    async with stage.node():
        jobs = [await work.enqueue() for _ in range(10)]
        await asyncio.gather(*(job.result(timeout=5) for job in jobs))
        began = asyncio.get_running_loop().time()
        for job in jobs:
            await job.result(timeout=5)
        assert asyncio.get_running_loop().time() == began


@in_virtual_time
async def test_giving_up_waiting_harms_no_other_waiter() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> int:
        await asyncio.sleep(10)
        return 1

    async with stage.node():
        job = await work.enqueue()
        first, second = (asyncio.ensure_future(job.result()) for _ in range(2))
        await asyncio.sleep(1)
        first.cancel()
        assert await second == 1
        with pytest.raises(asyncio.CancelledError):
            await first


# Arguments


@in_virtual_time
async def test_arguments_that_no_longer_fit_fail_without_retry_and_say_where() -> None:
    stage = Stage()
    old, new = stage.new_app(), stage.app

    async def send_old(to: dict[str, str]) -> None: ...

    async def send_new(to: dict[str, int]) -> None: ...

    enqueue = old.task(name="send")(send_old).enqueue
    new.task(name="send")(send_new)
    async with stage.node():
        job = await enqueue({"ada": "one"})
        with pytest.raises(JobFailed) as caught:
            await job.result(timeout=5)
    assert caught.value.error is not None
    assert "$.to[...]" in caught.value.error["message"]
    assert (await stage.app.jobs.get(job.id)).attempt == 1


@in_virtual_time
async def test_a_payload_in_an_unknown_codec_fails_without_retry() -> None:
    stage = Stage()

    @stage.app.task
    async def fine() -> None: ...

    row, _ = stage.app.client.prepare(fine.bind())
    await stage.store.enqueue_jobs([row._replace(codec="cipher")])
    async with stage.node():
        with pytest.raises(JobFailed, match="unknown codec 'cipher'"):
            await stage.app.jobs.result(row.id, 5)


@in_virtual_time
async def test_a_big_payload_is_loaded_when_its_job_starts() -> None:
    stage = Stage()

    @stage.app.task
    async def measure(text: str) -> int:
        return len(text)

    async with stage.node():
        assert await (await measure.enqueue(BIG)).result(timeout=5) == len(BIG)
        assert await (await measure.enqueue("small")).result(timeout=5) == 5
    assert stage.line.count("load_args") == 1


@in_virtual_time
async def test_a_payload_that_cannot_be_loaded_at_the_moment_costs_no_try() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def measure(text: str) -> int:
        return len(text)

    async with stage.node():
        stage.line.lose("load_args", times=2)
        stage.line.lose("load_args", error=StoreError("a hiccup"))
        job = await measure.enqueue(BIG)
        assert await job.result(timeout=30) == len(BIG)
    assert await stage.app.jobs.attempts(job.id) == []
    assert len(stage.told(StoreTrouble)) == 3


# Tasks that are not known here


@in_virtual_time
async def test_a_job_of_an_unknown_task_waits_for_a_node_that_knows_it() -> None:
    stage = Stage()
    newer = stage.new_app()

    async def brand_new() -> str:
        return "at last"

    task = newer.task(name="brand_new")(brand_new)
    async with stage.node():
        job = await task.enqueue()
        await stage.until(lambda: stage.tables.parked)
        info = await stage.app.jobs.get(job.id)
        assert (info.state, info.reason, info.attempt) == (State.WAITING, "unknown_task", 1)
        assert [event.task for event in stage.told(TaskUnknown)] == ["brand_new"]
        async with stage.node(newer):
            assert await job.result(timeout=60) == "at last"


@in_virtual_time
async def test_one_unknown_task_does_not_hold_up_the_others() -> None:
    stage = Stage()

    @stage.app.task
    async def known() -> int:
        return 1

    await stage.store.enqueue_jobs([new_job(task="unknown") for _ in range(50)])
    async with stage.node(concurrency=2):
        assert await (await known.enqueue()).result(timeout=5) == 1
        await stage.until(lambda: len(stage.tables.parked) == 50)
        await asyncio.sleep(30)
        assert len(stage.told(TaskUnknown)) == 50, "they are not claimed again and again"
