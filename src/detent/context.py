"""What a running task can know and say about itself."""

from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from detent.errors import DetentError
from detent.lines import Lines
from detent.spi.attempt import AttemptPort


class JobLog(Lines):
    """Log lines that are kept with the job, where people look when they ask what it did.

    It takes what the standard logger takes, `ctx.log.info("user %s", 42)`, and fails no job.
    """

    __slots__ = ()


class JobContext:
    """The job that is running, as its task sees it.

    A parameter annotated with `JobContext` receives it; `JobContext.current()` finds it from
    anywhere below, in threads and child processes too.
    """

    __slots__ = ("_port",)

    def __init__(self, port: AttemptPort) -> None:
        self._port = port

    @classmethod
    def current(cls) -> "JobContext":
        """Return the context of the job this code runs in."""
        port = _current.get()
        if port is None:
            raise DetentError("JobContext.current() was called outside of a job")
        return cls(port)

    @property
    def job_id(self) -> UUID:
        """The id of the job; the same in all attempts."""
        return self._port.job_id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._port.task_name

    @property
    def queue(self) -> str:
        """The queue the job came from."""
        return self._port.queue

    @property
    def attempt(self) -> int:
        """The number of this try, from 1."""
        return self._port.attempt

    @property
    def generation(self) -> int:
        """1, and one more for every time an operator retried the job after its end."""
        return self._port.generation

    @property
    def fence(self) -> int:
        """A number that grows with every claim: pass it on to fence writes elsewhere."""
        return self._port.fence

    @property
    def node_id(self) -> UUID:
        """The incarnation of the node that runs this attempt."""
        return self._port.node_id

    @property
    def deadline(self) -> datetime | None:
        """When this attempt will be stopped, if it has a timeout."""
        return self._port.deadline()

    @property
    def params(self) -> Mapping[str, Any]:
        """What the caller gave with `options(params=...)`."""
        return self._port.params()

    @property
    def tags(self) -> Sequence[str]:
        """The job's tags."""
        return self._port.tags()

    @property
    def principal(self) -> str | None:
        """In whose name the job was enqueued, if somebody said so."""
        return self._port.principal

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that fired the job; None for any other job."""
        return self._port.schedule

    @property
    def slot(self) -> datetime | None:
        """The slot that the job was fired for, in UTC; None for any other job.

        It is when the job was meant to run, however late it does, and the same in all attempts.
        """
        return self._port.slot

    @property
    def log(self) -> JobLog:
        """Where to write lines that stay with the job."""
        return JobLog(self._port)

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked this job to stop, or its time is up."""
        return self._port.cancel_requested()

    def check_canceled(self) -> None:
        """Raise `JobCanceled` if somebody asked this job to stop; for loops in threads."""
        self._port.check_canceled()

    def progress(self, fraction: float, message: str | None = None) -> Awaitable[None]:
        """Say how far the job is, from 0 to 1; kept at most once a second.

        To be awaited in async tasks; a plain call is enough in threads.
        """
        if not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise ValueError(f"progress({fraction!r}): must be a number from 0 to 1")
        self._port.save_progress(fraction, None if message is None else str(message))
        return _DONE

    def heartbeat(self) -> Awaitable[None]:
        """Show that the job goes on, where its task has a `heartbeat_timeout`; writes nothing.

        To be awaited in async tasks; a plain call is enough in threads. Progress shows it, too.
        """
        self._port.heartbeat()
        return _DONE

    def set_result(self, value: Any) -> None:
        """Set the result that `transaction()` will commit."""
        self._port.set_result(value)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction on the store's database that also completes this job.

        What is done on the connection and the job's success are committed together when the
        block ends, or not at all: exactly once in effect. The result is what `set_result` was
        given; what the task returns or raises afterwards no longer counts. One is open at a time,
        and after one that was committed there is no other.
        """
        return self._port.transaction()


class _Done:
    """Something to await that is over already, and that nobody minds if it is not awaited."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # makes this a generator


_DONE: Final = _Done()
_current: Final[ContextVar[AttemptPort | None]] = ContextVar("detent_job", default=None)
bind: Final = _current.set
running_port: Final = _current.get
