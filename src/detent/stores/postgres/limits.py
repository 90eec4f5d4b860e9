"""Keeps limits and rates, and gives jobs behind gates to nodes."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from detent.model.job import Claim
from detent.model.limits import Limit
from detent.model.rates import Algorithm, Rate
from detent.spi.leadership import NO_TERM, Term
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
from detent.stores.postgres.claim import scan_columns
from detent.stores.postgres.database import Database
from detent.stores.postgres.families import family_answer, family_row
from detent.stores.postgres.gates import gate_memory, gates_asked, lock_key, share_of


class Limiting:
    """The part of the store that `LimitStore` and `RateStore` describe."""

    database: Database

    async def declare_limits(self, limits: Sequence[Limit]) -> None:
        """See `LimitStore.declare_limits`."""
        known = {limit.name: limit for limit in limits}
        if not known:
            return
        rows = [(*_columns(known[name]), _written(known[name])) for name in sorted(known)]
        await self.database.fetch("declare_limits", *zip(*rows, strict=True))

    async def set_limit(self, limit: Limit) -> None:
        """See `LimitStore.set_limit`."""
        await self.database.fetch("set_limit", *_columns(limit))

    async def reset_limit(self, name: str) -> Limit | None:
        """See `LimitStore.reset_limit`."""
        rows = await self.database.fetch("find_limit", name)
        if not rows:
            return None
        declared = _read(name, rows[0]["declared"])
        values = (*(None,) * 6, False) if declared is None else _columns(declared)[1:]
        await self.database.fetch("reset_limit", name, rows[0]["declared"], *values)
        return declared

    async def limits(self) -> list[LimitInfo]:
        """See `LimitStore.limits`."""
        return [
            LimitInfo(
                _limit(*tuple(row)[:8]),
                _read(row["name"], row["declared"]),
                row["edited"],
                row["running"],
            )
            for row in await self.database.fetch("list_limits")
        ]

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """See `LimitStore.claim_gated`."""
        lanes, queues, rooms, due_at, ids = scan_columns(request.scans)
        gates = gates_asked(self.database.address.schema, request.scans)
        memory = gate_memory(self.database)
        is_wide = memory.expects_many(request.scans) and request.least[0] <= 0
        rows = await self.database.fetch(
            "claim_wide" if is_wide else "claim_gated",
            request.node,
            lanes,
            queues,
            rooms,
            list(request.free),
            list(request.least),
            [share_of(lane) for lane in lanes],
            due_at,
            ids,
            *gates,
            *memory.of(gates),
            is_wide,
            request.limit,
            request.boost_interval.total_seconds(),
            request.inline_args,
        )
        told, floors, mosts, server, *now = json.loads(rows.pop()["args"])
        if told is None:
            return GatedAnswer([], [])
        claims = [Claim._make(row) for row in rows]
        memory.learn(gates, floors, mosts, server, claims[0].fence if claims else None)
        memory.took(request.scans, len(claims))
        answers = [
            LaneAnswer(
                lane,
                taken,
                gate,
                wait,
                None if due is None else max(due, 0.0),
                _head(priority, waited),
                weight,
                keeps,
            )
            for lane, (taken, gate, wait, due, priority, waited, weight, keeps) in zip(
                lanes, told, strict=True
            )
        ]
        if is_wide:
            answers = [_of_wide(answers[0], claims, now[0])]
        return GatedAnswer(claims, answers)

    async def claim_family(self, request: FamilyRequest) -> FamilyAnswer:
        """See `LimitStore.claim_family`."""
        rows = await self.database.fetch("claim_family", *family_row(request))
        return family_answer(rows, request.walk)

    async def gated_lanes(
        self,
        queues: Sequence[str],
        after: str,
        limit: int,
        boost_interval: timedelta,
        whole: Sequence[str] = (),
    ) -> list[GatedLane]:
        """See `LimitStore.gated_lanes`."""
        boost = boost_interval.total_seconds()
        rows = await self.database.fetch(
            "gated_lanes", list(queues), after, limit, boost, list(whole)
        )
        return [GatedLane(row[0], row[1], _head(row[2], row[3])) for row in rows]

    async def take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        """See `RateStore.take`."""
        if not asks:
            return []
        schema = self.database.address.schema
        rows = [
            (
                ask.name,
                lock_key(schema, ask.name),
                ask.rate.count,
                ask.rate.per.total_seconds(),
                ask.rate.most,
                str(ask.rate.algorithm),
                ask.wanted,
            )
            for ask in asks
        ]
        answers = await self.database.fetch("take_rates", *zip(*rows, strict=True))
        return [RateVerdict(*answer) for answer in answers]

    async def forget_holds(self, limit: int, term: Term | None = None) -> int:
        """See `LimitStore.forget_holds`."""
        return len(await self.database.fetch("forget_holds", limit, *(term or NO_TERM)))

    async def forget_rates(self, idle_seconds: float, limit: int, term: Term | None = None) -> int:
        """See `RateStore.forget_rates`."""
        asked = (idle_seconds, limit, *(term or NO_TERM))
        return len(await self.database.fetch("forget_rates", *asked))


def _head(priority: int | None, waited: float | None) -> Head | None:
    return None if priority is None or waited is None else Head(priority, waited)


def _of_wide(told: LaneAnswer, claims: Sequence[Claim], now: float) -> LaneAnswer:
    """Return what a wide claim tells of its lane.

    Of those that were let in somebody else may hold some: they come next. What is left was not
    looked at; it is no more urgent than the last that was taken.
    """
    head = told.head
    if head is None and claims and told.due_in == 0:
        head = Head(claims[-1].priority, now - claims[-1].due_at.timestamp())
    return told._replace(taken=len(claims), head=head)


def _columns(limit: Limit) -> tuple[Any, ...]:
    rate = limit.rate
    if rate is None:
        rated: tuple[Any, ...] = (None, None, None, None)
    else:
        rated = rate.count, rate.per.total_seconds(), rate.burst, str(rate.algorithm)
    return limit.name, limit.concurrency, *rated, limit.weight, limit.ordered


def _limit(name: str, *values: Any) -> Limit:
    """Return a limit of its columns, in the order of `_columns`."""
    # Before limits could keep an order, nothing was said of it.
    concurrency, count, per, burst, algorithm, weight, ordered = (*values, False)[:7]
    rate = None
    if count is not None:
        if burst is None and algorithm == Algorithm.BUCKET:
            burst = count  # stored when that was the default
        rate = Rate(count, timedelta(seconds=per), burst, Algorithm(algorithm))
    return Limit(name, concurrency, rate, weight, ordered)


def _written(limit: Limit) -> str:
    return json.dumps(_columns(limit)[1:])


def _read(name: str, text: str | None) -> Limit | None:
    return None if text is None else _limit(name, *json.loads(text))
