"""Keeps the permits of calls that go on after their jobs have ended, on the node that knows.

A permit is a running row: it goes with the end of a job. The thread or the coroutine of a job that
has timed out may go on for long after that, with the connection that its limit was about. So this
node takes no more through a gate than its limit leaves beside what is stuck here. Other nodes do
not know of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, Protocol
from uuid import UUID

from detent._engine.attempt import Attempt
from detent.model.gates import QUEUE, Gate, family_of, gate_name, gates_of
from detent.model.job import queue_of
from detent.model.limits import Limit
from detent.spi.limits import (
    NOT_OFFERED,
    FamilyAnswer,
    FamilyRequest,
    GatedAnswer,
    GatedLane,
    GatedRequest,
    LaneAnswer,
    LimitStore,
)
from detent.spi.runtime import Runtime

# How often the limits are read anew while calls are stuck.
READ: Final = 5.0


class GateStore(Protocol):
    """The part of a `LimitStore` that gives jobs behind gates to nodes."""

    async def declare_limits(self, limits: Sequence[Limit]) -> None:
        """See `LimitStore.declare_limits`."""

    async def gated_lanes(
        self,
        queues: Sequence[str],
        after: str,
        limit: int,
        boost_interval: timedelta,
        whole: Sequence[str] = (),
    ) -> list[GatedLane]:
        """See `LimitStore.gated_lanes`."""

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """See `LimitStore.claim_gated`."""

    async def claim_family(self, request: FamilyRequest) -> FamilyAnswer:
        """See `LimitStore.claim_family`."""


class KeptPermits:
    """Claims through gates as the store does, but for what is stuck on this node."""

    def __init__(
        self,
        runtime: Runtime,
        store: LimitStore,
        stuck: Callable[[], Iterable[Attempt]],
        held: Mapping[UUID, Attempt],
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._stuck = stuck
        self._held = held
        self._limits: Mapping[str, int] = {}
        self._read_at = -READ

    async def declare_limits(self, limits: Sequence[Limit]) -> None:
        """See `LimitStore.declare_limits`."""
        await self._store.declare_limits(limits)

    async def gated_lanes(
        self,
        queues: Sequence[str],
        after: str,
        limit: int,
        boost_interval: timedelta,
        whole: Sequence[str] = (),
    ) -> list[GatedLane]:
        """See `LimitStore.gated_lanes`."""
        return await self._store.gated_lanes(queues, after, limit, boost_interval, whole)

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """See `LimitStore.claim_gated`."""
        kept = _taken(_all(self._stuck()))
        if not kept:
            return await self._store.claim_gated(request)
        await self._read_limits()
        left = self._left(kept)
        capped: dict[str, str] = {}
        scans = []
        for scan in request.scans:
            room, blocking = scan.room, None
            for gate in _gates(scan.lane):
                if gate.name in left and left[gate.name] // gate.weight < room:
                    room, blocking = max(left[gate.name] // gate.weight, 0), gate.name
            if blocking is not None:
                capped[scan.lane] = blocking
            for gate in _gates(scan.lane):
                if gate.name in left:
                    left[gate.name] -= room * gate.weight
            scans.append(replace(scan, room=room))
        answer = await self._store.claim_gated(replace(request, scans=scans))
        rooms = {scan.lane: scan.room for scan in scans}
        lanes = [_told(each, capped.get(each.lane), rooms[each.lane]) for each in answer.lanes]
        return answer._replace(lanes=lanes)

    async def claim_family(self, request: FamilyRequest) -> FamilyAnswer:
        """See `LimitStore.claim_family`; where a call is stuck, lanes are asked one by one."""
        if any(family_of(each.claim.lane) == request.family for each in _all(self._stuck())):
            return NOT_OFFERED
        return await self._store.claim_family(request)

    async def _read_limits(self) -> None:
        now = self._runtime.monotonic()
        if now - self._read_at < READ:
            return
        found = [info.limit for info in await self._store.limits()]
        self._limits = {
            limit.name: limit.concurrency for limit in found if limit.concurrency is not None
        }
        self._read_at = now

    def _left(self, kept: Mapping[str, int]) -> dict[str, int]:
        """Return how much of each gate this node may still take, of those where calls are stuck."""
        # What is stuck is counted apart, also while its end is not yet written.
        known = {each.claim.id: each for each in _all(self._stuck())}
        held = _taken(each for each in self._held.values() if each.claim.id not in known)
        left = {}
        for name, stuck in kept.items():
            limit = self._limits.get(Gate(name).definition)
            if limit is not None:
                left[name] = limit - stuck - held[name]
        return left


def _gates(lane: str) -> list[Gate]:
    return [*gates_of(lane), Gate(gate_name(QUEUE, queue_of(lane)))]


def _taken(attempts: Iterable[Attempt]) -> Counter[str]:
    taken: Counter[str] = Counter()
    for attempt in attempts:
        for gate in _gates(attempt.claim.lane):
            taken[gate.name] += gate.weight
    return taken


def _all(leads: Iterable[Attempt]) -> list[Attempt]:
    """Return attempts, and for the first of a batch all that it stands for."""
    return [
        each for lead in leads for each in ((lead,) if lead.batch is None else lead.batch.attempts)
    ]


def _told(answer: LaneAnswer, gate: str | None, room: int) -> LaneAnswer:
    """Return an answer that says by which gate a lane was kept from giving more."""
    ended = gate is None or answer.blocked_by is not None or answer.due_in != 0
    if ended or answer.taken < room:
        return answer
    return answer._replace(blocked_by=gate)
