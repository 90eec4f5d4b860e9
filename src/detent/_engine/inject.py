"""Makes a call with what its task depends on, and tidies up after it, however it ended."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from detent._engine.attempt import Workbench
from detent.context import JobContext
from detent.errors import ConfigError
from detent.lifetimes import heard_out
from detent.providing import with_given
from detent.spi.executor import Executor
from detent.tasks import Task

Make = Callable[[Callable[..., Any]], Awaitable[Any]]
"""Makes a call of a function that lacks nothing but its arguments."""

_NOWHERE: Final = "this node has nowhere to keep what tasks depend on"


def is_furnished_here(task: Task[..., Any], executor: Executor | None) -> bool:
    """Whether this process makes what a task depends on; some executors do it where they run."""
    if not (task.signature.injected or task.signature.is_method):
        return False
    return not getattr(executor, "furnishes", False)


async def furnished(
    bench: Workbench, task: Task[..., Any], context: JobContext | None, make: Make
) -> Any:
    """Make a call with all that the task depends on; errors of providers are the task's own."""
    if bench.lifetime is None or task.providers is None:
        raise ConfigError(_NOWHERE)
    plan = task.providers.plan(task)
    async with AsyncExitStack() as stack:
        with heard_out(stack):
            if task.is_async:
                given = await plan.furnish(stack, bench.lifetime, context)
                return await make(with_given(task.function, given))
            made = await plan.furnish_partly(stack, bench.lifetime, context)
            return await make(plan.calling(task.function, made, context))
