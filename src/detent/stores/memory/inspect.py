"""Answering questions about jobs and queues."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from detent.model.job import Attempt, JobFilter, JobInfo, LogEntry, needs_of, queue_of
from detent.spi.nodes import UNSTARTED
from detent.spi.store import QueueInfo
from detent.stores.memory.nodes import DEAD
from detent.stores.memory.tables import CANCEL, UNKNOWN_TASK, Job, Outcome, Tables


def get_jobs(tables: Tables, now: datetime, ids: Sequence[UUID]) -> list[JobInfo]:
    """Return the known jobs among `ids`, in that order."""
    known = [job_id for job_id in ids if job_id in tables.job or job_id in tables.archive]
    return [_info(tables, job_id) for job_id in known]


def list_jobs(
    tables: Tables, now: datetime, where: JobFilter, limit: int, before: UUID | None
) -> list[JobInfo]:
    """Return matching jobs, the newest first."""
    newest_first = reversed(matching(tables, where))
    below = [job_id for job_id in newest_first if before is None or job_id < before]
    return [_info(tables, job_id) for job_id in below[:limit]]


def ended(tables: Tables, now: datetime, ids: Sequence[UUID]) -> list[JobInfo]:
    """Return those of `ids` that have ended."""
    known = [job_id for job_id in ids if job_id in tables.outcome or job_id in tables.archive]
    return [_info(tables, job_id) for job_id in known]


def attempts(tables: Tables, now: datetime, job_id: UUID) -> list[Attempt]:
    """Return the attempts that did not succeed, the oldest first."""
    return list(tables.attempts.get(job_id, ()))


def log_of(tables: Tables, now: datetime, job_id: UUID, limit: int) -> list[LogEntry]:
    """Return the first log lines of a job, the oldest first."""
    return list(tables.log.get(job_id, ())[:limit])


def queues(tables: Tables, now: datetime) -> list[QueueInfo]:
    """Return the queues that hold live jobs or were paused, by name."""
    live = {job.new.queue: False for job_id, job in tables.job.items() if _live(tables, job_id)}
    return [_queue(tables, now, name) for name in sorted(live | tables.queues)]


def matching(tables: Tables, where: JobFilter) -> list[UUID]:
    """Return the ids of all jobs that a filter means, in id order."""
    if where.archived:
        return sorted(
            job_id
            for job_id, kept in tables.archive.items()
            if _matches(kept.job, where)
            and (not where.states or kept.outcome.state in where.states)
        )
    return sorted(
        job_id
        for job_id, job in tables.job.items()
        if _matches(job, where) and (not where.states or tables.state_of(job_id) in where.states)
    )


def _matches(job: Job, where: JobFilter) -> bool:
    return all(
        (
            where.task is None or where.task == job.new.task,
            where.queue is None or where.queue == job.new.queue,
            where.tag is None or where.tag in (job.new.tags or ()),
            where.key is None or where.key in (job.idempotency_key, job.unique_key),
            where.since is None or where.since <= job.enqueued_at,
            where.until is None or where.until >= job.enqueued_at,
        )
    )


def _live(tables: Tables, job_id: UUID) -> bool:
    return job_id not in tables.outcome


def _queue(tables: Tables, now: datetime, name: str) -> QueueInfo:
    due_times = [place.due_at for place in tables.ready.values() if queue_of(place.lane) == name]
    running = [claim for claim in tables.running.values() if queue_of(claim.place.lane) == name]
    overdue = [due_at for due_at in due_times if due_at <= now]
    reasons = [row.reason for row in tables.parked.values() if queue_of(row.place.lane) == name]
    nodes = [node for node in tables.nodes.values() if node.state != DEAD]
    unstarted = int(sum(node.load.get(f"{UNSTARTED}{name}", 0) for node in nodes))
    return QueueInfo(
        name=name,
        paused=tables.queues.get(name, False),
        pending=len(due_times),
        due=len(overdue),
        running=len(running),
        oldest_due_at=min(overdue, default=None),
        slots=tables.slots.get(name),
        started=max(len(running) - unstarted, 0),
        paused_jobs=reasons.count("paused"),
        unknown=reasons.count(UNKNOWN_TASK),
        served=any(
            node.state == "active" and node.lease_until > now and name in node.queues
            for node in nodes
        ),
    )


def _info(tables: Tables, job_id: UUID) -> JobInfo:
    job = tables.job.get(job_id)
    if job is None:
        kept = tables.archive[job_id]
        return replace(_ended_info(kept.job, kept.outcome), archived_at=kept.archived_at)
    outcome = tables.outcome.get(job_id)
    if outcome is not None:
        late = (job_id, CANCEL) in tables.signals
        return replace(_ended_info(job, outcome), cancel_too_late=late)
    place = tables.place_of(job_id)
    claim = tables.running.get(job_id)
    parked = tables.parked.get(job_id)
    progress = tables.progress.get(job_id)
    return JobInfo(
        id=job_id,
        task=job.new.task,
        queue=job.new.queue,
        state=tables.state_of(job_id),
        priority=place.priority,
        attempt=place.attempt,
        generation=place.generation,
        crashes=place.crashes,
        enqueued_at=job.enqueued_at,
        due_at=place.due_at,
        started_at=claim.claimed_at if claim else None,
        node=claim.node if claim else None,
        fence=claim.fence if claim else None,
        needs=needs_of(place.lane),
        tags=tuple(job.new.tags or ()),
        args=job.new.args,
        codec=job.new.codec,
        params=job.new.params,
        options=job.new.options,
        idempotency_key=job.idempotency_key,
        unique_key=job.unique_key,
        principal=job.new.principal,
        reason=parked.reason if parked else None,
        cancel_requested=(job_id, CANCEL) in tables.signals,
        progress=progress.fraction if progress else None,
        progress_message=progress.message if progress else None,
    )


def _ended_info(job: Job, outcome: Outcome) -> JobInfo:
    return JobInfo(
        id=outcome.id,
        task=job.new.task,
        queue=job.new.queue,
        state=outcome.state,
        priority=job.new.priority,
        attempt=outcome.attempt,
        generation=outcome.generation,
        crashes=0,
        enqueued_at=job.enqueued_at,
        due_at=job.due_at,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
        duration=outcome.duration,
        node=outcome.node,
        fence=outcome.fence,
        needs=needs_of(job.new.lane),
        tags=tuple(job.new.tags or ()),
        args=job.new.args,
        codec=job.new.codec,
        params=job.new.params,
        options=job.new.options,
        idempotency_key=job.idempotency_key,
        unique_key=job.unique_key,
        principal=job.new.principal,
        result=outcome.result,
        error=outcome.error,
        reason=outcome.reason,
        superseded_by=outcome.superseded_by,
    )
