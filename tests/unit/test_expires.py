"""If these fail, a job runs after the moment from which on it is of no use."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from detent import BatchItem, JobCanceled, Retry, State
from detent.errors import ConfigError
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@in_virtual_time
async def test_a_job_that_has_not_begun_by_then_is_canceled() -> None:
    stage, ran = Stage(), list[int]()

    @stage.app.task
    async def work(number: int) -> None:
        ran.append(number)

    @stage.app.task(batch=10)
    async def many(items: list[BatchItem[int]]) -> None:
        ran.extend(item.value for item in items)

    late = await work.options(expires="1m").enqueue(1)
    batched = await many.options(expires=60).enqueue(2)
    moment = stage.app.client._runtime.utcnow() + timedelta(hours=2)
    early = await work.options(expires=moment).enqueue(3)
    other = await many.enqueue(4)
    await asyncio.sleep(61)
    async with stage.node():
        for job in (late, batched):
            with pytest.raises(JobCanceled, match=r"expired at .*, before it began"):
                await job.result()
            assert (await job.info()).state is State.CANCELED
        await early.result()
        await other.result()
    assert sorted(ran) == [3, 4]


@in_virtual_time
async def test_a_job_that_has_begun_by_then_is_tried_again_after_it() -> None:
    stage, ran = Stage(), list[int]()

    @stage.app.task(retry=Retry(3, delay="1h"))
    async def work() -> int:
        ran.append(1)
        if len(ran) < 3:
            raise ValueError("not yet")
        return len(ran)

    async with stage.node():
        job = await work.options(expires="1m").enqueue()
        assert await job.result() == 3


@in_virtual_time
async def test_a_job_that_an_operator_retries_runs() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> int:
        return 5

    job = await work.options(expires="1m").enqueue()
    await asyncio.sleep(100)
    async with stage.node():
        with pytest.raises(JobCanceled):
            await job.result()
        await stage.app.jobs.retry(job.id)
        assert await job.result() == 5


@pytest.mark.parametrize(
    "options",
    [
        {"expires": 0},
        {"expires": -1},
        {"expires": "soon"},
        {"expires": "1m", "delay": "1m"},
        {"expires": True},
    ],
)
def test_what_could_never_begin_is_refused(options: dict[str, Any]) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task
        async def work() -> None: ...

        with pytest.raises(ConfigError, match="expires"):
            await work.options(**options).enqueue()

    test()
