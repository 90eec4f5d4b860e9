"""Ending the claims of dead nodes, with the meaning that every other store must have."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from detent.model.job import Attempt, queue_of
from detent.model.lease import ends_at, witnessed_since
from detent.model.rescue import UNSTARTED, Held, LostClaim, Verdict, evidence, examine, judge, turn
from detent.model.state import State
from detent.spi.notifier import Hint
from detent.spi.rescue import DeadNode, Orphan, Rescue, Rescued
from detent.stores.memory.ending import end, wake_waiting
from detent.stores.memory.tables import CANCEL, UNIQUE, Node, Outcome, Running, Tables

DEAD = "dead"


def rescue(
    tables: Tables, now: datetime, limit: int, max_crashes: int, *, everywhere: bool = False
) -> Rescue:
    """Declare expired nodes dead and take claims from the dead."""
    known = [node for node in tables.nodes.values() if node.state != DEAD]
    witnessed = witnessed_since((node.pulse for node in known), now)
    expired = [node for node in known if ends_at(node.pulse, witnessed) <= now]
    for node in expired:
        _bury(tables, now, node, "its lease ran out")
    living = {node.incarnation for node in tables.nodes.values() if node.state != DEAD}
    lost = sorted(job_id for job_id, claim in tables.running.items() if claim.node not in living)
    for node in list(tables.nodes.values()):
        if node.state == DEAD and node.autopsy is None:
            _examine(tables, node, max_crashes)
    looked_at = sorted(tables.running) if everywhere else lost
    orphans = [job_id for job_id in looked_at if job_id not in tables.job][:limit]
    jobs = [
        _rescue_one(tables, now, job_id, max_crashes)
        for job_id in lost[:limit]
        if job_id in tables.job
    ]
    return Rescue(
        [DeadNode(node.incarnation, node.name, node.host, node.pid) for node in expired],
        jobs,
        orphans=tuple(_remove_orphan(tables, now, job_id) for job_id in orphans),
    )


def declare_dead(
    tables: Tables, now: datetime, nodes: Sequence[UUID], reason: str, *, fenced: bool = False
) -> int:
    """Declare living nodes dead."""
    found = [tables.nodes[node] for node in nodes if node in tables.nodes]
    living = [node for node in found if node.state != DEAD]
    for node in living:
        _bury(tables, now, node, reason, fenced=fenced)
    return len(living)


def forget_nodes(tables: Tables, now: datetime, dead_for: timedelta, limit: int) -> int:
    """Remove nodes that have been dead for long."""
    holding = {claim.node for claim in tables.running.values()}
    gone = [
        node.incarnation
        for node in sorted(tables.nodes.values())
        if node.dead_at is not None
        and node.dead_at <= now - dead_for
        and node.incarnation not in holding
    ][:limit]
    for incarnation in gone:
        del tables.nodes[incarnation]
    return len(gone)


def _remove_orphan(tables: Tables, now: datetime, job_id: UUID) -> Orphan:
    """Remove a claim whose job has no row, with what else is kept of the job."""
    claim = tables.running.pop(job_id)
    tables.progress.pop(job_id, None)
    tables.signals.pop((job_id, CANCEL), None)
    for name, key in list(tables.keys.items()):
        if name[0] == UNIQUE and key.job == job_id:
            del tables.keys[name]
    wake_waiting(tables, now, job_id, None)
    tables.tell(Hint(claim.place.lane))
    return Orphan(job_id, claim.fence, claim.node, claim.place.lane)


def _bury(tables: Tables, now: datetime, node: Node, reason: str, *, fenced: bool = False) -> None:
    tables.nodes[node.incarnation] = node._replace(
        state=DEAD, dead_at=now, death=reason, fenced=fenced
    )


def _examine(tables: Tables, node: Node, max_crashes: int) -> None:
    """Count what a dead node holds, before the first of its claims is ended."""
    held = [
        Held(
            claim.place.lane,
            claim.place.crashes,
            turn(claim.fence, claim.place.priority, claim.place.due_at, claim.place.id),
        )
        for claim in tables.running.values()
        if claim.node == node.incarnation
    ]
    autopsy = examine(held, {**node.queues, **tables.slots}, max_crashes)
    tables.nodes[node.incarnation] = node._replace(autopsy=autopsy)


def _rescue_one(tables: Tables, now: datetime, job_id: UUID, max_crashes: int) -> Rescued:
    claim = tables.running[job_id]
    lost = _lost(tables, job_id, claim)
    verdict = judge(lost, max_crashes)
    error = evidence(lost, verdict)
    if verdict.kind is not None:
        tried = Attempt(
            number=claim.place.attempt,
            generation=claim.place.generation,
            kind=verdict.kind,
            node=claim.node,
            started_at=claim.claimed_at,
            ended_at=now,
            error=error,
            alone=verdict.alone,
        )
        tables.attempts[job_id] = (*tables.attempts.get(job_id, ()), tried)
    if verdict.state is State.PENDING:
        del tables.running[job_id]
        tables.progress.pop(job_id, None)
        tables.hold(claim)
        tables.put_back(claim.place._replace(crashes=verdict.crashes, lane=verdict.lane))
    else:
        end(tables, now, _outcome(now, lost, claim, verdict, error))
    return Rescued(
        job_id,
        lost.task,
        lost.queue,
        claim.node,
        verdict.state,
        verdict.crashes,
        claim.place.attempt,
    )


def _lost(tables: Tables, job_id: UUID, claim: Running) -> LostClaim:
    node = tables.nodes.get(claim.node)
    tried = [
        each
        for each in tables.attempts.get(job_id, ())
        if each.generation == claim.place.generation
    ]
    return LostClaim(
        id=job_id,
        fence=claim.fence,
        node=claim.node,
        task=tables.job[job_id].new.task,
        queue=queue_of(claim.place.lane),
        lane=claim.place.lane,
        crashes=claim.place.crashes,
        priority=claim.place.priority,
        due_at=claim.place.due_at,
        hooks=claim.place.hooks,
        cancel_requested=(job_id, CANCEL) in tables.signals,
        cancel_reason=tables.signals.get((job_id, CANCEL)),
        alone=sum(each.alone for each in tried),
        unstarted=sum(each.kind == UNSTARTED for each in tried),
        node_name=None if node is None else node.name,
        host=None if node is None else node.host,
        pid=None if node is None else node.pid,
        fenced=node is not None and node.fenced,
        autopsy=None if node is None else node.autopsy,
        claimed_at=claim.claimed_at,
    )


def _outcome(
    now: datetime, lost: LostClaim, claim: Running, verdict: Verdict, error: bytes | None
) -> Outcome:
    failed = verdict.state is State.FAILED
    return Outcome(
        id=lost.id,
        state=verdict.state,
        generation=claim.place.generation,
        attempt=claim.place.attempt,
        finished_at=now,
        fence=claim.fence,
        node=claim.node,
        started_at=claim.claimed_at,
        duration=now - claim.claimed_at,
        error=error if failed else None,
        reason=None if failed else lost.cancel_reason,
    )
