"""All jobs, and what people do with them: wait, look, cancel, pause, retry."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack
from uuid import UUID

from detent.access import target_of
from detent.due import check_due, read_length
from detent.errors import (
    CancelTooLate,
    ConfigError,
    Conflict,
    InvalidArguments,
    InvalidResult,
    JobCanceled,
    JobFailed,
    JobNotFound,
    JobTimeout,
    KeyTaken,
    ResultNotStored,
)
from detent.model.access import Action
from detent.model.durations import Duration
from detent.model.job import Attempt, JobFilter, JobInfo, LogEntry
from detent.model.payloads import why_dropped
from detent.model.state import State, Verb
from detent.model.text import storable
from detent.protection import Protection
from detent.spi.codec import Codec
from detent.spi.sealing import Surface
from detent.spi.store import Change, ControlStore, InspectStore
from detent.waiting import Waits

PAGE: Final = 500
MAX_LIMIT: Final = 1_000
MAX_REASON: Final = 2_000
_NO_CHANGE: Final = Change()


class Filters(TypedDict, total=False):
    """What narrows down many jobs; `since` and `until` mean the time of enqueuing."""

    state: State | str | Sequence[State | str] | None
    task: str | None
    queue: str | None
    tag: str | None
    key: str | None
    since: datetime | None
    until: datetime | None
    archived: bool


class Jobs:
    """All jobs of a store."""

    def __init__(
        self,
        control: ControlStore,
        inspect: InspectStore,
        codec: Codec,
        protection: Protection | None = None,
    ) -> None:
        self._control = control
        self._inspect = inspect
        self._codec = codec
        self._protection = protection or Protection()
        self._waits: dict[int, Waits] = {}

    # Looking

    async def get(self, job_id: UUID) -> JobInfo:
        """Return a job, or raise `JobNotFound`."""
        _check_id("job_id", job_id)
        found = await self._inspect.get_jobs([job_id])
        if not found:
            raise JobNotFound(job_id)
        await self._permit(Action.READ, job_id, found)
        return await self._protection.views.job(found[0])

    async def list(  # noqa: PLR0913  each is one way to narrow it down
        self,
        *,
        state: State | str | Sequence[State | str] | None = None,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        archived: bool = False,
        limit: int = 50,
        before: UUID | None = None,
    ) -> list[JobInfo]:
        """Return matching jobs, the newest first; `before` the last id gives the next page.

        `archived=True` lists those in the archive, and only those.
        """
        where = job_filter(state, task, queue, tag, key, since, until, archived)
        if before is not None:
            _check_id("before", before)
        jobs = await self._readable(where, _checked_limit(limit), before)
        return await self._protection.views.jobs(jobs)

    async def attempts(self, job_id: UUID) -> Sequence[Attempt]:
        """Return the tries of a job that did not succeed, the oldest first."""
        await self._permit(Action.READ, job_id)
        found = await self._inspect.attempts(job_id)
        return await self._protection.views.attempts(job_id, found)

    async def log(self, job_id: UUID, limit: int = 1_000) -> Sequence[LogEntry]:
        """Return the log lines of a job, the oldest first."""
        await self._permit(Action.READ, job_id)
        return await self._inspect.log_of(job_id, limit)

    async def result(
        self,
        job_id: UUID,
        timeout: Duration | None = None,  # noqa: ASYNC109  waits for many in one place
        *,
        type_: Any = Any,
    ) -> Any:
        """Wait for the end of a job and return its result, of that type if one is given."""
        await self._permit(Action.READ, job_id)
        seconds = None
        if timeout is not None:
            seconds = read_length("result", "timeout", timeout).total_seconds()
        job = await self._wait_for(job_id, seconds)
        match job.state:
            case State.SUCCEEDED:
                return await self._decoded(job_id, job.result, type_)
            case State.CANCELED:
                raise JobCanceled(job_id, job.reason, job.replaced_by)
            case _:
                error = await self._protection.views.error(job_id, job.error)
                raise JobFailed(job_id, None if error is None else json.loads(error))

    async def _decoded(self, job_id: UUID, result: bytes | None, type_: Any) -> Any:
        if result is None:
            return None
        if (problem := why_dropped(result)) is not None:
            raise ResultNotStored(job_id, problem)
        result = await self._protection.views.opened(Surface.RESULT, job_id, result)
        try:
            return self._codec.decode(result, type_)
        except InvalidArguments as error:
            raise InvalidResult(job_id, str(error)) from error

    async def _wait_for(self, job_id: UUID, limit: float | None) -> JobInfo:
        loop = asyncio.get_running_loop()
        waits = self._waits.get(id(loop))
        if waits is None or waits.loop is not loop:
            waits = self._waits[id(loop)] = Waits(self._inspect)
        if limit is not None and limit <= 0:
            # There is no time to wait, but time to look.
            (found,) = await self._inspect.get_jobs([job_id]) or (None,)
            if found is not None and found.state.terminal:
                return found
        try:
            # Not wait_for: before Python 3.12 it may swallow that its caller is canceled.
            async with asyncio.timeout(limit):
                return await waits.ended(job_id)
        except TimeoutError:
            raise JobTimeout(f"job {job_id} has not ended after {limit} s") from None

    # Who may

    async def _permit(
        self, action: Action, job_id: UUID, found: Sequence[JobInfo] | None = None
    ) -> None:
        """Raise `NotAllowed` if the application's rule says so; without one, ask nobody."""
        _check_id("job_id", job_id)
        access = self._protection.access
        if access is None:
            return
        if found is None:
            found = await self._inspect.get_jobs([job_id])
        if not found:
            raise JobNotFound(job_id)
        await access.check(action, target_of(found[0]))

    async def _permit_all(self, action: Action, where: JobFilter) -> None:
        if self._protection.access is not None:
            await self._protection.access.check_all(action, where)

    async def _readable(
        self, where: JobFilter, limit: int, before: UUID | None
    ) -> Sequence[JobInfo]:
        """Return the next jobs that may be read; a page is short only when it is the last."""
        access = self._protection.access
        page = await self._inspect.list_jobs(where, limit, before)
        if access is None:
            return page
        found = await access.readable(page)
        while len(found) < limit and len(page) == limit:
            page = await self._inspect.list_jobs(where, limit, page[-1].id)
            found += await access.readable(page)
        return found[:limit]

    # Changing

    async def cancel(
        self,
        job_id: UUID,
        *,
        reason: str | None = None,
        wait: bool | Duration = False,
        expected: State | None = None,
        generation: int | None = None,
    ) -> State:
        """Cancel a job, or ask it to stop when it runs.

        With `wait=True`, or for as long as `wait` says, return only when it was canceled; raise
        `CancelTooLate` when it ended otherwise, and `JobTimeout` when it has not ended by then.
        """
        limit = None if isinstance(wait, bool) else read_length("cancel", "wait", wait)
        change = Change(reason=_clean(reason), expected=expected, generation=generation)
        state = await self._change(Verb.CANCEL, job_id, change)
        if wait is False or state is State.CANCELED:
            return state
        ended = await self._wait_for(job_id, None if limit is None else limit.total_seconds())
        if ended.state is not State.CANCELED:
            raise CancelTooLate(job_id, ended.state)
        return ended.state

    async def _change(self, verb: Verb, job_id: UUID, change: Change) -> State:
        await self._permit(Action(verb), job_id)
        return await self._control.control_job(verb, job_id, change)

    async def pause(
        self, job_id: UUID, *, expected: State | None = None, generation: int | None = None
    ) -> State:
        """Keep a pending job from being claimed."""
        change = Change(expected=expected, generation=generation)
        return await self._change(Verb.PAUSE, job_id, change)

    async def resume(
        self, job_id: UUID, *, expected: State | None = None, generation: int | None = None
    ) -> State:
        """Let a paused job be claimed again."""
        change = Change(expected=expected, generation=generation)
        return await self._change(Verb.RESUME, job_id, change)

    async def retry(
        self, job_id: UUID, *, expected: State | None = None, generation: int | None = None
    ) -> State:
        """Give an ended job a new life: its outcome joins the attempts."""
        change = Change(expected=expected, generation=generation)
        return await self._change(Verb.RETRY, job_id, change)

    async def delete(self, job_id: UUID) -> None:
        """Delete an ended job with all that belongs to it; one that lives on is a `Conflict`."""
        await self._permit(Action.DELETE, job_id)
        if not await self._control.delete_jobs([job_id]):
            job = await self.get(job_id)
            raise Conflict(job_id, "delete", job.state)

    async def reschedule(
        self,
        job_id: UUID,
        *,
        at: datetime | None = None,
        delay: Duration | None = None,
        expected: State | None = None,
        generation: int | None = None,
    ) -> State:
        """Give a pending or paused job another due time; now, if neither is given."""
        length = None if delay is None else read_length("reschedule", "delay", delay)
        check_due("reschedule", length, at)
        change = Change(due_at=at, delay=length, expected=expected, generation=generation)
        return await self._change(Verb.RESCHEDULE, job_id, change)

    # Many at once

    async def cancel_all(self, *, reason: str | None = None, **filters: Unpack[Filters]) -> int:
        """Cancel all matching jobs, page by page; return how many were canceled or asked."""
        return await self._all(Verb.CANCEL, job_filter(**filters), Change(reason=_clean(reason)))

    async def retry_all(self, **filters: Unpack[Filters]) -> int:
        """Retry all matching ended jobs (by default the failed ones); return how many.

        Each as it was when it was listed, and once: one that fails again meanwhile stays failed,
        and one whose business key is taken is left alone.
        """
        filters.setdefault("state", State.FAILED)
        where = job_filter(**filters)
        await self._permit_all(Action.RETRY, where)
        total, before = 0, None
        while page := await self._inspect.list_jobs(where, PAGE, before):
            total += sum(await asyncio.gather(*map(self._retry_listed, page)))
            before = page[-1].id
        return total

    async def _retry_listed(self, job: JobInfo) -> bool:
        try:
            change = Change(expected=job.state, generation=job.generation)
            await self._control.control_job(Verb.RETRY, job.id, change)
        except (Conflict, JobNotFound, KeyTaken):
            return False
        return True

    async def delete_all(self, **filters: Unpack[Filters]) -> int:
        """Delete all matching ended jobs, page by page; return how many."""
        where = job_filter(**filters)
        await self._permit_all(Action.DELETE, where)
        total = 0
        while deleted := await self._control.delete_page(where, PAGE):
            total += deleted
        return total

    async def purge(self, queue: str) -> int:
        """Cancel and delete everything in a queue that does not run; return how many went."""
        live = (State.PENDING, State.WAITING, State.PAUSED)
        # Asked before anything is done: whoever may not delete should not have canceled either.
        await self._permit_all(Action.DELETE, job_filter(queue=queue))
        await self._all(Verb.CANCEL, job_filter(live, queue=queue), Change(reason="purged"))
        return await self.delete_all(queue=queue)

    async def _all(self, verb: Verb, where: JobFilter, change: Change) -> int:
        await self._permit_all(Action(verb), where)
        total = 0
        while moved := await self._control.control_page(verb, where, PAGE, change):
            total += moved
        return total

    async def each(self, **filters: Unpack[Filters]) -> AsyncIterator[JobInfo]:
        """Yield all matching jobs, the newest first, a page at a time."""
        before: UUID | None = None
        while page := await self.list(**filters, limit=PAGE, before=before):
            for job in page:
                yield job
            before = page[-1].id


