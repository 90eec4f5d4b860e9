"""Keeps limits and rates, and gives jobs behind gates to nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from detent.model.gates import QUEUE, RESOURCE, TASK, Gate, gate_name, gates_of
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
from detent.stores.sqlite.claim import begin_at, claim_from
from detent.stores.sqlite.columns import MICROSECONDS, micros, moment, span, written
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

CRUMB: Final = 1e-6
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
            LimitInfo(_limit(*row[:6]), _read(row[0], row[6]), bool(row[7]), row[8])
            for row in map(tuple, rows)
        ]

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """See `LimitStore.claim_gated`."""
        return await self.database.write(_GatedClaiming(request).take)

    async def gated_lanes(self, queues: Sequence[str], after: str, limit: int) -> list[GatedLane]:
        """See `LimitStore.gated_lanes`."""
        # All lanes of a queue begin with its name and one of two signs.
        ranges = written(
            [(queue + low, queue + high) for queue in queues for low, high in ("+,", "~\x7f")]
        )

        def work(session: Session) -> list[GatedLane]:
            rows = session.rows(sql("gated_lanes"), ranges, after, limit)
            return [GatedLane(lane, _seconds(due_at, session.now)) for lane, due_at in rows]

        return await self.database.read(work)

    async def take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        """See `RateStore.take`."""
        return await self.database.write(lambda session: [_take(session, ask) for ask in asks])

    async def forget_rates(self, idle_seconds: float, limit: int) -> int:
        """See `RateStore.forget_rates`."""

        def work(session: Session) -> int:
            before = session.now - int(idle_seconds * MICROSECONDS)
            forgotten = session.change(sql("forget_rates", "buckets"), before, limit)
            return forgotten + session.change(sql("forget_rates", "passes"), before, limit)

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
        openings = _openings(session, [gate for gates in self._gates for gate in gates])
        admission = Admission(openings)
        fence = session.value(sql("claim_jobs", "fence"))
        total, answers = 0, []
        for number, (scan, free, gates) in enumerate(
            zip(request.scans, request.free, self._gates, strict=True)
        ):
            wish = min(scan.room, request.limit - total)
            if admission.under_rate(gates):
                wish = min(wish, free)
            room, narrow = admission.room(gates, wish)
            taken = 0
            if room > 0 and number in due:
                taken = self._take_from(session, scan, room, fence)
                _mark(session, fence, scan.lane, admission.held(gates))
                admission.use(gates, taken)
            total += taken
            blocked = narrow if taken == room else None
            retry = None if blocked is None else admission.wait(blocked)
            answers.append((scan.lane, taken, blocked and blocked.name, retry))
        claims = self._move(session, fence) if total else []
        _remember(session, openings)
        next_due = session.table(
            sql("claim_gated", "next"), written([scan.lane for scan in request.scans])
        )
        return GatedAnswer(
            [claim_from(row) for row in claims],
            [
                LaneAnswer(*answer, None if due_at is None else _seconds(due_at, session.now))
                for answer, due_at in zip(answers, next_due, strict=True)
            ],
        )

    def _take_from(self, session: Session, scan: LaneScan, room: int, fence: int) -> int:
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
        )

    def _move(self, session: Session, fence: int) -> list[Any]:
        session.change(sql("claim_jobs", "fenced"), fence)
        session.change(sql("claim_jobs", "running"), fence, self._node, session.now)
        session.change(sql("claim_jobs", "gone"), fence)
        taken = session.table(sql("claim_jobs", "taken"), fence, self._request.inline_args)
        session.change(sql("claim_jobs", "clear"), fence)
        return taken


def _mark(session: Session, fence: int, lane: str, held: Sequence[Gate]) -> None:
    """Write down at which gates the jobs of a lane count."""
    names: list[str | None] = [None, None, None]
    weights: list[int | None] = [None, None, None]
    for gate in held:
        names[_PLACES[gate.kind]] = gate.name
        weights[_PLACES[gate.kind]] = gate.weight if gate.weight > 1 else None
    session.change(
        sql("claim_gated", "limited"),
        fence,
        lane,
        written(names) if held else None,
        written(weights) if any(weights) else None,
    )


def _openings(session: Session, gates: Sequence[Gate]) -> dict[str, Opening]:
    asked = written(list({gate.name: _asked(gate) for gate in gates}.values()))
    openings = {}
    now = moment(session.now)
    for row in session.table(sql("claim_gated", "gates"), asked):
        name, *columns, used, bucket, passes = row
        openings[name] = Opening(
            _limit(_any_name(name), *columns), now, used or 0, _bucket(bucket), _passes(passes)
        )
    return openings


def _remember(session: Session, openings: dict[str, Opening]) -> None:
    for name, opening in openings.items():
        rate = opening.limit.rate
        if rate is not None and opening.taken:
            _use(session, name, rate, opening.bucket, opening.taken)


def _use(session: Session, name: str, rate: Rate, bucket: Bucket | None, count: int) -> None:
    """Note that so many have passed a rate."""
    now = moment(session.now)
    if rate.algorithm is Algorithm.WINDOW:
        session.change(sql("claim_gated", "forget"), name, session.now - span(rate.per))
        until = session.now + span(rate.per)
        session.change(sql("claim_gated", "pass"), name, session.now, count, until)
        return
    left = Bucket(tokens_now(bucket, rate, now) - count, now)
    full_at = micros(full_again(left, rate))
    session.change(sql("claim_gated", "bucket"), name, left.tokens, session.now, full_at)


def _take(session: Session, ask: RateAsk) -> RateVerdict:
    rate, now = ask.rate, moment(session.now)
    bucket, passes = session.table(sql("take_rates"), ask.name)
    kept, passed = _bucket(bucket), _passes(passes)
    left: float
    if rate.algorithm is Algorithm.WINDOW:
        left, wait = left_in_window(passed, rate, now), window_wait(passed, rate, now, ask.wanted)
    else:
        left = tokens_now(kept, rate, now)
        wait = token_wait(left, rate, ask.wanted)
    if left + CRUMB < ask.wanted:
        return RateVerdict(False, max(int(left + CRUMB), 0), wait)
    _use(session, ask.name, rate, kept, ask.wanted)
    return RateVerdict(True, int(left - ask.wanted + CRUMB), 0.0)


def _asked(gate: Gate) -> tuple[str, str, int | None]:
    return gate.name, gate.definition, _PLACES.get(gate.kind)


def _bucket(value: Any) -> Bucket | None:
    if value is None:
        return None
    tokens, at = value if isinstance(value, list) else msgspec.json.decode(value)
    return Bucket(tokens, moment(at))


def _passes(value: Any) -> list[Pass]:
    rows = value if isinstance(value, list) else msgspec.json.decode(value or b"[]")
    return [Pass(moment(at), number) for at, number in rows]


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
        return limit.name, limit.concurrency, None, None, None, None
    per = span(rate.per)
    return limit.name, limit.concurrency, rate.count, per, rate.burst, str(rate.algorithm)


def _limit(
    name: str,
    concurrency: int | None,
    count: int | None = None,
    per: int | None = None,
    burst: int | None = None,
    algorithm: str | None = None,
) -> Limit:
    if count is None or per is None or algorithm is None:
        return Limit(name, concurrency)
    rate = Rate(count, timedelta(microseconds=per), burst, Algorithm(algorithm))
    return Limit(name, concurrency, rate)


def _written(limit: Limit) -> str:
    return written(_columns(limit)[1:])


def _read(name: str, text: str | None) -> Limit | None:
    return None if text is None else _limit(name, *msgspec.json.decode(text))
