"""Code around every attempt: tracing, metrics, tenants."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Middleware(Protocol):
    """Wraps the run of a task: `async def m(ctx, proceed): return await proceed()`."""

    def __call__(self, ctx: Any, proceed: Callable[[], Awaitable[Any]], /) -> Awaitable[Any]:
        """Return what the task returned, or something instead, or raise."""
