"""Tasks that a loop may leave behind when it stops for ever: a script ends without complaints."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def spawn_quietly(
    start: Callable[[], Coroutine[Any, Any, T]], name: str | None = None
) -> "asyncio.Task[T]":
    """Return a task that may be left behind, without complaints, by a loop that stops for ever.

    A script may end so while its last wake-up waits for a connection.
    """
    task = asyncio.get_running_loop().create_task(_Begun(start), name=name)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  as asyncio does for its own
    return task


class _Begun(Coroutine[Any, Any, T]):
    """Calls and awaits `start` when the loop comes to it; a coroutine would say that it never did.

    It is a `Coroutine` by its type: since Python 3.12 a loop takes no generators for one.
    """

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._steps = self._run(start)

    @staticmethod
    def _run(start: Callable[[], Coroutine[Any, Any, T]]) -> Generator[Any, Any, T]:
        return (yield from start().__await__())

    def send(self, value: Any) -> Any:
        """See `Coroutine.send`."""
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """See `Coroutine.throw`."""
        return self._steps.throw(*error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        self._steps.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._steps
