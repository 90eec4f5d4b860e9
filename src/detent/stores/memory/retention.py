"""Letting ended jobs go whose time is over."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from uuid import UUID

from detent.model.job import Hook
from detent.model.retention import Rule
from detent.spi.leadership import Term
from detent.spi.retention import Mark, PrunedPage, PruneRequest
from detent.stores.memory.control import forget
from detent.stores.memory.leadership import may_write
from detent.stores.memory.tables import IDEMPOTENCY, Archived, Outcome, Tables


def prune_jobs(tables: Tables, now: datetime, request: PruneRequest) -> PrunedPage:
    """Delete or archive the next jobs of a state whose time is over, in the order of their ends."""
    if not may_write(tables, request.term):
        return PrunedPage()
    deleted = archived = 0
    after: Mark | None = None
    for outcome in _due(tables, now, request):
        if deleted + archived == request.limit:
            return PrunedPage(deleted, archived, after)
        if request.rules.of(_queue(tables, outcome.id)).archives:
            tables.archive[outcome.id] = Archived(tables.job[outcome.id], outcome, now)
            archived += 1
        else:
            deleted += 1
        forget(tables, outcome.id)
        after = _place(outcome)
    return PrunedPage(deleted, archived)


def prune_keys(tables: Tables, now: datetime, limit: int, term: Term | None) -> int:
    """Delete idempotency keys that have expired."""
    if not may_write(tables, term):
        return 0
    expired = sorted(
        name
        for name, held in tables.keys.items()
        if held.expires_at is not None and held.expires_at <= now
    )[:limit]
    for name in expired:
        del tables.keys[name]
    return len(expired)


def prune_archive(
    tables: Tables, now: datetime, keep: timedelta, limit: int, term: Term | None
) -> int:
    """Delete archived jobs that have been there for longer."""
    if not may_write(tables, term):
        return 0
    old = sorted(
        job_id for job_id, kept in tables.archive.items() if now - kept.archived_at >= keep
    )[:limit]
    for job_id in old:
        del tables.archive[job_id]
    return len(old)


def _due(tables: Tables, now: datetime, request: PruneRequest) -> Iterator[Outcome]:
    """Yield the outcomes behind the mark that are to go."""
    at_least = Rule(request.rules.shortest)
    # Outcomes stand in the order in which they were written: behind the first that is too young
    # there is nothing to look for.
    old = takewhile(
        lambda outcome: at_least.due(now - outcome.finished_at), tables.outcome.values()
    )
    for outcome in sorted(old, key=_place):
        passed = request.after is not None and _place(outcome) <= request.after
        if passed or outcome.state is not request.state:
            continue
        rule = request.rules.of(_queue(tables, outcome.id))
        if rule.due(now - outcome.finished_at) and not _needed(tables, now, outcome.id):
            yield outcome


def _place(outcome: Outcome) -> Mark:
    return Mark(outcome.finished_at, outcome.id)


def _needed(tables: Tables, now: datetime, job_id: UUID) -> bool:
    """Whether somebody may still ask for a job, however old it is."""
    job = tables.job[job_id]
    if job.new.hooks & Hook.FLOW:
        return True
    if any(parked.waits_for == job_id for parked in tables.parked.values()):
        return True
    held = tables.keys.get((IDEMPOTENCY, job.idempotency_key or "", job.new.task))
    return (
        held is not None
        and held.job == job_id
        and held.expires_at is not None
        and held.expires_at > now
    )


def _queue(tables: Tables, job_id: UUID) -> str:
    return tables.job[job_id].new.queue
