"""What an enqueue returns: one job, to wait for, to look at and to cancel."""

from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from detent.model.durations import Duration
from detent.model.job import JobInfo
from detent.model.state import State

R_co = TypeVar("R_co", covariant=True)


class JobsPort(Protocol):
    """What stands behind a handle: all jobs of a store."""

    async def get(self, job_id: UUID) -> JobInfo: ...
    async def cancel(
        self,
        job_id: UUID,
        *,
        reason: str | None = None,
        wait: bool | Duration = False,
    ) -> State: ...
    async def result(
        self,
        job_id: UUID,
        timeout: Duration | None = None,  # noqa: ASYNC109  the caller's
        *,
        type_: Any = Any,
    ) -> Any: ...


class Job(Generic[R_co]):
    """A job that was enqueued; `created` is False when a key led to one that was there."""

    __slots__ = ("_jobs", "_result_type", "created", "id")

    def __init__(self, job_id: UUID, created: bool, jobs: JobsPort, result_type: Any = Any) -> None:
        self.id = job_id
        self.created = created
        self._jobs = jobs
        self._result_type = result_type

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109
        """Wait for the end of the job and return what the task returned, of the same type.

        Raises `JobFailed`, `JobCanceled`, or `JobTimeout` when it takes longer than `timeout`;
        `ResultNotStored` when it succeeded and its result was dropped, such as for its size;
        `InvalidResult` when what is stored does not fit the return type of the task; `JobNotFound`
        when the job was deleted, or the transaction that enqueues it is not committed in time.
        """
        value: R_co = await self._jobs.result(self.id, timeout, type_=self._result_type)
        return value

    async def info(self) -> JobInfo:
        """Return all that is known about the job now."""
        return await self._jobs.get(self.id)

    async def cancel(self, reason: str | None = None, *, wait: bool | Duration = False) -> State:
        """Cancel the job; one that runs is asked to stop, and stays `running` until it has.

        With `wait=True`, or for as long as `wait` says, return only when it was canceled; raise
        `CancelTooLate` when it ended otherwise, and `JobTimeout` when it has not ended by then.
        """
        return await self._jobs.cancel(self.id, reason=reason, wait=wait)
