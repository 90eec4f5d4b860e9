"""Claims all keys of one limit together: whoever writes is alone, so what is counted is exact."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from detent.model.gates import gates_of, limit_of
from detent.model.limits import Holder
from detent.spi.limits import FamilyAnswer, FamilyRequest, Head, Refusal
from detent.spi.scans import Floor
from detent.stores.sqlite.claim import begin_at, claim_from, move_taken
from detent.stores.sqlite.columns import MICROSECONDS, moment, packed, read, span, uuid, written
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# Of a lane that has one in so many of the jobs that were looked at, and a few at least, kept out,
# a node hears.
CROWD: Final = 16
FEW: Final = 8


class _Seen(NamedTuple):
    """A due job."""

    id: str
    lane: str
    priority: int
    due_at: int
    age: int

    def head(self, now: int) -> Head:
        return Head(self.priority, (now - self.due_at) / MICROSECONDS)

    @property
    def floor(self) -> Floor:
        return Floor(moment(self.due_at), uuid(self.id))


def take_family(session: Session, request: FamilyRequest) -> FamilyAnswer:
    """Move the best due jobs to running, of each key no more than its limit lets in."""
    node, now, boost = request.node.bytes, session.now, span(request.boost_interval)
    if not session.value(sql("claim_gated", "alive"), node, now):
        return FamilyAnswer([], Refusal.DEAD)
    rule, queue = session.table(
        sql("claim_family", "rule"), limit_of(request.family), request.queue
    )
    limited, paused = queue or (False, None)
    if rule is None or rule[0] is None or rule[1] is not None or limited:
        return FamilyAnswer([], Refusal.NOT_OFFERED)
    if paused is not None:
        return FamilyAnswer([], Refusal.PAUSED)
    seen = _heads(session, request, boost)
    others = [each for each in seen if each.lane not in request.without]
    open_ = _open(session, others, rule[0], bool(rule[2]))
    urgent = [each for each in others if each.id in open_ and each.age >= request.least]
    chosen = urgent[: request.room]
    claims: list[Any] = []
    if chosen:
        fence = session.value(sql("claim_jobs", "fence"))
        ids = packed(uuid(open_[each.id]) for each in chosen)
        session.change(sql("claim_family", "take"), fence, ids, written([0] * len(chosen)))
        claims = move_taken(session, fence, node, request.inline_args, boost)
    left = [each for each in others if each.id in open_][len(chosen) :]
    later = session.table(sql("claim_family", "next"), request.family, now)
    kept_out = Counter(each.lane for each in others if each.id not in open_)
    crowd = max(request.walk // CROWD, FEW)
    return FamilyAnswer(
        [claim_from(row) for row in claims],
        None,
        kept_out.total(),
        len(seen) < request.walk,
        left[0].head(now) if left else None,
        seen[-1].head(now) if seen else None,
        (min(later) - now) / MICROSECONDS if later else None,
        len({each.lane for each in others}),
        [_floor(seen, others, priority) for priority in range(5)],
        [lane for lane, count in kept_out.most_common(CROWD) if count >= crowd],
    )


def _heads(session: Session, request: FamilyRequest, boost: int) -> list[_Seen]:
    rows = session.table(
        sql("claim_family", "heads"),
        request.family,
        session.now,
        request.walk,
        boost,
        *[part for floor in request.floors for part in begin_at(floor, session.now)],
    )
    return [_Seen(*row) for row in rows]


def _open(
    session: Session, seen: Sequence[_Seen], concurrency: int, ordered: bool
) -> dict[str, str]:
    """Return which of some jobs may run, and which one runs in the place of each."""
    lanes = list({each.lane: None for each in seen})
    asked = written([gates_of(lane)[0].name for lane in lanes])
    rows = session.table(sql("claim_family", "keys"), asked, int(ordered))
    known = dict(zip(lanes, rows, strict=True))
    ranks = Counter[str]()
    open_: dict[str, str] = {}
    for each in seen:
        used, hold = known[each.lane]
        ranks[each.lane] += 1
        if ranks[each.lane] > concurrency - used:
            continue
        if hold is None:
            open_[each.id] = each.id
            continue
        job_id, lane, due_at = hold if isinstance(hold, list) else read(hold)
        due_in = 0.0 if due_at is None else (due_at - session.now) / MICROSECONDS
        if Holder(uuid(job_id), lane, due_in).may_start_from(each.lane):
            open_[each.id] = job_id
    return open_


def _floor(seen: Sequence[_Seen], others: Sequence[_Seen], priority: int) -> Floor | None:
    for places in (others, seen[::-1]):
        for each in places:
            if each.priority == priority:
                return each.floor
    return None
