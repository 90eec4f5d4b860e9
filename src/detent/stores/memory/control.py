"""Letting people change what jobs do, along the table of moves and never around it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.model.job import Attempt, JobFilter
from detent.model.state import MOVES, State, Verb
from detent.spi.notifier import Hint
from detent.spi.store import Change
from detent.stores.memory.ending import end, request_cancel
from detent.stores.memory.inspect import matching
from detent.stores.memory.tables import (
    CANCEL,
    PAUSED,
    UNIQUE,
    Key,
    Outcome,
    Parked,
    Ready,
    Tables,
)


def control_job(tables: Tables, now: datetime, verb: Verb, job_id: UUID, change: Change) -> State:
    """Apply one verb to one job, or say why not."""
    if job_id not in tables.job:
        if job_id in tables.archive:
            raise Conflict(job_id, verb, "archived")
        raise JobNotFound(job_id)
    change.target(job_id, verb, tables.state_of(job_id), _generation(tables, job_id))
    _VERBS[verb](tables, now, job_id, change)
    return tables.state_of(job_id)


def control_page(
    tables: Tables, now: datetime, verb: Verb, where: JobFilter, limit: int, change: Change
) -> int:
    """Apply a verb to matching jobs that it would move; one that cannot be moved stops nothing."""
    moved = 0
    for job_id in [] if where.archived else matching(tables, where):
        if moved >= limit:
            break
        if _would_move(tables, verb, job_id, change):
            try:
                _VERBS[verb](tables, now, job_id, change)
            except KeyTaken:
                continue
            moved += 1
    return moved


def delete_page(tables: Tables, now: datetime, where: JobFilter, limit: int) -> int:
    """Delete matching terminal jobs, and all that belongs to them."""
    ended = [job_id for job_id in matching(tables, where) if _has_ended(tables, job_id)]
    return len(delete_jobs(tables, now, ended[:limit]))


def delete_jobs(tables: Tables, now: datetime, ids: Sequence[UUID]) -> list[UUID]:
    """Delete those that have ended, and all that belongs to them; return which."""
    gone = [job_id for job_id in dict.fromkeys(ids) if _has_ended(tables, job_id)]
    for job_id in gone:
        tables.archive.pop(job_id, None)
        if job_id in tables.outcome:
            forget(tables, job_id)
    return gone


def forget(tables: Tables, job_id: UUID) -> None:
    """Remove an ended job with all that belongs to it."""
    del tables.job[job_id], tables.outcome[job_id]
    tables.attempts.pop(job_id, None)
    tables.log.pop(job_id, None)
    tables.signals.pop((job_id, CANCEL), None)
    for name in [name for name, key in tables.keys.items() if key.job == job_id]:
        del tables.keys[name]


def _has_ended(tables: Tables, job_id: UUID) -> bool:
    return job_id in tables.outcome or job_id in tables.archive


def pause_queue(tables: Tables, now: datetime, queue: str) -> None:
    """Let no more jobs of a queue be claimed."""
    tables.queues[queue] = True


def resume_queue(tables: Tables, now: datetime, queue: str) -> None:
    """Let the jobs of a queue be claimed again."""
    tables.queues[queue] = False
    tables.tell(Hint(queue))


def scale_queue(tables: Tables, now: datetime, queue: str, slots: int | None) -> None:
    """Say how many jobs of a queue each node runs at once."""
    tables.queues.setdefault(queue, False)
    tables.slots.pop(queue, None)
    if slots is not None:
        tables.slots[queue] = slots


def _would_move(tables: Tables, verb: Verb, job_id: UUID, change: Change) -> bool:
    """Whether the verb is allowed and changes anything, so that paging comes to an end."""
    if (tables.state_of(job_id), verb) not in MOVES:
        return False
    if verb is Verb.CANCEL:
        return (job_id, CANCEL) not in tables.signals or job_id not in tables.running
    if verb is Verb.RESCHEDULE:
        return tables.place_of(job_id).due_at != change.due_at
    return True


def _generation(tables: Tables, job_id: UUID) -> int:
    return (tables.outcome.get(job_id) or tables.place_of(job_id)).generation


def _cancel(tables: Tables, now: datetime, job_id: UUID, change: Change) -> None:
    """End a job that does not run; a running one is only asked."""
    if job_id in tables.running:
        request_cancel(tables, job_id, change.reason)
        return
    place = tables.place_of(job_id)
    ended = Outcome(job_id, State.CANCELED, place.generation, place.attempt, now)
    end(tables, now, ended._replace(reason=change.reason))


def _pause(tables: Tables, now: datetime, job_id: UUID, change: Change) -> None:
    tables.parked[job_id] = Parked(tables.ready.pop(job_id), PAUSED)


def _resume(tables: Tables, now: datetime, job_id: UUID, change: Change) -> None:
    """Give a job its old place again; it may have become due meanwhile."""
    tables.put_back(tables.parked.pop(job_id).place)


def _reschedule(tables: Tables, now: datetime, job_id: UUID, change: Change) -> None:
    due_at = _due_at(now, change)
    if job_id in tables.ready:
        tables.put_back(tables.ready[job_id]._replace(due_at=due_at))
    else:
        parked = tables.parked[job_id]
        tables.parked[job_id] = parked._replace(place=parked.place._replace(due_at=due_at))


def _retry(tables: Tables, now: datetime, job_id: UUID, change: Change) -> None:
    """Start a job anew: its outcome goes to the attempts, its business key is taken again."""
    job = tables.job[job_id]
    if job.unique_key is not None:
        name = (UNIQUE, job.unique_key, job.new.task)
        holder = tables.keys.setdefault(name, Key(job_id, None)).job
        if holder != job_id:
            raise KeyTaken(job.unique_key, holder)
    outcome = tables.outcome.pop(job_id)
    known = tables.attempts.get(job_id, ())
    if not any(_is_told(outcome, each) for each in known):
        tables.attempts[job_id] = (*known, _put_aside(outcome))
    tables.signals.pop((job_id, CANCEL), None)
    tables.put_back(
        Ready(
            id=job_id,
            lane=job.new.lane,
            priority=job.new.priority,
            due_at=now,
            hooks=job.new.hooks,
            generation=outcome.generation + 1,
        )
    )


def _is_told(outcome: Outcome, attempt: Attempt) -> bool:
    """Whether an outcome is the failed try that stands among the attempts already."""
    return (
        outcome.state is State.FAILED
        and (attempt.generation, attempt.number) == (outcome.generation, outcome.attempt)
        and attempt.error == outcome.error
    )


def _put_aside(outcome: Outcome) -> Attempt:
    return Attempt(
        number=outcome.attempt,
        generation=outcome.generation,
        kind=str(outcome.state),
        node=outcome.node,
        started_at=outcome.started_at,
        ended_at=outcome.finished_at,
        error=outcome.error,
    )


def _due_at(now: datetime, change: Change) -> datetime:
    return change.due_at if change.due_at is not None else now + (change.delay or timedelta(0))


_VERBS: Final[dict[Verb, Callable[[Tables, datetime, UUID, Change], None]]] = {
    Verb.CANCEL: _cancel,
    Verb.PAUSE: _pause,
    Verb.RESUME: _resume,
    Verb.RESCHEDULE: _reschedule,
    Verb.RETRY: _retry,
}
