"""Claiming all keys of one limit together: the same as from each of their lanes, in one order."""

from collections import Counter
from datetime import datetime
from typing import Final
from uuid import UUID

from detent.model.gates import QUEUE, Gate, family_of, gate_name, gates_of, limit_of
from detent.model.limits import Limit
from detent.spi.limits import FamilyAnswer, FamilyRequest, Head, Refusal
from detent.spi.scans import Floor
from detent.stores.memory.claim import hidden, order_at, take
from detent.stores.memory.limits import holder_of, used_of
from detent.stores.memory.nodes import ACTIVE
from detent.stores.memory.tables import Ready, Tables

# Of a lane that has one in so many of the jobs that were looked at, and a few at least, kept out,
# a node hears.
CROWD: Final = 16
FEW: Final = 8


def claim_family(tables: Tables, now: datetime, request: FamilyRequest) -> FamilyAnswer:
    """Move the best due jobs to running, of each key no more than its limit lets in."""
    node = tables.nodes.get(request.node)
    if node is None or node.state != ACTIVE or node.lease_until <= now:
        return FamilyAnswer([], Refusal.DEAD)
    rule = tables.limits.get(limit_of(request.family))
    if rule is None or rule.limit.concurrency is None or rule.limit.rate is not None:
        return FamilyAnswer([], Refusal.NOT_OFFERED)
    if gate_name(QUEUE, request.queue) in tables.limits:
        return FamilyAnswer([], Refusal.NOT_OFFERED)
    if tables.queues.get(request.queue, False):
        return FamilyAnswer([], Refusal.PAUSED)
    tables.fence += 1
    mine = [each for each in tables.ready.values() if family_of(each.lane) == request.family]
    due = [
        each
        for each in mine
        if each.due_at <= now and not hidden(each, request.floors[each.priority], now)
    ]
    order = order_at(now, request.boost_interval)
    seen = sorted(due, key=order)[: request.walk]
    others = [each for each in seen if each.lane not in request.without]
    open_ = _open(tables, now, others, rule.limit)
    kept_out = Counter(each.lane for each in others if each.id not in open_)
    urgent = [each for each in others if each.id in open_ and -order(each)[0] >= request.least]
    chosen = urgent[: request.room]
    left = [each for each in others if each.id in open_ and each not in chosen]
    # Also one that takes the place of another is told in its own.
    taken = sorted((tables.ready[open_[each.id]] for each in chosen), key=order)
    claims = [take(tables, now, each, request, (_gate(each.lane),)) for each in taken]
    later = [each.due_at for each in mine if each.due_at > now]
    crowd = max(request.walk // CROWD, FEW)
    return FamilyAnswer(
        [claim for claim in claims if claim is not None],
        None,
        kept_out.total(),
        len(seen) < request.walk,
        _head(left[0], now) if left else None,
        _head(seen[-1], now) if seen else None,
        (min(later) - now).total_seconds() if later else None,
        len({each.lane for each in others}),
        [_floor(seen, others, priority) for priority in range(5)],
        [lane for lane, count in kept_out.most_common(CROWD) if count >= crowd],
    )


def _open(tables: Tables, now: datetime, places: list[Ready], limit: Limit) -> dict[UUID, UUID]:
    """Return which of some jobs may run, and which one runs in the place of each."""
    assert limit.concurrency is not None
    open_: dict[UUID, UUID] = {}
    ranks = Counter[str]()
    for place in places:
        ranks[place.lane] += 1
        gate = _gate(place.lane).name
        if ranks[place.lane] > limit.concurrency - used_of(tables, gate):
            continue
        holder = holder_of(tables, now, gate) if limit.ordered else None
        if holder is None:
            open_[place.id] = place.id
        elif holder.may_start_from(place.lane):
            open_[place.id] = holder.job
    return open_


def _floor(seen: list[Ready], others: list[Ready], priority: int) -> Floor | None:
    for places in (others, seen[::-1]):
        for place in places:
            if place.priority == priority:
                return Floor(place.due_at, place.id)
    return None


def _head(place: Ready, now: datetime) -> Head:
    return Head(place.priority, (now - place.due_at).total_seconds())


def _gate(lane: str) -> Gate:
    return gates_of(lane)[0]
