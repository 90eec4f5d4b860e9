"""`@app.task`: its types, from which editors and type checkers know what a task takes and gives.

A parameter of type `JobContext` is left out of what callers pass. Checkers can see that only when
it comes first; and a first parameter that takes anything (`object`, `Any`, no annotation) would
take a context too, so the arguments of such a task are checked only when it is enqueued. In other
places, as behind the `self` of a method, a default says it: `ctx: JobContext = Depends()`.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    final,
    overload,
)

from detent.batch import BatchItem
from detent.config.suggestions import unknown_option
from detent.context import JobContext
from detent.declared import Declared
from detent.model.breaker import Breaker
from detent.model.durations import Duration
from detent.model.job import Priority
from detent.model.rates import Rate
from detent.model.retry import Retry
from detent.spi.middleware import Middleware
from detent.tasks import Task

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Results = Sequence[R] | None


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
        self, *, batch: int, linger: Duration = ..., **options: Unpack["TaskSettings"]
    ) -> "DeclareBatch": ...
    @overload
    def __call__(self, **options: Unpack["TaskSettings"]) -> "Declare": ...
    def __call__(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Declare the function, or return what declares one with these options."""
        if function is None:
            known = [*TaskSettings.__annotations__, "batch", "linger"]
            for option in options:
                if option not in known:
                    raise unknown_option("@app.task(...)", option, known)
            return Declare(self._declare, {**self._options, **options})
        return self._declare(function, **self._options)


class TaskSettings(TypedDict, total=False):
    """The options of `@app.task(...)`."""

    name: str | None
    queue: str
    priority: Priority | int
    retry: Retry
    timeout: Duration | None
    heartbeat_timeout: Duration | None
    executor: str | None
    needs: str | Sequence[str]
    tags: Sequence[str]
    strict_result: bool
    encrypted: bool | None
    breaker: str | bool | Breaker
    middleware: Sequence[Middleware]
    resource: str | None
    weight: int
    concurrency: int | None
    concurrency_key: Callable[..., str | int] | None
    ordered: bool | None
    rate: Rate | None
    rate_key: Callable[..., str | int] | None
    fair_key: Callable[..., str | int | tuple[str | int, int]] | None


class DeclareBatch(Protocol):
    """Declares functions that are given many jobs at once: `@app.task(batch=100)`.

    Callers enqueue one value as always. The function returns nothing, or a result for each.
    """

    # An object with batch tasks that is itself a list of items would be taken for a batch.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[list[BatchItem[T]], P], Coroutine[Any, Any, None]], /
    ) -> Declared[[T], None, Concatenate[list[BatchItem[T]], P], Coroutine[Any, Any, None]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        function: Callable[Concatenate[list[BatchItem[T]], P], Coroutine[Any, Any, Results[R]]],
        /,
    ) -> Declared[[T], R, Concatenate[list[BatchItem[T]], P], Coroutine[Any, Any, Results[R]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[BatchItem[T]], P], None], /
    ) -> Declared[[T], None, Concatenate[list[BatchItem[T]], P], None]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[BatchItem[T]], P], Results[R]], /
    ) -> Declared[[T], R, Concatenate[list[BatchItem[T]], P], Results[R]]: ...
    # And as methods.
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[C, list[BatchItem[T]], P], Coroutine[Any, Any, None]],
        /,
    ) -> Declared[
        [C, T], None, Concatenate[C, list[BatchItem[T]], P], Coroutine[Any, Any, None]
    ]: ...
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[C, list[BatchItem[T]], P], Coroutine[Any, Any, Results[R]]],
        /,
    ) -> Declared[
        [C, T], R, Concatenate[C, list[BatchItem[T]], P], Coroutine[Any, Any, Results[R]]
    ]: ...


@final
class Nobody:
    """A type that only a parameter for anything takes, so that it can be told from a context."""
