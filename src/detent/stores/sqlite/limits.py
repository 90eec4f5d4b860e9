"""Keeps limits and rates, and gives jobs behind gates to nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from detent.model.gates import FAIR, QUEUE, RESOURCE, TASK, Gate, gate_name, gates_of
from detent.model.limits import Admission, Holder, Limit, Opening
from detent.model.rates import Algorithm, Grants, Rate, matters_until, take
from detent.spi.leadership import Term
from detent.spi.limits import (
    FamilyAnswer,
    FamilyRequest,
    GatedAnswer,
    GatedLane,
    GatedRequest,
    Head,
    LaneAnswer,
    LimitInfo,
)
from detent.spi.rates import RateAsk, RateVerdict
from detent.spi.scans import LaneScan
from detent.stores.sqlite.claim import begin_at, claim_from, move_taken
from detent.stores.sqlite.columns import MICROSECONDS, seconds, span, term_values, uuid, written
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.families import take_family
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# Where a gate stands among the limits of a running job; rates are not given back.
_PLACES: Final = {RESOURCE: 0, TASK: 1, QUEUE: 2}


class Limiting:
    """The part of the store that `LimitStore` and `RateStore` describe."""

    database: Database

    async def declare_limits(self, limits: Sequence[Limit]) -> None:
        """See `LimitStore.declare_limits`."""
        rows = [(*_columns(limit), _written(limit)) for limit in limits]
        said = written([(row[0], row[-1]) for row in rows])

        def all_known(session: Session) -> bool | None:
            return session.value(sql("declare_limits", "known"), said) == len(rows) or None

        def work(session: Session) -> bool:
            for row in rows:
                session.change(sql("declare_limits", "declare"), *row)
                _close(session, row[0])
            return True

        await self.database.write(work, first=all_known)

    async def set_limit(self, limit: Limit) -> None:
        """See `LimitStore.set_limit`."""

        def work(session: Session) -> None:
            session.change(sql("set_limit"), *_columns(limit))
            _close(session, limit.name)

        await self.database.write(work)

    async def reset_limit(self, name: str) -> Limit | None:
        """See `LimitStore.reset_limit`."""

        def work(session: Session) -> Limit | None:
            _, text = session.table(sql("find_limit"), name)
            declared = _read(name, text)
            if declared is not None:
                session.change(sql("reset_limit", "reset"), *_columns(declared))
                return declared
            session.change(sql("reset_limit", "gone"), name)
            if (queue := _queue(name)) is not None:
                session.change(sql("reset_limit", "open"), queue)
            return None

        return await self.database.write(work)

    async def limits(self) -> list[LimitInfo]:
        """See `LimitStore.limits`."""
        rows = await self.database.read(lambda session: session.rows(sql("list_limits")))
        return [
            LimitInfo(_limit(*row[:8]), _read(row[0], row[8]), bool(row[9]), row[10])
            for row in map(tuple, rows)
        ]

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """See `LimitStore.claim_gated`."""
        return await self.database.write(_GatedClaiming(request).take)

    async def claim_family(self, request: FamilyRequest) -> FamilyAnswer:
        """See `LimitStore.claim_family`."""
        return await self.database.write(lambda session: take_family(session, request))

    async def gated_lanes(
        self,
        queues: Sequence[str],
        after: str,
        limit: int,
        boost_interval: timedelta,
        whole: Sequence[str] = (),
    ) -> list[GatedLane]:
        """See `LimitStore.gated_lanes`."""
        # All lanes of a queue begin with its name and one of two signs.
        ranges = written(
            [(queue + low, queue + high) for queue in queues for low, high in ("+,", "~\x7f")]
        )

        def work(session: Session) -> list[GatedLane]:
            rows = session.rows(sql("gated_lanes"), ranges, after, limit, written(list(whole)))
            return [_found(session.now, span(boost_interval), *row) for row in rows]

        return await self.database.read(work)

    async def take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        """See `RateStore.take`."""
        return await self.database.write(lambda session: [_take(session, ask) for ask in asks])

    async def forget_holds(self, limit: int, term: Term | None = None) -> int:
        """See `LimitStore.forget_holds`."""
        asked = (limit, *term_values(term))
        return await self.database.write(
            lambda session: session.change(sql("forget_holds"), *asked)
        )

    async def forget_rates(self, idle_seconds: float, limit: int, term: Term | None = None) -> int:
        """See `RateStore.forget_rates`."""

        def work(session: Session) -> int:
            before = session.now - int(idle_seconds * MICROSECONDS)
            asked = (before, limit, *term_values(term))
            forgotten = session.change(sql("forget_rates", "buckets"), *asked)
            return forgotten + session.change(sql("forget_rates", "passes"), *asked)

        return await self.database.write(work)


class _GatedClaiming:
    """One claim from gated lanes; whoever writes is alone, so what is counted is exact."""

    def __init__(self, request: GatedRequest) -> None:
        self._request = request
        self._node = request.node.bytes
        self._boost = span(request.boost_interval)
        self._gates = [
            (*gates_of(scan.lane), Gate(gate_name(QUEUE, scan.queue))) for scan in request.scans
        ]

    def take(self, session: Session) -> GatedAnswer:
        """Move the best due jobs to running, lane by lane, as far as their gates are open."""
        request = self._request
        if not session.value(sql("claim_gated", "alive"), self._node, session.now):
            return GatedAnswer([], [])
        lanes = written([(scan.lane, scan.queue) for scan in request.scans])
        due = session.table(sql("claim_gated", "due"), self._node, lanes, session.now)
        paused = session.table(
            sql("claim_gated", "paused"), written(list({scan.queue for scan in request.scans}))
        )
        openings = _openings(
            session, [gate for gates in self._gates for gate in gates if gate.kind != FAIR]
        )
        admission = Admission(openings)
        fence = session.value(sql("claim_jobs", "fence"))
        total, answers = 0, []
        for number, (scan, free, least, gates) in enumerate(
            zip(request.scans, request.free, request.least, self._gates, strict=True)
        ):
            wish = min(scan.room, request.limit - total)
            if admission.under_rate(gates):
                wish = min(wish, free)
            room, narrow = admission.room(gates, wish)
            holder = None
            if (holding := admission.holder(gates)) is not None:
                gate, holder = holding
                if not holder.may_start_from(scan.lane):
                    room, narrow = 0, gate
            taken = 0
            if room > 0 and number in due:
                taken = self._take_from(session, scan, room, fence, least, holder)
                _mark(session, fence, scan.lane, admission.held(gates))
                admission.use(gates, taken)
            total += taken
            blocked = narrow if taken == room else None
            if scan.queue in paused:
                blocked = gates[-1]
            keeps = (
                blocked is not None
                and room == 0 < wish
                and blocked.weight > 1
                and self._has_due(session, scan, least)
                and admission.keep(blocked)
            )
            retry = None if blocked is None else admission.wait(blocked)
            answers.append(((scan.lane, taken, blocked and blocked.name, retry), keeps))
        moved = (fence, self._node, request.inline_args, self._boost)
        claims = move_taken(session, *moved) if total else []
        _remember(session, openings)
        left = session.table(
            sql("claim_gated", "next"), written([scan.lane for scan in request.scans])
        )
        weights = self._weights(session)
        return GatedAnswer(
            [claim_from(row) for row in claims],
            [
                LaneAnswer(*answer, *_left(heads, session.now, self._boost), weight, keeps)
                for (answer, keeps), heads, weight in zip(answers, left, weights, strict=True)
            ],
        )

    def _weights(self, session: Session) -> list[int | None]:
        """Return for each lane the weight that its fair share was given."""
        shares = [
            next((gate.name for gate in gates if gate.kind == FAIR), None) for gates in self._gates
        ]
        if not any(shares):
            return [None] * len(shares)
        asked = written([share for share in shares if share is not None])
        told = dict(session.table(sql("claim_gated", "shares"), asked))
        return [told.get(share) for share in shares]

    def _take_from(
        self,
        session: Session,
        scan: LaneScan,
        room: int,
        fence: int,
        least: int,
        holder: Holder | None,
    ) -> int:
        if holder is not None:
            return session.change(sql("claim_gated", "holder"), fence, holder.job.bytes)
        return session.change(
            sql("claim_jobs", "heads"),
            fence,
            scan.lane,
            session.now,
            room,
            self._boost,
            *[part for floor in scan.floors for part in begin_at(floor, session.now)],
            self._node,
            scan.queue,
            1,
            least,
        )

    def _has_due(self, session: Session, scan: LaneScan, least: int) -> bool:
        """Tell whether jobs of a lane are due, and urgent enough."""
        return bool(
            session.value(sql("claim_gated", "urgent"), scan.lane, session.now, self._boost, least)
        )


def _mark(session: Session, fence: int, lane: str, held: Sequence[Gate]) -> None:
    """Write down at which gates the jobs of a lane count."""
    gates = {gate.kind: gate for gate in held}
    names = [gates[kind].name if kind in gates else None for kind in _PLACES]
    weight = gates[RESOURCE].weight if RESOURCE in gates else None
    session.change(sql("claim_gated", "limited"), fence, lane, *names, weight)


def _openings(session: Session, gates: Sequence[Gate]) -> dict[str, Opening]:
    asked = written(list({gate.name: _asked(gate) for gate in gates}.values()))
    openings = {}
    now = session.now / MICROSECONDS
    for row in session.table(sql("claim_gated", "gates"), asked):
        name, *columns, used, bucket, passes, ordered, hold = row
        openings[name] = Opening(
            _limit(_any_name(name), *columns, None, ordered),
            now,
            used or 0,
            _grants(bucket, passes),
            holder=None if hold is None else _holder(session.now, *_values(hold)),
        )
    return openings


def _holder(now: int, job_id: str, lane: str | None, due_at: int | None) -> Holder:
    return Holder(uuid(job_id), lane, 0.0 if due_at is None else (due_at - now) / MICROSECONDS)


def _remember(session: Session, openings: dict[str, Opening]) -> None:
    for name, opening in openings.items():
        rate = opening.limit.rate
        if rate is not None and opening.taken:
            _use(session, name, rate, opening.grants_after(rate), opening.taken)


def _use(session: Session, name: str, rate: Rate, grants: Grants, count: int) -> None:
    """Note that so many have passed a rate, and what is to be remembered of it."""
    until = seconds(matters_until(rate, grants))
    if rate.algorithm is Algorithm.WINDOW:
        session.change(sql("claim_gated", "forget"), name, session.now - span(rate.per))
        session.change(sql("claim_gated", "pass"), name, session.now, count, until)
        return
    session.change(sql("claim_gated", "bucket"), name, grants.tokens, session.now, until)


def _take(session: Session, ask: RateAsk) -> RateVerdict:
    grants = _grants(*session.table(sql("take_rates"), ask.name))
    taken = take(ask.rate, grants, ask.wanted, session.now / MICROSECONDS)
    if taken.granted:
        _use(session, ask.name, ask.rate, taken.grants, ask.wanted)
    return RateVerdict(taken.granted, taken.remaining, taken.retry_after)


def _asked(gate: Gate) -> tuple[str, str, int | None]:
    return gate.name, gate.definition, _PLACES.get(gate.kind)


def _grants(bucket: Any, passes: Any) -> Grants:
    """Return what a rate has granted, of the tokens that it kept and of what passed."""
    tokens, at = (None, 0) if bucket is None else _values(bucket)
    taken = sorted((when / MICROSECONDS, number) for when, number in _values(passes or b"[]"))
    return Grants(tokens, at / MICROSECONDS, tuple(taken))


def _values(value: Any) -> Any:
    return value if isinstance(value, list) else msgspec.json.decode(value)


def _left(heads: Any, now: int, boost: int) -> tuple[float | None, Head | None]:
    """Return when the next job of a lane is due, and the most urgent of those that are."""
    firsts = _values(heads)
    if not firsts:
        return None, None
    due_in = _seconds(min(due_at for _, due_at in firsts), now)
    aged = [
        (-(priority + ((now - due_at) // boost if boost else 0)), due_at, priority)
        for priority, due_at in firsts
        if due_at <= now
    ]
    if not aged:
        return due_in, None
    _, due_at, priority = min(aged)
    return due_in, Head(priority, _seconds(now, due_at))


def _found(now: int, boost: int, lane: str, heads: str) -> GatedLane:
    due_in, head = _left(heads, now, boost)
    return GatedLane(lane, due_in or 0.0, head)


def _seconds(due_at: int, now: int) -> float:
    return max(due_at - now, 0) / MICROSECONDS


def _any_name(gate: str) -> str:
    return Gate(gate).definition


def _queue(name: str) -> str | None:
    kind, _, rest = name.partition(":")
    return rest if kind == QUEUE else None


def _close(session: Session, name: str) -> None:
    """Let the jobs of a queue that has a limit be claimed through its gate only."""
    if (queue := _queue(name)) is not None:
        session.change(sql("declare_limits", "close"), queue)


def _columns(limit: Limit) -> tuple[Any, ...]:
    rate = limit.rate
    if rate is None:
        rated: tuple[Any, ...] = (None, None, None, None)
    else:
        rated = rate.count, span(rate.per), rate.burst, str(rate.algorithm)
    return limit.name, limit.concurrency, *rated, limit.weight, int(limit.ordered)


def _limit(name: str, *values: Any) -> Limit:
    """Return a limit of its columns, in the order of `_columns`."""
    # Before limits could keep an order, nothing was said of it.
    concurrency, count, per, burst, algorithm, weight, ordered = (*values, 0)[:7]
    rate = None
    if count is not None:
        if burst is None and algorithm == Algorithm.BUCKET:
            burst = count  # stored when that was the default
        rate = Rate(count, timedelta(microseconds=per), burst, Algorithm(algorithm))
    return Limit(name, concurrency, rate, weight, bool(ordered))


def _written(limit: Limit) -> str:
    return written(_columns(limit)[1:])


def _read(name: str, text: str | None) -> Limit | None:
    return None if text is None else _limit(name, *msgspec.json.decode(text))
