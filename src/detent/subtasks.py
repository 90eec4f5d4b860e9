"""Keeps a job from ending its event loop: what its sub-tasks raise stays in the job.

An event loop ends when one of its tasks raises `SystemExit` or `KeyboardInterrupt`. The engine
catches both around each job, but a job may start tasks of its own (`asyncio.gather`, a task group).
These are made by the loop's task factory, which is told here to contain them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any

from detent.context import running_port
from detent.errors import SubTaskExited


class Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises an ordinary error where the one in it ends the program."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        """See `Coroutine.send`."""
        try:
            return self._work.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise SubTaskExited(error) from error

    def throw(
        self,
        error: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        """See `Coroutine.throw`."""
        raised = error if isinstance(error, BaseException) else value
        try:
            return self._work.throw(raised if isinstance(raised, BaseException) else error())
        except (SystemExit, KeyboardInterrupt) as exit_:
            raise SubTaskExited(exit_) from exit_

    def close(self) -> None:
        """See `Coroutine.close`."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        # Its name, frame and code, for those who show what runs.
        return getattr(self._work, name)


class ContainingFactory:
    """Makes the tasks of a loop as before, but contains those that a job starts."""

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self._before = before

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> Any:
        """Make a task."""
        if running_port() is not None:
            work = Contained(work)
        if self._before is None:
            return asyncio.Task(work, loop=loop, **options)
        return self._before(loop, work, **options)


def contain_subtasks() -> None:
    """Let the running loop contain what jobs start; a factory that it has stays in use."""
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    if not isinstance(factory, ContainingFactory):
        made: Any = ContainingFactory(factory)
        loop.set_task_factory(made)
