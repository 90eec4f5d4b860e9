"""If these fail, a job that says `sys.exit()` takes its node and innocent jobs with it."""

import asyncio
import sys
from collections.abc import Callable

import pytest

from detent import App, JobFailed, Retry, State
from detent.events import JobDied, JobRetrying

NewApp = Callable[[], App]
PATIENCE = 30.0
ONCE = Retry(max_attempts=1)


@pytest.mark.parametrize("gathered", ["gather", "group", "task"])
@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt])
def test_a_sub_task_that_exits_fails_its_job_and_no_other(
    new_app: NewApp, raised: type[BaseException], gathered: str
) -> None:
    """A loop ends when a task of it raises either; a job must not be able to do that."""
    app = new_app()
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def leave() -> None:
        raise raised(3)

    @app.task(name="guilty", retry=ONCE)
    async def guilty() -> None:
        match gathered:
            case "gather":
                await asyncio.gather(leave(), asyncio.sleep(0))
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(leave())
            case _:
                await asyncio.create_task(leave())

    @app.task(name="innocent", retry=ONCE)
    async def innocent() -> str:
        begun.set()
        await goes_on.wait()
        return "done"

    async def program() -> None:
        async with asyncio.timeout(PATIENCE), app, app.node():
            other = await innocent.enqueue()
            await begun.wait()
            job = await guilty.enqueue()
            with pytest.raises(JobFailed, match=f"{raised.__name__}|TaskGroup"):
                await job.result()
            goes_on.set()
            assert await other.result() == "done"

    asyncio.run(program())


def test_a_sub_task_that_is_canceled_before_it_began_leaves_no_warning(new_app: NewApp) -> None:
    app = new_app()

    async def never() -> None: ...

    @app.task(name="hasty")
    async def hasty() -> bool:
        task = asyncio.create_task(never(), name="never")
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled() and task.get_name() == "never"

    async def program() -> None:
        async with asyncio.timeout(PATIENCE), app, app.node():
            assert await (await hasty.enqueue()).result()

    asyncio.run(program())


def test_a_program_that_exits_announces_no_end_that_was_not_written(new_app: NewApp) -> None:
    """The program's own `sys.exit()` ends its loop: what ran has not failed."""
    app, other = new_app(), new_app()
    begun = asyncio.Event()
    told: list[object] = []
    app.bus.subscribe(JobDied, told.append)
    app.bus.subscribe(JobRetrying, told.append)

    @app.task(name="innocent", retry=ONCE)
    async def innocent() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def program() -> None:
        async with asyncio.timeout(PATIENCE), app, app.node():
            await innocent.enqueue()
            await begun.wait()
            leaving = asyncio.create_task(leave())
            await asyncio.wait([leaving])
            await asyncio.Event().wait()

    async def leave() -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        asyncio.run(program())

    async def look() -> None:
        async with other:
            (job,) = await other.jobs.list()
            assert job.state in (State.RUNNING, State.PENDING)
            assert job.attempt == 1

    asyncio.run(look())
    assert not told
