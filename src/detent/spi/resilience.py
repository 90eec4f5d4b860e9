"""What decides whether a call may be made now, and learns how it went; circuit breakers are one."""

from datetime import timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from detent.model.outcome import Outcome


class ProtectedCall(NamedTuple):
    """An attempt that wants to make its call; the same before and after it."""

    job_id: UUID
    fence: int
    """Together with `job_id` it names one attempt, for ever."""
    task: str
    queue: str
    attempt: int
    breaker: str | None
    """The name that the task gave with `breaker=`."""


class Resilience(Protocol):
    """A strategy around the calls of all tasks on a node: `app.resilience(...)`.

    Both are called on the event loop of the node. `after` is called for every call that `before`
    let pass, also when it was then stopped before its function began.
    """

    async def before(self, call: ProtectedCall, /) -> timedelta | None:
        """Return None to let the call be made now, or how long its job should wait.

        A job that has to wait goes back to pending, and nothing is charged. To raise fails the
        attempt, as if its task had raised.
        """

    def after(self, call: ProtectedCall, outcome: Outcome, /) -> None:
        """Be told how a call ended; it must not block."""
