"""Keeps limits and rates, and gives jobs behind gates to nodes."""

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from detent.model.gates import FAIR, QUEUE, RESOURCE, TASK, Gate, gate_name, gates_of
from detent.model.job import Claim
from detent.model.limits import Limit
from detent.model.rates import Algorithm, Rate
from detent.spi.limits import GatedAnswer, GatedLane, GatedRequest, Head, LaneAnswer, LimitInfo
from detent.spi.rates import RateAsk, RateVerdict
from detent.spi.scans import LaneScan
from detent.stores.postgres.claim import scan_columns
from detent.stores.postgres.database import Database

GATES: Final = 10_000
# Where a gate stands among the limits of a running job; rates are not given back.
_PLACES: Final = {RESOURCE: 1, TASK: 2, QUEUE: 3}


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
        values = (None,) * 6 if declared is None else _columns(declared)[1:]
        await self.database.fetch("reset_limit", name, rows[0]["declared"], *values)
        return declared

    async def limits(self) -> list[LimitInfo]:
        """See `LimitStore.limits`."""
        return [
            LimitInfo(
                _limit(*tuple(row)[:7]),
                _read(row["name"], row["declared"]),
                row["edited"],
                row["running"],
            )
            for row in await self.database.fetch("list_limits")
        ]

    async def claim_gated(self, request: GatedRequest) -> GatedAnswer:
        """See `LimitStore.claim_gated`."""
        lanes, queues, rooms, due_at, ids = scan_columns(request.scans)
        used, weights, ends, gates, *rest = self._gates(request.scans)
        floors, server = gate_floors(self.database).of(gates)
        rows = await self.database.fetch(
            "claim_gated",
            request.node,
            lanes,
            queues,
            rooms,
            list(request.free),
            list(request.least),
            [_share(lane) for lane in lanes],
            due_at,
            ids,
            used,
            weights,
            ends,
            gates,
            *rest,
            floors,
            server,
            request.limit,
            request.boost_interval.total_seconds(),
            request.inline_args,
        )
        told, oldest, server = json.loads(rows[-1]["args"])
        if told is None:
            return GatedAnswer([], [])
        claims = [Claim._make(row) for row in rows[:-1]]
        fence = claims[0].fence if claims else None
        gate_floors(self.database).learn(gates, [fence if o is None else o for o in oldest], server)
        return GatedAnswer(
            claims,
            [
                LaneAnswer(
                    lane,
                    taken,
                    gate,
                    wait,
                    None if due is None else max(due, 0.0),
                    _head(priority, waited),
                    weight,
                )
                for lane, (taken, gate, wait, due, priority, waited, weight) in zip(
                    lanes, told, strict=True
                )
            ],
        )

    def _gates(self, scans: Sequence[LaneScan]) -> tuple[list[Any], ...]:
        """Return the gates of all lanes as numbers, and each of them once with its lock."""
        schema = self.database.address.schema
        numbers: dict[str, int] = {}
        gates: list[Gate] = []
        used: list[int] = []
        weights: list[int] = []
        ends: list[int] = []
        for scan in scans:
            for gate in (*gates_of(scan.lane), Gate(gate_name(QUEUE, scan.queue))):
                if gate.kind == FAIR:
                    continue
                number = numbers.setdefault(gate.name, len(numbers) + 1)
                if number > len(gates):
                    gates.append(gate)
                used.append(number)
                weights.append(gate.weight)
            ends.append(len(used))
        return (
            used,
            weights,
            ends,
            [gate.name for gate in gates],
            [gate.definition for gate in gates],
            [lock_key(schema, gate.name) for gate in gates],
            [gate.kind != QUEUE for gate in gates],
            [_PLACES.get(gate.kind, 0) for gate in gates],
        )

    async def gated_lanes(
        self, queues: Sequence[str], after: str, limit: int, boost_interval: timedelta
    ) -> list[GatedLane]:
        """See `LimitStore.gated_lanes`."""
        boost = boost_interval.total_seconds()
        rows = await self.database.fetch("gated_lanes", list(queues), after, limit, boost)
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

    async def forget_rates(self, idle_seconds: float, limit: int) -> int:
        """See `RateStore.forget_rates`."""
        return len(await self.database.fetch("forget_rates", idle_seconds, limit))


class GateFloors:
    """Where counting may begin at each gate: behind the dead rows that vacuum has not yet removed.

    Fences of one gate only grow, so what is remembered here may be old, but never wrong.
    """

    def __init__(self) -> None:
        self._floors: dict[str, int] = {}
        self._server: float | None = None

    def of(self, gates: Sequence[str]) -> tuple[list[int], float | None]:
        """Return the floors of some gates, and the server for which they hold."""
        return [self._floors.get(gate, 0) for gate in gates], self._server

    def learn(self, gates: Sequence[str], oldest: Sequence[int | None], server: float) -> None:
        """Take in the oldest fence that counts at each gate; None where that is not known."""
        if server != self._server or len(self._floors) > GATES:
            self._floors.clear()
            self._server = server
        self._floors.update(
            (gate, fence) for gate, fence in zip(gates, oldest, strict=True) if fence is not None
        )


_floors: Final[WeakKeyDictionary[Database, GateFloors]] = WeakKeyDictionary()


def gate_floors(database: Database) -> GateFloors:
    """Return the floors that this process knows for a database."""
    return _floors.setdefault(database, GateFloors())


@lru_cache(maxsize=10_000)
def lock_key(schema: str, gate: str) -> int:
    """Return the number under which those who want to pass a gate take turns."""
    digest = hashlib.blake2b(f"detent gate {schema} {gate}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@lru_cache(maxsize=10_000)
def _share(lane: str) -> str | None:
    """Return the gate of the fair share in which the jobs of a lane have their turns, if any."""
    return next((gate.name for gate in gates_of(lane) if gate.kind == FAIR), None)


def _head(priority: int | None, waited: float | None) -> Head | None:
    return None if priority is None or waited is None else Head(priority, waited)


def _columns(limit: Limit) -> tuple[Any, ...]:
    rate = limit.rate
    if rate is None:
        return limit.name, limit.concurrency, None, None, None, None, limit.weight
    per = rate.per.total_seconds()
    return limit.name, limit.concurrency, rate.count, per, rate.burst, str(rate.algorithm), None


def _limit(name: str, *values: Any) -> Limit:
    """Return a limit of its columns, in the order of `_columns`."""
    concurrency, count, per, burst, algorithm, weight = values
    if count is None:
        return Limit(name, concurrency, weight=weight)
    return Limit(
        name, concurrency, Rate(count, timedelta(seconds=per), burst, Algorithm(algorithm))
    )


def _written(limit: Limit) -> str:
    return json.dumps(_columns(limit)[1:])


def _read(name: str, text: str | None) -> Limit | None:
    return None if text is None else _limit(name, *json.loads(text))
