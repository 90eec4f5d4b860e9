"""What follows when a job ends or waits no more; without it each way there would forget a part."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from detent.model.job import Hook
from detent.model.state import State
from detent.spi.notifier import SignalHint
from detent.stores.memory.outbox import record_events
from detent.stores.memory.tables import CANCEL, UNIQUE, UNKNOWN_TASK, Outcome, Tables


def end(tables: Tables, now: datetime, outcome: Outcome) -> None:
    """Take a live job from its place and write how it ended."""
    job_id = outcome.id
    hooks = tables.place_of(job_id).hooks
    waited_for = tables.parked[job_id].waits_for if job_id in tables.parked else None
    for place in (tables.ready, tables.running, tables.parked):
        place.pop(job_id, None)
    tables.outcome[job_id] = outcome
    tables.progress.pop(job_id, None)
    if outcome.state is State.CANCELED:
        # What came too late stays: it tells that somebody asked.
        tables.signals.pop((job_id, CANCEL), None)
    if hooks & Hook.KEY:
        _release_unique_key(tables, job_id, waited_for)
    if hooks & (Hook.KEY | Hook.SLOT):
        wake_waiting(tables, now, job_id, waited_for)
    if hooks & Hook.EVENT:
        record_events(tables, now, outcome)


def request_cancel(tables: Tables, job_id: UUID, reason: str | None) -> None:
    """Leave a message for a running job; the first one stands, and stays until the job ends.

    It outlives the claim: when the job is released or tried again before it heard of the
    request, the next node that claims it hears of it.
    """
    tables.signals.setdefault((job_id, CANCEL), reason)
    tables.tell(SignalHint(tables.running[job_id].node))


def wake_unknown_tasks(
    tables: Tables, tasks: Sequence[str] | None = None, limit: int | None = None
) -> int:
    """Put jobs whose task a node did not know back in their old place; of these tasks, if given."""
    waiting = [
        job_id
        for job_id, parked in sorted(tables.parked.items())
        if parked.reason == UNKNOWN_TASK and (tasks is None or tables.job[job_id].new.task in tasks)
    ][:limit]
    for job_id in waiting:
        tables.put_back(tables.parked.pop(job_id).place)
    return len(waiting)


def _release_unique_key(tables: Tables, job_id: UUID, waited_for: UUID | None) -> None:
    """Give back the job's business key, unless it was passed on to a replacement.

    A replacement that ends while it waits returns the key to the job it was to replace: that
    one still runs, and no third job may run beside it.
    """
    job = tables.job[job_id]
    name = (UNIQUE, job.unique_key or "", job.new.task)
    held = tables.keys.get(name) if job.unique_key is not None else None
    if held is None or held.job != job_id:
        return
    if waited_for is None:
        del tables.keys[name]
    else:
        tables.keys[name] = held._replace(job=waited_for)


def wake_waiting(tables: Tables, now: datetime, job_id: UUID, waited_for: UUID | None) -> None:
    """Let the jobs go that waited for this one; they are due now at the earliest.

    If it was itself waiting for one that has not ended, they wait for that one from now on.
    """
    heir = None if waited_for in tables.outcome else waited_for
    for waiting, parked in list(tables.parked.items()):
        if parked.waits_for == job_id and heir is not None:
            tables.parked[waiting] = parked._replace(waits_for=heir)
        elif parked.waits_for == job_id:
            place = tables.parked.pop(waiting).place
            tables.put_back(place._replace(due_at=max(place.due_at, now)))
