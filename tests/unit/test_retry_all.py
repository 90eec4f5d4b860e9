"""If this fails, retrying all failed jobs goes on for ever, or forgets the older ones."""

from detent.model.retry import Retry
from detent.model.state import State
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@in_virtual_time
async def test_each_failed_job_is_retried_once_although_it_fails_again_at_once() -> None:
    stage = Stage()
    runs: list[int] = []

    @stage.app.task(retry=Retry(max_attempts=1))
    async def hopeless(number: int) -> None:
        runs.append(number)
        raise ValueError(number)

    jobs = [await hopeless.enqueue(number) for number in range(700)]
    async with stage.node(concurrency=100):
        await stage.until(lambda: len(stage.tables.outcome) == 700)
        assert await stage.app.jobs.retry_all(task=hopeless.name) == 700
        await stage.until(lambda: len(runs) == 1400 and len(stage.tables.outcome) == 700)
    info = await jobs[0].info()
    assert (info.state, info.generation) == (State.FAILED, 2)
