"""Limits: what is declared, who is let in, and rates; derived from the running rows, so exact."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Final

from detent.model.gates import QUEUE, Gate, gate_name, gates_of, is_gated
from detent.model.job import Claim, queue_of
from detent.model.limits import (
    Admission,
    Bucket,
    Limit,
    Opening,
    Pass,
    full_again,
    left_in_window,
    token_wait,
    tokens_now,
    window_wait,
)
from detent.model.rates import Algorithm, Rate
from detent.spi.limits import GatedAnswer, GatedLane, GatedRequest, LaneAnswer, LimitInfo
from detent.spi.rates import RateAsk, RateVerdict
from detent.spi.scans import LaneScan
from detent.stores.memory.claim import order_at, take, visible
from detent.stores.memory.nodes import ACTIVE
from detent.stores.memory.tables import Kept, Rule, Tables

CRUMB: Final = 1e-6


def declare_limits(tables: Tables, now: datetime, limits: Sequence[Limit]) -> None:
    """Keep what code says; an operator's word stays."""
    for limit in limits:
        known = tables.limits.get(limit.name)
        holds = known.limit if known is not None and known.edited else limit
        edited = known is not None and known.edited
        tables.limits[limit.name] = Rule(holds, limit, edited)


def set_limit(tables: Tables, now: datetime, limit: Limit) -> None:
    """Keep what an operator says."""
    known = tables.limits.get(limit.name)
    tables.limits[limit.name] = Rule(limit, None if known is None else known.declared, True)


def reset_limit(tables: Tables, now: datetime, name: str) -> Limit | None:
    """Go back to what code says."""
    known = tables.limits.pop(name, None)
    if known is None or known.declared is None:
        return None
    tables.limits[name] = Rule(known.declared, known.declared, False)
    return known.declared


def limits(tables: Tables, now: datetime) -> list[LimitInfo]:
    """Return all limits, with what running jobs take of them."""
    return [
        LimitInfo(rule.limit, rule.declared, rule.edited, _running(tables, name))
        for name, rule in sorted(tables.limits.items())
    ]


def claim_gated(tables: Tables, now: datetime, request: GatedRequest) -> GatedAnswer:
    """Move jobs to running, lane by lane, as far as their gates are open."""
    node = tables.nodes.get(request.node)
    if node is None or node.state != ACTIVE or node.lease_until <= now:
        return GatedAnswer([], [])
    tables.fence += 1
    gates = {scan.lane: _gates(scan) for scan in request.scans}
    openings = _openings(tables, now, [gate for each in gates.values() for gate in each])
    admission = Admission(openings)
    claims: list[Claim] = []
    answers = []
    for scan, free in zip(request.scans, request.free, strict=True):
        wish = min(scan.room, request.limit - len(claims))
        if admission.under_rate(gates[scan.lane]):
            wish = min(wish, free)
        if tables.queues.get(scan.queue, False):
            wish = 0
        room, narrow = admission.room(gates[scan.lane], wish)
        best = nsmallest(room, visible(tables, now, scan), order_at(now, request.boost_interval))
        held = tuple(admission.held(gates[scan.lane]))
        taken = [take(tables, now, place, request, held) for place in best]
        admission.use(gates[scan.lane], len(taken))
        blocked = narrow if len(taken) == room else None
        retry = None if blocked is None else admission.wait(blocked)
        answers.append((scan, len(taken), None if blocked is None else blocked.name, retry))
        claims += taken
    _remember(tables, now, openings)
    return GatedAnswer(
        claims,
        [
            LaneAnswer(scan.lane, taken, blocked, retry, _due_in(tables, now, scan))
            for scan, taken, blocked, retry in answers
        ],
    )