def job_filter(  # noqa: PLR0917  the fields of the filter, in its order
    state: State | str | Sequence[State | str] | None = None,
    task: str | None = None,
    queue: str | None = None,
    tag: str | None = None,
    key: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    archived: bool = False,
) -> JobFilter:
    """Return a filter, or raise `ConfigError` for what no job can have."""
    given = () if state is None else (state,) if isinstance(state, str) else state
    try:
        states = tuple(map(State, given))
    except ValueError:
        raise ConfigError(f"state = {state!r}: must be of {', '.join(State)}") from None
    for name, moment in (("since", since), ("until", until)):
        if moment is not None and moment.tzinfo is None:
            raise ConfigError(f"{name} = {moment}: must have a time zone")
    for name, text in (("task", task), ("queue", queue), ("tag", tag), ("key", key)):
        check_wanted(name, text)
    return JobFilter(states, task, queue, tag, key, since, until, archived)


def check_wanted(name: str, text: object) -> None:
    """Refuse to look for a text that one store refuses, and another one never finds."""
    if text is not None and not (isinstance(text, str) and text == storable(text, len(text))):
        raise ConfigError(f"{name} = {text!r}: must be a text without NUL and lone surrogates")


def _clean(reason: str | None) -> str | None:
    return None if reason is None else storable(reason, MAX_REASON)


def _check_id(name: str, value: object) -> None:
    """Refuse the text of an id, which some stores would look for and never find."""
    if not isinstance(value, UUID):
        raise ConfigError(f"{name} = {value!r}: must be a UUID, such as the id of a job")


def _checked_limit(limit: int) -> int:
    if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise ConfigError(f"limit = {limit!r}: must be 1 to {MAX_LIMIT}")
    return limit
