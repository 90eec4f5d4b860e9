"""Statements that go on when their callers are canceled.

The driver gives up a connection whose statement is canceled. A task of its own for each statement
would keep them apart, at the cost of a task for each. Here the caller runs the statement itself,
and only a caller that is canceled pays: callbacks take the statement to its end.

This is for calls of the driver only. A time-out of asyncio inside would cancel the caller's task,
and would be taken for the caller's own end.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Ended = Callable[[BaseException | None], None]


class Unbroken(Generic[T]):
    """Awaits the work of a caller; if the caller is canceled, the work goes on by itself."""

    __slots__ = ("_ended", "_work", "left")

    def __init__(self, work: Coroutine[Any, Any, T], ended: Ended) -> None:
        self._work = work
        self._ended = ended
        """Called when work that was left has ended, with its error if it had one."""
        self.left = False
        """Whether the caller was canceled, so that the work goes on without it."""

    def __await__(self) -> Generator[Any, None, T]:
        work = self._work
        while True:
            try:
                future = work.send(None)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                yield None if future is None else _Seen(future)
            except asyncio.CancelledError:
                if future is None or not future.cancelled():
                    self.left = True
                    self._go_on_after(future)
                    raise
            except GeneratorExit:
                work.close()
                raise
            except BaseException:  # noqa: BLE001, S110  an error of the future: the work finds it
                pass

    def _go_on_after(self, future: "asyncio.Future[Any] | None") -> None:
        if future is None:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            # What is awaited is told so by its awaiter, which is no task any more.
            future._asyncio_future_blocking = False  # noqa: SLF001
            future.add_done_callback(self._go_on)

    def _go_on(self, _future: Any = None) -> None:
        try:
            future = self._work.send(None)
        except StopIteration:
            self._ended(None)
        except BaseException as error:  # noqa: BLE001  it has no caller any more
            self._ended(error)
        else:
            self._go_on_after(future)


class _Seen:
    """A future as a task sees it: the task is woken by it, and cannot cancel it."""

    __slots__ = ("_asyncio_future_blocking", "_canceled", "_context", "_future", "_wake")

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        # The work has said by this mark that it waits; now the task is told so.
        future._asyncio_future_blocking = False  # noqa: SLF001
        self._asyncio_future_blocking = True
        self._future = future
        self._canceled = False

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future.get_loop()

    def add_done_callback(
        self, wake: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        self._wake, self._context = wake, context
        self._future.add_done_callback(wake, context=context)

    def cancel(self, msg: Any = None) -> bool:
        """Wake the task, and leave the future alone."""
        if self._canceled or self._future.done():
            return False
        self._canceled = True
        self._future.remove_done_callback(self._wake)
        self.get_loop().call_soon(self._wake, self, context=self._context)
        return True

    def result(self) -> Any:
        """Tell the task why it was woken."""
        raise asyncio.CancelledError
