"""If these fail, a job that is tried again and again goes on although it was asked to stop."""

from datetime import timedelta
from typing import Any

import pytest

from detent import App, JobCanceled, JobContext, Retry, Snooze, State

PATIENCE = 10.0
FAILS = OSError("no route")


class Restless:
    """A task whose tries are over as soon as they have begun; it is canceled during one of them."""

    def __init__(self, app: App, delay: float, raised: Exception = FAILS, **options: Any) -> None:
        self.tries: list[int] = []
        wait = timedelta(seconds=delay)

        @app.task(retry=Retry(max_attempts=1_000, delay=wait, jitter=False))
        async def restless(ctx: JobContext) -> None:
            self.tries.append(ctx.attempt)
            if len(self.tries) == 3:
                assert await app.jobs.cancel(ctx.job_id, reason="enough") is State.RUNNING
            raise raised if len(self.tries) >= 3 else Snooze(timedelta(milliseconds=10))

        self.task = restless.options(**options) if options else restless


@pytest.mark.parametrize("delay", [0.1, 3_600.0])
@pytest.mark.parametrize("options", [{}, {"unique": "u"}], ids=["plain", "hooked"])
async def test_a_try_that_fails_at_once_is_the_last_once_its_job_is_canceled(
    store_url: str, delay: float, options: dict[str, Any]
) -> None:
    app = App(store_url)
    restless = Restless(app, delay, **options)
    async with app, app.node():
        job = await restless.task.enqueue()
        with pytest.raises(JobCanceled, match="enough"):
            await job.result(timeout=PATIENCE)
        assert len(restless.tries) == 3
        assert [each.kind for each in await app.jobs.attempts(job.id)] == ["failed"]


async def test_a_try_that_snoozes_is_the_last_once_its_job_is_canceled(store_url: str) -> None:
    app = App(store_url)
    restless = Restless(app, 0.0, Snooze(timedelta(hours=1)))
    async with app, app.node():
        job = await restless.task.enqueue()
        with pytest.raises(JobCanceled, match="enough"):
            await job.result(timeout=PATIENCE)
        assert len(restless.tries) == 3