def gated_lanes(
    tables: Tables, now: datetime, queues: Sequence[str], after: str, limit: int
) -> list[GatedLane]:
    """Return the lanes with gates that hold jobs, and when the first of each is due."""
    first: dict[str, datetime] = {}
    for place in tables.ready.values():
        lane = place.lane
        if not is_gated(lane) or queue_of(lane) not in queues or lane.encode() <= after.encode():
            continue
        first[lane] = min(first.get(lane, place.due_at), place.due_at)
    return [
        GatedLane(lane, max((first[lane] - now).total_seconds(), 0.0))
        for lane in sorted(first, key=str.encode)[:limit]
    ]


def take_rates(tables: Tables, now: datetime, asks: Sequence[RateAsk]) -> list[RateVerdict]:
    """Answer asks in order, each seeing those before."""
    return [_take_rate(tables, now, ask) for ask in asks]


def forget_rates(tables: Tables, now: datetime, idle_seconds: float, limit: int) -> int:
    """Forget buckets that are full and windows that are empty, for that long."""
    before = now - timedelta(seconds=idle_seconds)
    full = [name for name, kept in sorted(tables.rates.items()) if kept.until <= before][:limit]
    for name in full:
        del tables.rates[name]
    return len(full)


def _take_rate(tables: Tables, now: datetime, ask: RateAsk) -> RateVerdict:
    kept, rate = tables.rates.get(ask.name), ask.rate
    left = _left(kept, rate, now)
    if left + CRUMB < ask.wanted:
        return RateVerdict(False, int(left + CRUMB), _wait(kept, rate, now, ask.wanted))
    tables.rates[ask.name] = _used(kept, rate, now, ask.wanted)
    return RateVerdict(True, int(left - ask.wanted + CRUMB), 0.0)


def _left(kept: Kept | None, rate: Rate, now: datetime) -> float:
    if rate.algorithm is Algorithm.WINDOW:
        return left_in_window(() if kept is None else kept.passes, rate, now)
    return tokens_now(None if kept is None else kept.bucket, rate, now)


def _wait(kept: Kept | None, rate: Rate, now: datetime, count: int) -> float:
    if rate.algorithm is Algorithm.WINDOW:
        return window_wait(() if kept is None else kept.passes, rate, now, count)
    return token_wait(_left(kept, rate, now), rate, count)


def _used(kept: Kept | None, rate: Rate, now: datetime, count: int) -> Kept:
    if rate.algorithm is Algorithm.WINDOW:
        passes = () if kept is None else kept.passes
        recent = [each for each in passes if each.at > now - rate.per]
        return Kept(None, (*recent, Pass(now, count)), now + rate.per)
    bucket = Bucket(_left(kept, rate, now) - count, now)
    return Kept(bucket, (), full_again(bucket, rate))


def _gates(scan: LaneScan) -> list[Gate]:
    return [*gates_of(scan.lane), Gate(gate_name(QUEUE, scan.queue))]


def _openings(tables: Tables, now: datetime, gates: Sequence[Gate]) -> dict[str, Opening]:
    openings = {}
    for gate in gates:
        rule = tables.limits.get(gate.definition)
        if rule is None:
            continue
        kept = tables.rates.get(gate.name)
        used = sum(
            held.weight
            for claim in tables.running.values()
            for held in claim.permits
            if held.name == gate.name
        )
        openings[gate.name] = Opening(
            rule.limit,
            now,
            used,
            None if kept is None else kept.bucket,
            () if kept is None else kept.passes,
        )
    return openings


def _remember(tables: Tables, now: datetime, openings: dict[str, Opening]) -> None:
    for name, opening in openings.items():
        rate = opening.limit.rate
        if rate is not None and opening.taken:
            tables.rates[name] = _used(tables.rates.get(name), rate, now, opening.taken)


def _due_in(tables: Tables, now: datetime, scan: LaneScan) -> float | None:
    moments = [place.due_at for place in tables.ready.values() if place.lane == scan.lane]
    return max((min(moments) - now).total_seconds(), 0.0) if moments else None


def _running(tables: Tables, definition: str) -> int:
    return sum(
        gate.weight
        for claim in tables.running.values()
        for gate in claim.permits
        if gate.definition == definition
    )
