"""What a child process keeps for tasks that depend on something, from one job to the next."""

import asyncio
import contextvars
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from detent.context import JobContext
from detent.executors.job import ChildJob
from detent.lifetimes import Lifetime, heard_out
from detent.providing import with_given
from detent.tasks import Task


class Household:
    """An event loop that stays, and what was made on it: once per child, not per node or app."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._lifetime = Lifetime(
            lambda work, name: asyncio.get_running_loop().create_task(work, name=name)
        )

    def call(
        self, job: ChildJob, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a task's function with what it depends on, and tidy up after it."""
        assert task.providers is not None
        plan, context = task.providers.plan(task), JobContext(job)
        if task.is_async:

            async def furnished() -> Any:
                async with AsyncExitStack() as stack:
                    with heard_out(stack):
                        given = await plan.furnish(stack, self._lifetime, context)
                        return await with_given(task.function, given)(*args, **kwargs)

            return job.run_async(furnished, (), {}, self._run)
        with ExitStack() as blocking, heard_out(blocking):
            stack = AsyncExitStack()
            blocking.push(lambda *error: self._run(stack.__aexit__(*error)))
            made = self._run(plan.furnish_partly(stack, self._lifetime, context))
            return plan.calling(task.function, made, context)(*args, **kwargs)

    def close(self) -> None:
        """Close everything; what goes wrong at the end of a process is nobody's concern."""
        self._run(self._lifetime.close())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        # The runner has a context from when it was made; the job's is another each time.
        return self._runner.run(work, context=contextvars.copy_context())
