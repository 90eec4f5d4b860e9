"""The store itself: every method one atomic step over the tables, under one lock."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from detent.errors import WrongConnection
from detent.model.job import (
    Attempt,
    Claim,
    Completion,
    JobFilter,
    JobInfo,
    Keys,
    LogEntry,
    LogLine,
    NewJob,
    Placed,
    Position,
    Progress,
    Settlement,
    Signal,
)
from detent.model.limits import Limit
from detent.model.state import State, Verb
from detent.spi.daemons import DaemonInfo, DaemonReport
from detent.spi.leadership import Bid, Candidate, Leader, Term
from detent.spi.limits import (
    FamilyAnswer,
    FamilyRequest,
    GatedAnswer,
    GatedLane,
    GatedRequest,
    LimitInfo,
)
from detent.spi.locks import LockAnswer, LockInfo
from detent.spi.nodes import Beat, NodeIdentity, NodeInfo
from detent.spi.notifier import Notifier, Wake
from detent.spi.rates import RateAsk, RateVerdict
from detent.spi.rescue import Rescue
from detent.spi.retention import PrunedPage, PruneRequest
from detent.spi.scans import LaneScan
from detent.spi.store import Change, ClaimRequest, PendingCompletion, QueueInfo
from detent.stores.memory import (
    claim,
    context,
    control,
    enqueue,
    families,
    finish,
    history,
    inspect,
    leadership,
    locks,
    nodes,
    rescue,
    retention,
)
from detent.stores.memory import limits as limiting
from detent.stores.memory.breakers import Breaking
from detent.stores.memory.carrier import Statement
from detent.stores.memory.schedules import Scheduling
from detent.stores.memory.tables import Tables
from detent.stores.memory.telling import Telling
from detent.stores.memory.transaction import MemoryConnection, check_claim

P = ParamSpec("P")
R = TypeVar("R")


class MemoryStore(Breaking, Telling, Scheduling):
    """Keeps jobs in this process, with the meaning that every other store must have.

    `now` is the store's clock. `latency` is awaited before and after every step: a simulation
    lets others run there, or raises, which is a request (before) or a reply (after) that was
    lost. The lock makes the store usable from several threads, each with its own event loop. What
    nodes should hear of besides new jobs is published by the `notifier`, if there is one.
    """

    def __init__(
        self,
        now: Callable[[], datetime] | None = None,
        *,
        latency: Callable[[], Awaitable[None]] | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._now = now or _utc_now
        self._latency = latency
        self._notifier = notifier
        self._lock = threading.Lock()
        self._tables = Tables(wakes=None if notifier is None else {})

    async def open(self) -> None:
        """There is nothing to reach."""

    def connections(self) -> int:
        return 0

    async def close(self) -> None:
        """Keep everything: a store that is opened again still knows its jobs."""

    # Taking jobs

    async def enqueue_jobs(self, jobs: Sequence[NewJob], tell: Sequence[Wake] = ()) -> bool:
        await self._do(enqueue.enqueue_jobs, jobs)
        return False

    async def enqueue_keyed(self, job: NewJob, keys: Keys) -> Placed:
        return await self._do(enqueue.enqueue_keyed, job, keys)

    async def enqueue_within(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        if not isinstance(connection, MemoryConnection):
            raise _not_ours(connection)
        return await self._do(connection.enqueue, jobs, keys)

    def enqueue_within_sync(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        raise _not_ours(connection)

    # Giving them to nodes

    async def claim_jobs(self, request: ClaimRequest) -> list[Claim]:
        return await self._do(claim.claim_jobs, request)

    async def look(self, lanes: Sequence[str]) -> list[Position]:
        return await self._do(claim.look, lanes)

    async def needy_lanes(self, queues: Sequence[str]) -> list[str]:
        return await self._do(claim.needy_lanes, queues)

    async def next_due(self, scans: Sequence[LaneScan]) -> dict[str, float]:
        return await self._do(claim.next_due, scans)

    async def load_args(self, claims: Sequence[Claim]) -> Mapping[UUID, bytes]:
        return await self._do(claim.load_args, claims)

    # Taking the ends of claims

    async def finish_jobs(self, node: UUID, completions: Sequence[Completion]) -> list[UUID]:
        return await self._do(finish.finish_jobs, node, completions)

    async def settle_jobs(self, node: UUID, settlements: Sequence[Settlement]) -> list[UUID]:
        return await self._do(finish.settle_jobs, node, settlements)

    async def finish_hooked(
        self, node: UUID, settlements: Sequence[Settlement], *, patience: float | None = None
    ) -> list[UUID]:
        return await self._do(finish.finish_hooked, node, settlements)

    # Knowing the nodes

    async def join(self, node: NodeIdentity, lease: timedelta, *, ready: bool = True) -> datetime:
        return await self._do(nodes.join, node, lease, ready=ready)

    async def beat(
        self, node: UUID, lease: timedelta, load: Mapping[str, float] | None = None
    ) -> Beat:
        return await self._do(nodes.beat, node, lease, load)

    async def drain(self, node: UUID, *, returns: bool = False) -> None:
        return await self._do(nodes.drain, node, returns=returns)

    async def leave(self, node: UUID) -> None:
        return await self._do(nodes.leave, node)

    async def nodes(self) -> list[NodeInfo]:
        return await self._do(nodes.nodes)

    async def adopt_jobs(self, tasks: Sequence[str], limit: int) -> int:
        return await self._do(nodes.adopt_jobs, tasks, limit)

    async def claims_of(self, node: UUID) -> list[tuple[UUID, int]]:
        return await self._do(nodes.claims_of, node)

    async def release_claims(self, node: UUID, claims: Sequence[tuple[UUID, int]]) -> int:
        return await self._do(nodes.release_claims, node, claims)

    async def rescue(self, limit: int, max_crashes: int, *, everywhere: bool = False) -> Rescue:
        return await self._do(rescue.rescue, limit, max_crashes, everywhere=everywhere)

    async def declare_dead(
        self, nodes: Sequence[UUID], reason: str, *, fenced: bool = False
    ) -> int:
        return await self._do(rescue.declare_dead, nodes, reason, fenced=fenced)

    async def forget_nodes(self, dead_for: timedelta, limit: int) -> int:
        return await self._do(rescue.forget_nodes, dead_for, limit)

    # Serving running jobs

    async def signals_for(self, node: UUID) -> list[Signal]:
        return await self._do(context.signals_for, node)

    async def save_progress(self, node: UUID, progress: Sequence[Progress]) -> None:
        return await self._do(context.save_progress, node, progress)

    async def append_log(self, node: UUID, lines: Sequence[LogLine]) -> None:
        return await self._do(context.append_log, node, lines)

    @asynccontextmanager
    async def transaction(
        self, node: UUID, claim: Claim, completion: PendingCompletion
    ) -> AsyncIterator[MemoryConnection]:
        await self._do(check_claim, node, claim)
        connection = MemoryConnection()
        connection.finish(node, claim, completion)
        yield connection
        await self._do(self._commit, connection)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[MemoryConnection]:
        """Open a transaction of the caller's own, for `enqueue_within`."""
        connection = MemoryConnection()
        yield connection
        await self._do(self._commit, connection)

    # Letting people change and see them

    async def control_job(self, verb: Verb, job_id: UUID, change: Change) -> State:
        return await self._do(control.control_job, verb, job_id, change)

    async def control_page(self, verb: Verb, where: JobFilter, limit: int, change: Change) -> int:
        return await self._do(control.control_page, verb, where, limit, change)

    async def delete_page(self, where: JobFilter, limit: int) -> int:
        return await self._do(control.delete_page, where, limit)

    async def delete_jobs(self, ids: Sequence[UUID]) -> list[UUID]:
        return await self._do(control.delete_jobs, ids)

    async def pause_queue(self, queue: str) -> None:
        return await self._do(control.pause_queue, queue)

    async def resume_queue(self, queue: str) -> None:
        return await self._do(control.resume_queue, queue)

    async def scale_queue(self, queue: str, slots: int | None) -> None:
        return await self._do(control.scale_queue, queue, slots)

    async def get_jobs(self, ids: Sequence[UUID]) -> list[JobInfo]:
        return await self._do(inspect.get_jobs, ids)

    async def list_jobs(
        self, where: JobFilter, limit: int, before: UUID | None = None
    ) -> list[JobInfo]:
        return await self._do(inspect.list_jobs, where, limit, before)

    async def ended(self, ids: Sequence[UUID]) -> list[JobInfo]:
        return await self._do(inspect.ended, ids)

    async def attempts(self, job_id: UUID) -> list[Attempt]:
        return await self._do(inspect.attempts, job_id)

    async def log_of(self, job_id: UUID, limit: int) -> list[LogEntry]:
        return await self._do(inspect.log_of, job_id, limit)

    async def queues(self) -> list[QueueInfo]:
        return await self._do(inspect.queues)

    # Leading

    async def elect(
        self, candidate: Candidate, bids: Sequence[Bid], lease: timedelta
    ) -> list[Leader]:
        return await self._do(leadership.elect, candidate, bids, lease)

    async def resign(self, candidate: UUID, terms: Sequence[Term]) -> list[str]:
        return await self._do(leadership.resign, candidate, terms)

    async def leaders(self) -> list[Leader]:
        return await self._do(leadership.leaders)

    async def fence_within(self, connection: Any, term: Term) -> None:
        if not isinstance(connection, MemoryConnection):
            raise _not_ours(connection)
        await self._do(connection.fence, term)

    def fence_within_sync(self, connection: Any, term: Term) -> None:
        raise _not_ours(connection)

    async def save_daemon(self, term: Term, report: DaemonReport) -> bool:
        return await self._do(leadership.save_daemon, term, report)

    async def daemons(self) -> list[DaemonInfo]:
        return await self._do(leadership.daemons)

    # Locking

    async def acquire_lock(self, name: str, holder: UUID, owner: str, ttl: timedelta) -> LockAnswer:
        return await self._do(locks.acquire_lock, name, holder, owner, ttl)

    async def renew_lock(self, name: str, holder: UUID, ttl: timedelta) -> bool:
        return await self._do(locks.renew_lock, name, holder, ttl)

    async def release_lock(self, name: str, holder: UUID) -> bool:
        return await self._do(locks.release_lock, name, holder)

    async def force_release(self, name: str) -> LockInfo | None:
        return await self._do(locks.force_release, name)

    async def locks(self) -> list[LockInfo]:
        return await self._do(locks.locks)

    async def forget_locks(self, term: Term, expired_for: timedelta, limit: int) -> int:
        return await self._do(locks.forget_locks, term, expired_for, limit)

    # Numbers

    async def raise_numbers(self, above: int) -> None:
        return await self._do(history.raise_numbers, above)

    # Limits and rates

    async def declare_limits(self, limits: Sequence[Limit]) -> None:
        return await self._do(limiting.declare_limits, limits)

    async def set_limit(self, limit: Limit) -> None:
        return await self._do(limiting.set_limit, limit)

    async def reset_limit(self, name: str) -> Limit | None:
        return await self._do(limiting.reset_limit, name)

    async def limits(self) -> list[LimitInfo]:
        return await self._do(limiting.limits)

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        return await self._do(limiting.claim_gated, request)

    async def claim_family(self, request: FamilyRequest) -> FamilyAnswer:
        return await self._do(families.claim_family, request)

    async def gated_lanes(
        self,
        queues: Sequence[str],
        after: str,
        limit: int,
        boost_interval: timedelta,
        whole: Sequence[str] = (),
    ) -> list[GatedLane]:
        return await self._do(limiting.gated_lanes, queues, after, limit, boost_interval, whole)

    async def take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        return await self._do(limiting.take_rates, asks)

    async def forget_rates(self, idle_seconds: float, limit: int, term: Term | None = None) -> int:
        return await self._do(limiting.forget_rates, idle_seconds, limit, term)

    async def forget_holds(self, limit: int, term: Term | None = None) -> int:
        return await self._do(limiting.forget_holds, limit, term)

    # Letting them go

    async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
        return await self._do(retention.prune_jobs, request)

    async def prune_keys(self, limit: int, term: Term | None = None) -> int:
        return await self._do(retention.prune_keys, limit, term)

    async def prune_archive(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        return await self._do(retention.prune_archive, keep, limit, term)

    async def _do(self, statement: Statement[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry out one statement at one moment; nothing is awaited while the lock is held."""
        if self._latency is not None:
            await self._latency()
        with self._lock:
            answer = statement(self._tables, self._now(), *args, **kwargs)
            wakes = self._take_wakes()
        if wakes and self._notifier is not None:
            self._notifier.publish(wakes)
        if self._latency is not None:
            await self._latency()
        return answer

    def _take_wakes(self) -> Sequence[Wake]:
        wakes = self._tables.wakes
        if not wakes:
            return ()
        self._tables.wakes = {}
        return list(wakes)

    def _commit(self, tables: Tables, now: datetime, connection: MemoryConnection) -> None:
        self._tables = connection.commit(tables, now)


def _not_ours(connection: object) -> WrongConnection:
    return WrongConnection(
        "within= needs a database, and the jobs of this app live in memory; "
        f"it cannot join the transaction of a {type(connection).__qualname__}"
    )


def _utc_now() -> datetime:
    return datetime.now(UTC)
