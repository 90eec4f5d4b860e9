"""Tasks as they were written: a function that can still be called, or a method of its objects."""

from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from detent.handle import Job
from detent.tasks import BoundCall, Task, TaskWith

C = TypeVar("C")
N = ParamSpec("N")
M = ParamSpec("M")
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)


class Declared(Task[P, R_co], Generic[P, R_co, Q, S_co]):
    """A task as its function was written: calling it just runs the function.

    What the function depends on, and was not given by hand, is made for that call.
    """

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> S_co:
        """Run the function here and now."""
        if self.signature.has_defaults_to_make and self.providers is not None:
            made: S_co = self.providers.call(self, args, kwargs)
            return made
        value: S_co = self.function(*args, **kwargs)
        return value

    # A method is written with `self`, which nobody passes to `enqueue`: `Mailer.send.enqueue(to)`.
    # (mypy takes every task that is an attribute of a class for a method, pyright does not.)
    @overload
    def __get__(
        self: "Declared[Concatenate[C, N], R, Q, S]", instance: None, owner: type[C], /
    ) -> "Declared[N, R, Q, S]": ...
    @overload
    def __get__(
        self: "Declared[Concatenate[C, N], R, Concatenate[C, M], S]", instance: C, owner: type[C], /
    ) -> "Method[N, R, M, S]": ...
    @overload
    def __get__(self, instance: object, owner: type, /) -> Self: ...
    def __get__(self, instance: Any, owner: Any, /) -> Any:
        """Return the task; through an object, with that object for direct calls."""
        if instance is None or not self.signature.is_method:
            return self
        return Method(self, instance)

    def __set_name__(self, owner: type, _name: str) -> None:
        if self.signature.is_method and self.owner is None:
            self.owner = owner


class Method(Generic[P, R_co, Q, S_co]):
    """A task that is a method, with the object for direct calls; jobs get one of their node."""

    __slots__ = ("_object", "task")

    def __init__(self, task: Declared[..., R_co, ..., S_co], instance: Any) -> None:
        self.task = task
        self._object = instance

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> S_co:
        """Run the method on this object, here and now."""
        return self.task(self._object, *args, **kwargs)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[R_co]:
        """See `Task.bind`."""
        return self.task.bind(*args, **kwargs)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """See `Task.enqueue`."""
        return await self.task.enqueue(*args, **kwargs)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """See `Task.enqueue_sync`."""
        return self.task.enqueue_sync(*args, **kwargs)

    def options(self, **options: Any) -> TaskWith[P, R_co]:
        """See `Task.options`."""
        changed: Any = self.task.options(**options)
        chosen: TaskWith[P, R_co] = changed
        return chosen
