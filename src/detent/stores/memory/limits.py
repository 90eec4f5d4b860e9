"""Limits: what is declared, who is let in, and rates; derived from the running rows, so exact."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Any

from detent.model.gates import FAIR, QUEUE, Gate, family_of, gate_name, gates_of, is_gated
from detent.model.job import Claim, queue_of
from detent.model.limits import Admission, Holder, Limit, Opening
from detent.model.rates import NOTHING_TAKEN, Grants, Rate, matters_until
from detent.model.rates import take as take_rate
from detent.spi.leadership import Term
from detent.spi.limits import GatedAnswer, GatedLane, GatedRequest, Head, LaneAnswer, LimitInfo
from detent.spi.rates import RateAsk, RateVerdict
from detent.spi.scans import LaneScan
from detent.stores.memory.claim import order_at, take, visible
from detent.stores.memory.leadership import may_write
from detent.stores.memory.nodes import ACTIVE
from detent.stores.memory.tables import Kept, Ready, Rule, Tables


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
    order = order_at(now, request.boost_interval)
    for scan, free, least in zip(request.scans, request.free, request.least, strict=True):
        wish = min(scan.room, request.limit - len(claims))
        if admission.under_rate(gates[scan.lane]):
            wish = min(wish, free)
        paused = tables.queues.get(scan.queue, False)
        if paused:
            wish = 0
        room, narrow = admission.room(gates[scan.lane], wish)
        best = nsmallest(room + 1, _urgent(tables, now, scan, least, order), order)
        if (holding := admission.holder(gates[scan.lane])) is not None:
            gate, holder = holding
            if holder.may_start_from(scan.lane):
                room, best = min(room, 1), [tables.ready[holder.job]]
            else:
                room, narrow, best = 0, gate, []
        held = tuple(admission.held(gates[scan.lane]))
        taken = [take(tables, now, place, request, held) for place in best[:room]]
        admission.use(gates[scan.lane], len(taken))
        blocked = narrow if len(taken) == room else None
        if paused:
            blocked = Gate(gate_name(QUEUE, scan.queue))
        is_kept_out = room == 0 < wish and len(best) > 0
        keeps = is_kept_out and blocked is not None and admission.keep(blocked)
        retry = None if blocked is None else admission.wait(blocked)
        answers.append((scan, len(taken), None if blocked is None else blocked.name, retry, keeps))
        claims += [claim for claim in taken if claim is not None]
    _remember(tables, openings)
    return GatedAnswer(
        claims,
        [
            LaneAnswer(
                scan.lane,
                taken,
                blocked,
                retry,
                _due_in(tables, now, scan),
                _head(tables, now, scan.lane, order),
                _weight(tables, gates[scan.lane]),
                keeps,
            )
            for scan, taken, blocked, retry, keeps in answers
        ],
    )


def gated_lanes(  # noqa: PLR0917  as the store is asked
    tables: Tables,
    now: datetime,
    queues: Sequence[str],
    after: str,
    limit: int,
    boost_interval: timedelta,
    whole: Sequence[str],
) -> list[GatedLane]:
    """Return the lanes with gates that hold jobs, and when the first of each is due."""
    order = order_at(now, boost_interval)
    first: dict[str, datetime] = {}
    for place in tables.ready.values():
        lane = place.lane
        if not is_gated(lane) or queue_of(lane) not in queues or lane.encode() <= after.encode():
            continue
        first[lane] = min(first.get(lane, place.due_at), place.due_at)
    return [
        GatedLane(
            lane, max((first[lane] - now).total_seconds(), 0.0), _head(tables, now, lane, order)
        )
        for lane in _each_whole_once(sorted(first, key=str.encode), whole)[:limit]
    ]


def _each_whole_once(lanes: Sequence[str], whole: Sequence[str]) -> list[str]:
    """Return some lanes, of those families only the first one."""
    seen: dict[str, None] = {}
    kept = []
    for lane in lanes:
        family = family_of(lane)
        if family is None or family not in whole or family not in seen:
            kept.append(lane)
        if family is not None:
            seen[family] = None
    return kept


def take_rates(tables: Tables, now: datetime, asks: Sequence[RateAsk]) -> list[RateVerdict]:
    """Answer asks in order, each seeing those before."""
    return [_take_rate(tables, now, ask) for ask in asks]


def forget_rates(
    tables: Tables, now: datetime, idle_seconds: float, limit: int, term: Term | None
) -> int:
    """Forget buckets that are full and windows that are empty, for that long."""
    if not may_write(tables, term):
        return 0
    before = now.timestamp() - idle_seconds
    full = [name for name, kept in sorted(tables.rates.items()) if kept.until <= before][:limit]
    for name in full:
        del tables.rates[name]
    return len(full)


def forget_holds(tables: Tables, now: datetime, limit: int, term: Term | None) -> int:
    """Forget which jobs held gates and have ended."""
    if not may_write(tables, term):
        return 0
    live = (tables.ready, tables.parked, tables.running)
    ended = [
        gate
        for gate, job_id in sorted(tables.holds.items())
        if not any(job_id in place for place in live)
    ][:limit]
    for gate in ended:
        del tables.holds[gate]
    return len(ended)


def _take_rate(tables: Tables, now: datetime, ask: RateAsk) -> RateVerdict:
    taken = take_rate(ask.rate, _grants(tables, ask.name), ask.wanted, now.timestamp())
    _keep(tables, ask.name, ask.rate, taken.grants)
    return RateVerdict(taken.granted, taken.remaining, taken.retry_after)


def _grants(tables: Tables, name: str) -> Grants:
    kept = tables.rates.get(name)
    return NOTHING_TAKEN if kept is None else kept.grants


def _keep(tables: Tables, name: str, rate: Rate, grants: Grants) -> None:
    tables.rates[name] = Kept(grants, matters_until(rate, grants))


def _gates(scan: LaneScan) -> list[Gate]:
    return [*gates_of(scan.lane), Gate(gate_name(QUEUE, scan.queue))]


def _openings(tables: Tables, now: datetime, gates: Sequence[Gate]) -> dict[str, Opening]:
    openings = {}
    for gate in gates:
        rule = tables.limits.get(gate.definition)
        if rule is None or gate.kind == FAIR:
            continue
        used = used_of(tables, gate.name)
        grants = _grants(tables, gate.name)
        holder = holder_of(tables, now, gate.name) if rule.limit.ordered else None
        openings[gate.name] = Opening(rule.limit, now.timestamp(), used, grants, holder=holder)
    return openings


def used_of(tables: Tables, gate: str) -> int:
    """Return how much of a gate running jobs take."""
    return sum(
        held.weight
        for claim in tables.running.values()
        for held in claim.permits
        if held.name == gate
    )


def holder_of(tables: Tables, now: datetime, gate: str) -> Holder | None:
    """Return the job that was put back behind an ordered gate and has not begun again or ended."""
    job_id = tables.holds.get(gate)
    if job_id is None:
        return None
    if (place := tables.ready.get(job_id)) is not None:
        return Holder(job_id, place.lane, (place.due_at - now).total_seconds())
    return Holder(job_id, None, 0.0) if job_id in tables.parked else None


def _remember(tables: Tables, openings: dict[str, Opening]) -> None:
    for name, opening in openings.items():
        rate = opening.limit.rate
        if rate is not None and opening.taken:
            _keep(tables, name, rate, opening.grants_after(rate))


def _urgent(
    tables: Tables, now: datetime, scan: LaneScan, least: int, order: Callable[[Ready], Any]
) -> list[Ready]:
    """Return the due jobs of a lane whose aged priority is high enough."""
    return [place for place in visible(tables, now, scan) if -order(place)[0] >= least]


def _head(tables: Tables, now: datetime, lane: str, order: Callable[[Ready], Any]) -> Head | None:
    due = [each for each in tables.ready.values() if each.lane == lane and each.due_at <= now]
    if not due:
        return None
    best = min(due, key=order)
    return Head(best.priority, (now - best.due_at).total_seconds())


def _weight(tables: Tables, gates: Sequence[Gate]) -> int | None:
    """Return the weight that the fair share among some gates was given."""
    found = (tables.limits.get(gate.name) for gate in gates if gate.kind == FAIR)
    return next((rule.limit.weight for rule in found if rule is not None), None)


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
