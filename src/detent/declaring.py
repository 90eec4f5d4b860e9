"""`@app.task`: its types, from which editors and type checkers know what a task takes and gives.

A parameter of type `JobContext` is left out of what callers pass. Checkers can see that only when
it comes first; and a first parameter that takes anything (`object`, `Any`, no annotation) would
take a context too, so the arguments of such a task are checked only when it is enqueued.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, final, overload

from detent.context import JobContext
from detent.model.job import Priority
from detent.model.retry import Retry
from detent.tasks import Declared, Task

P = ParamSpec("P")
R = TypeVar("R")


class Declare:
    """Declares functions as tasks: `@app.task` or `@app.task(queue="mail", ...)`.

    The name is `module.function` unless `name=` is given. Async functions run on the event loop,
    others on threads, unless `executor=` says otherwise.
    """

    def __init__(
        self, declare: Callable[..., Task[..., Any]], options: Mapping[str, Any] | None = None
    ) -> None:
        self._declare = declare
        self._options = options or {}

    # Coroutine, not Awaitable: only so does mypy see that both overloads for an `async def` mean
    # the same function. With Awaitable, one `dict[str, Any]` in it would end all checking.
    @overload
    def __call__(
        self, function: Callable[Concatenate["Nobody", P], Coroutine[Any, Any, R]], /
    ) -> Declared[..., R, ..., Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate["Nobody", P], R], /
    ) -> Declared[..., R, ..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, R]], /
    ) -> Declared[P, R, Concatenate[JobContext, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Declared[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], R], /
    ) -> Declared[P, R, Concatenate[JobContext, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Declared[P, R, P, R]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = ...,
        queue: str = ...,
        priority: Priority | int = ...,
        retry: Retry = ...,
        timeout: timedelta | float | None = ...,
        executor: str | None = ...,
        needs: str | Sequence[str] = ...,
        tags: Sequence[str] = ...,
        strict_result: bool = ...,
    ) -> "Declare": ...
    def __call__(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Declare the function, or return what declares one with these options."""
        if function is None:
            return Declare(self._declare, {**self._options, **options})
        return self._declare(function, **self._options)


@final
class Nobody:
    """A type that only a parameter for anything takes, so that it can be told from a context."""
