"""If these fail, no connection can be made on some Python, or a stopped loop complains."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from detent.spawning import spawn_quietly


async def test_loops_are_given_coroutines() -> None:
    given: list[Any] = []

    def make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        given.append(work)
        return asyncio.Task(work, loop=loop, **options)

    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    asyncio.get_running_loop().set_task_factory(make_task)
    assert await spawn_quietly(answer) == 7
    # Since Python 3.12 a loop refuses everything else.
    assert [isinstance(work, Coroutine) for work in given] == [True]


async def test_what_was_spawned_can_be_canceled() -> None:
    canceled: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            canceled.append("yes")
            raise

    task = spawn_quietly(wait)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert canceled == ["yes"]
