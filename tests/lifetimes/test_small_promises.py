"""If these fail, small things that the reference promises are not so."""

import asyncio
from collections.abc import Callable

import pytest

from detent import App, JobCanceled
from detent.errors import JobTimeout

NewApp = Callable[[], App]
PATIENCE = 30.0


async def test_the_result_of_a_job_that_has_ended_needs_no_time(new_app: NewApp) -> None:
    app = new_app()

    @app.task(name="work")
    async def work() -> int:
        return 7

    async with asyncio.timeout(PATIENCE), app:
        job = await work.enqueue()
        with pytest.raises(JobTimeout):
            await job.result(timeout=0)
        async with app.node():
            await job.result()
        assert await job.result(timeout=0) == 7


async def test_a_task_that_cancels_itself_says_why(new_app: NewApp) -> None:
    app = new_app()

    @app.task(name="work")
    async def work() -> None:
        raise JobCanceled("nothing to do")

    async with asyncio.timeout(PATIENCE), app, app.node():
        job = await work.enqueue()
        with pytest.raises(JobCanceled, match="nothing to do") as canceled:
            await job.result()
        assert (canceled.value.job_id, canceled.value.reason) == (job.id, "nothing to do")
        assert (await app.jobs.get(job.id)).reason == "nothing to do"
