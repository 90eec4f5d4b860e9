"""Where a task's function runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from detent.spi.attempt import AttemptPort


def _ignore() -> None:
    """Do nothing."""


class Call(NamedTuple):
    """One call to make: as Python values, and as what somebody elsewhere needs to make it."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    """For executors in this process. A context is among the arguments where one is wanted."""

    task: str
    """The name under which the task is registered. Nothing else says what is run."""
    modules: Sequence[str]
    """The modules that declare the task when they are imported, the likeliest first."""
    payload: bytes
    """The arguments as they are stored; the task's `signature` decodes them."""
    codec: str
    """The name of the codec that encoded them."""
    job: AttemptPort
    """What the job is, where its log lines and progress go, and why it was told to stop."""

    on_queued: Callable[[], None]
    """To be called when the call has to wait for a free worker: its timeout stands still.

    A job that waits for a second goes back to its queue if another node can start it, and one that
    waits when its node drains goes back at once: `run` is canceled.
    """
    on_begun: Callable[[], None]
    """To be called when the wait is over: the timeout begins anew."""
    on_abandoned: Callable[[], None]
    """To be called when the call's caller was canceled but the work itself goes on (threads)."""
    on_released: Callable[[], None]
    """To be called when work that was abandoned has come to its end."""
    on_assigned: Callable[[], None] = _ignore
    """To be called between the two when a worker is being made ready for this call: the job then
    stays on this node, unless that drains."""


class Encoded(NamedTuple):
    """A result that was encoded where it was made, as JSON; `run` may return one."""

    data: bytes | None
    problem: str | None = None
    """Why it could not be encoded, when there is none."""


class Executor(Protocol):
    """Runs calls; canceling `run` stops the work, or tells that it could not.

    One that calls the function elsewhere may have `furnishes = True`: then nothing that the task
    depends on is made here, and it is the executor's to make (`task.providers`).

    One that runs a limited number of calls at once may say so: `capacity = 4`. A node whose tasks
    all have such executors claims no more jobs than those can run.
    """

    async def run(self, call: Call) -> Any:
        """Return what the function returned, or raise what it raised."""

    async def close(self) -> None:
        """Give back threads or processes; called once, when the node has left."""
