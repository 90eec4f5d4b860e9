"""Values for tests: every one complete, with only what a test is about written in the test."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from detent.ids import IdMaker
from detent.model.job import (
    Claim,
    Completion,
    Hook,
    Keys,
    NewJob,
    Priority,
    Settlement,
    lane_of,
    queue_of,
)
from detent.model.retention import Action, Rule, StateRules
from detent.model.state import State
from detent.spi.nodes import NodeIdentity
from detent.spi.retention import Mark, PruneRequest
from detent.spi.scans import Floor, LaneScan
from detent.spi.store import ClaimRequest

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
NO_FLOORS: Final[tuple[Floor | None, ...]] = (None,) * len(Priority)

_ids = IdMaker()


def new_id() -> UUID:
    """Return an id that sorts behind all that were made before."""
    return _ids.new()


def new_job(  # noqa: PLR0913  each is a column that some test is about
    queue: str = "default",
    *,
    job_id: UUID | None = None,
    task: str = "shop.send",
    needs: Sequence[str] = (),
    priority: int = Priority.NORMAL,
    delay: float | None = None,
    due_at: datetime | None = None,
    args: bytes = b"[1,2]",
    tags: list[str] | None = None,
    hooks: int = Hook.NONE,
) -> NewJob:
    """Return a job that is due at once, unless told otherwise."""
    return NewJob(
        id=job_id or new_id(),
        task=task,
        queue=queue,
        lane=lane_of(queue, needs),
        priority=int(priority),
        delay=0.0 if delay is None and due_at is None else delay,
        due_at=due_at,
        args=args,
        codec="json",
        options=None,
        params=None,
        tags=tags,
        hooks=int(hooks),
        principal=None,
        trace=None,
    )


def unique(key: str, on_conflict: str = "raise") -> Keys:
    """Return a business key."""
    return Keys(unique=key, on_conflict=on_conflict)


def idempotent(key: str, ttl: timedelta = HOUR) -> Keys:
    """Return an idempotency key."""
    return Keys(idempotency=key, idempotency_ttl=ttl)


def prepared(job: NewJob, keys: Keys) -> NewJob:
    """Return a job as a client hands it over: with a business key, its end needs a hook."""
    return job._replace(hooks=job.hooks | Hook.KEY) if keys.unique is not None else job


def node_identity(
    name: str = "host-1", *, queues: Mapping[str, int] | None = None, pid: int = 4711
) -> NodeIdentity:
    """Return a node with an incarnation of its own."""
    return NodeIdentity(
        incarnation=new_id(),
        name=name,
        host="host-1.example",
        pid=pid,
        version="0.0",
        queues=queues if queues is not None else {"default": 10},
    )


def lane_scan(
    queue: str = "default",
    *,
    needs: Sequence[str] = (),
    room: int = 100,
    floors: Sequence[Floor | None] = NO_FLOORS,
) -> LaneScan:
    """Return a look at one lane with plenty of room."""
    return LaneScan(lane=lane_of(queue, needs), queue=queue, room=room, floors=floors)


def claim_request(
    node: UUID,
    *scans: LaneScan,
    limit: int = 100,
    boost_interval: timedelta = timedelta(0),
    inline_args: int = 8192,
) -> ClaimRequest:
    """Return a request for jobs of the given lanes; without any, of the default queue."""
    return ClaimRequest(node, scans or (lane_scan(),), limit, boost_interval, inline_args)


def completion(claim: Claim, result: bytes | None = b"3") -> Completion:
    """Return the success of a claim that took 1 1/2 seconds."""
    return Completion(
        id=claim.id,
        fence=claim.fence,
        task=claim.task,
        queue=queue_of(claim.lane),
        lasted=1.5,
        result=result,
    )


def settlement(
    claim: Claim,
    state: State,
    *,
    delay: float | None = None,
    charged: bool = False,
    kind: str | None = None,
    error: bytes | None = None,
    reason: str | None = None,
) -> Settlement:
    """Return any end of a claim."""
    return Settlement(
        *completion(claim, b"3" if state is State.SUCCEEDED else None),
        state=state,
        delay=delay,
        charged=charged,
        kind=kind,
        error=error,
        reason=reason,
    )


def failed(claim: Claim, error: bytes = b'{"type":"ValueError"}') -> Settlement:
    """Return a failure for good."""
    return settlement(claim, State.FAILED, charged=True, kind="failed", error=error)


def retried(claim: Claim, delay: float = 0.0, error: bytes = b'{"type":"OSError"}') -> Settlement:
    """Return a failed attempt that is followed by another."""
    return settlement(claim, State.PENDING, delay=delay, charged=True, kind="failed", error=error)


def released(claim: Claim) -> Settlement:
    """Return the end of a claim that was not used: the job keeps its place."""
    return settlement(claim, State.PENDING)


def parked(claim: Claim, reason: str = "unknown_task") -> Settlement:
    """Return the end of a claim whose job has to wait."""
    return settlement(claim, State.WAITING, reason=reason)


def canceled(claim: Claim, reason: str | None = "no longer wanted") -> Settlement:
    """Return the end of a job that heard of its cancel."""
    return settlement(claim, State.CANCELED, reason=reason)


def prune_request(
    state: State = State.SUCCEEDED,
    *,
    keep: timedelta | None = timedelta(0),
    action: Action = Action.DELETE,
    queues: Mapping[str, Rule] | None = None,
    limit: int = 100,
    after: Mark | None = None,
) -> PruneRequest:
    """Return a request for jobs of one state; without more, for all of them."""
    rules = StateRules.compose(Rule(keep), queues or {}, action)
    return PruneRequest(state, rules, limit, after)
