"""Lets people change what jobs do, one by one or by the page."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.model.job import Hook, JobFilter
from detent.model.state import TERMINAL, State, Verb, sources
from detent.spi.notifier import Hint, Notifier, SignalHint, Wake
from detent.spi.store import Change
from detent.stores.sqlite.columns import (
    LAST_MOMENT,
    chunks,
    micros_or_none,
    moment,
    packed,
    span,
    uuid,
)
from detent.stores.sqlite.enqueue import cancel, request_cancel
from detent.stores.sqlite.finish import after_end
from detent.stores.sqlite.inspect import Inspecting, matching
from detent.stores.sqlite.outbox import record_events
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# How many jobs one transaction moves: no write keeps the others waiting for long.
PAGE: Final = 200


class Moved(NamedTuple):
    """What a verb came to."""

    jobs: int
    wakes: list[Wake]


class Controlling(Inspecting):
    """The part of the store that `ControlStore` describes."""

    notifier: Notifier

    async def control_job(self, verb: Verb, job_id: UUID, change: Change) -> State:
        """See `ControlStore.control_job`."""

        def work(session: Session) -> tuple[State, list[Wake]]:
            state, generation = _known(session, verb, job_id)
            target = change.target(job_id, verb, state, generation)
            moved = _apply(session, verb, [job_id], generation, state, change)
            # A running job is only asked to stop; it is its node that cancels it.
            asked = verb is Verb.CANCEL and state is State.RUNNING
            return State.RUNNING if asked else target, moved.wakes

        state, wakes = await self.database.write(work)
        self.notifier.publish(wakes)
        return state

    async def control_page(self, verb: Verb, where: JobFilter, limit: int, change: Change) -> int:
        """See `ControlStore.control_page`."""
        if where.archived:
            return 0
        allowed = sources(verb)
        moved = 0
        for state in [state for state in where.states or allowed if state in allowed]:
            before: UUID | None = None
            while moved < limit:
                page = replace(where, states=(state,))
                ids = await self._matching(page, min(PAGE, limit - moved), before)
                if not ids:
                    break
                before = ids[-1]
                moved += await self._move(verb, sorted(ids), state, change)
        return moved

    async def _matching(self, where: JobFilter, limit: int, before: UUID | None) -> list[UUID]:
        return await self.database.read(lambda session: matching(session, where, limit, before))

    async def _move(self, verb: Verb, ids: list[UUID], state: State, change: Change) -> int:
        moved = await self.database.write(
            lambda session: _apply(session, verb, ids, None, state, change)
        )
        self.notifier.publish(moved.wakes)
        return moved.jobs

    async def delete_page(self, where: JobFilter, limit: int) -> int:
        """See `ControlStore.delete_page`."""
        states = tuple(state for state in where.states or TERMINAL if state in TERMINAL)
        if not states:
            return 0
        ids = await self._matching(replace(where, states=states), limit, None)
        return len(await self.delete_jobs(ids))

    async def delete_jobs(self, ids: Sequence[UUID]) -> list[UUID]:
        """See `ControlStore.delete_jobs`."""
        gone: dict[UUID, None] = {}
        for page in chunks(ids, PAGE):
            for job_id in await self._delete(packed(page)):
                gone[job_id] = None
        return list(gone)

    async def _delete(self, ids: bytes) -> list[UUID]:
        def work(session: Session) -> list[UUID]:
            ended = session.table(sql("delete_jobs", "ended"), ids)
            session.change(sql("delete_jobs", "archived"), ids)
            forget(session, packed(uuid(job_id) for job_id, live in ended if live))
            return [uuid(job_id) for job_id, _ in ended]

        return await self.database.write(work)

    async def pause_queue(self, queue: str) -> None:
        """See `ControlStore.pause_queue`."""
        await self.database.write(
            lambda session: session.change(sql("pause_queue"), queue, session.now)
        )

    async def resume_queue(self, queue: str) -> None:
        """See `ControlStore.resume_queue`."""
        await self.database.write(lambda session: session.change(sql("resume_queue"), queue))
        self.notifier.publish([Hint(queue)])

    async def scale_queue(self, queue: str, slots: int | None) -> None:
        """See `ControlStore.scale_queue`."""
        await self.database.write(lambda session: session.change(sql("scale_queue"), queue, slots))


def forget(session: Session, ids: bytes) -> None:
    """Remove ended jobs with all that belongs to them."""
    if ids:
        for step in (
            "keys",
            "tags",
            "outcome",
            "job",
            "attempts",
            "lines",
            "signals",
            "progress",
        ):
            session.change(sql("delete_jobs", step), ids)


def _known(session: Session, verb: Verb, job_id: UUID) -> tuple[State, int]:
    """Return state and generation of a job that can be moved at all."""
    known = session.table(sql("get_jobs", "state"), job_id.bytes)
    if not known:
        raise JobNotFound(job_id)
    state, generation = known[0]
    if state == "archived":
        raise Conflict(job_id, verb, state)
    return State(state), generation


def _apply(
    session: Session,
    verb: Verb,
    ids: Sequence[UUID],
    generation: int | None,
    state: State,
    change: Change,
) -> Moved:
    """Move jobs out of a state; with a generation, only in that one."""
    if verb not in _VERBS:
        raise ValueError(f"{verb} is not for people to use")
    function = _ask_to_stop if verb is Verb.CANCEL and state is State.RUNNING else _VERBS[verb]
    return function(session, packed(ids), generation, change)


def _ask_to_stop(session: Session, ids: bytes, generation: int | None, change: Change) -> Moved:
    asked = request_cancel(session, ids, generation, change.reason)
    # Asked before is done, for one job; for a page only new requests count.
    count = sum(new for _, _, new in asked) if generation is None else len(asked)
    return Moved(count, [SignalHint(uuid(node)) for node in dict.fromkeys(row[1] for row in asked)])


def _cancel(session: Session, ids: bytes, generation: int | None, change: Change) -> Moved:
    canceled = cancel(session, ids, generation, change.reason)
    hooked = {
        uuid(job_id): uuid(waits_for) if waits_for else None
        for job_id, hooks, waits_for in canceled
        if hooks
    }
    told = record_events(session, [(uuid(job_id), hooks) for job_id, hooks, _ in canceled])
    woken = after_end(session, hooked) if hooked else []
    return Moved(len(canceled), [*(Hint(lane) for (lane,) in woken), *told])


def _pause(session: Session, ids: bytes, generation: int | None, change: Change) -> Moved:
    rows = session.table(sql("pause_jobs", "moved"), ids, generation)
    session.change(sql("pause_jobs", "parked"), ids, generation, session.now)
    session.change(sql("pause_jobs", "gone"), ids, generation)
    return Moved(len(rows), [])


def _resume(session: Session, ids: bytes, generation: int | None, change: Change) -> Moved:
    rows = session.table(sql("resume_jobs", "moved"), ids, generation)
    session.change(sql("resume_jobs", "ready"), ids, generation)
    session.change(sql("resume_jobs", "gone"), ids, generation)
    return Moved(len(rows), _hints(rows))


def _reschedule(session: Session, ids: bytes, generation: int | None, change: Change) -> Moved:
    named = micros_or_none(change.due_at)
    later = session.now + (span(change.delay) if change.delay else 0)
    due_at = min(later, LAST_MOMENT) if named is None else named
    wanted = (ids, generation, due_at, named)
    rows = session.table(sql("reschedule_jobs", "moved"), *wanted)
    session.change(sql("reschedule_jobs", "ready"), *wanted)
    session.change(sql("reschedule_jobs", "parked"), *wanted)
    return Moved(len(rows), _hints(rows))


def _retry(session: Session, ids: bytes, generation: int | None, change: Change) -> Moved:
    """Start jobs anew whose business key is free, and take it again."""
    found = session.table(sql("retry_jobs", "moved"), ids, generation, session.now)
    rows = [row for row in found if _take_key_again(session, row, alone=generation is not None)]
    free = packed(uuid(row[0]) for row in rows)
    session.change(sql("retry_jobs", "archived"), free, generation)
    session.change(sql("retry_jobs", "ready"), free, generation, session.now)
    session.change(sql("retry_jobs", "gone"), free, generation)
    session.change(sql("retry_jobs", "unsignaled"), free)
    session.change(sql("retry_jobs", "unprogressed"), free)
    return Moved(len(rows), _hints(rows))


def _take_key_again(session: Session, row: Sequence[Any], *, alone: bool) -> bool:
    """Return whether a job may live again; one alone is told who holds its key."""
    job_id, hooks, *_, task, key = row
    if key is None or not hooks & Hook.KEY:
        return True
    if held := session.table(sql("find_key"), "unique", key, session.now, task):
        if alone:
            raise KeyTaken(key, uuid(held[0][0]))
        return False
    session.change(sql("reserve_unique_key"), key, uuid(job_id).bytes, task)
    return True


def _hints(rows: Sequence[Sequence[Any]]) -> list[Wake]:
    return [
        Hint(lane, priority, moment(due_at), uuid(job_id))
        for job_id, _, lane, priority, due_at, *_ in rows
    ]


_VERBS: Final[dict[Verb, Callable[[Session, bytes, int | None, Change], Moved]]] = {
    Verb.CANCEL: _cancel,
    Verb.PAUSE: _pause,
    Verb.RESUME: _resume,
    Verb.RESCHEDULE: _reschedule,
    Verb.RETRY: _retry,
}
