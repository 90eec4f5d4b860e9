"""Where a task's function runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Call(NamedTuple):
    """One function call to make."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    on_abandoned: Callable[[], None]
    """To be called when the call's caller was canceled but the work itself goes on (threads)."""
    on_released: Callable[[], None]
    """To be called when work that was abandoned has come to its end."""


class Executor(Protocol):
    """Runs calls; canceling `run` stops the work, or tells that it could not."""

    async def run(self, call: Call) -> Any:
        """Return what the function returned, or raise what it raised."""

    async def close(self) -> None:
        """Give back threads or processes."""
