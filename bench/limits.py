"""What limits cost: a drain under one that does not bind, and claims beside a blocked key."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from bench.claim import WARM_UP, server_ms
from bench.harness import Harness, Measured
from bench.results import percentile
from bench.subjects import DETENT, Subject
from bench.turns import Contestant, compete

SECTION = "limits"
LIMITED = "a limit that does not bind"
BLOCKED = "claims beside a blocked key"
TASK = "BENCH_TASK"
KEYS = 50
BACKLOG = 100_000
LONGER = 6


async def run(harness: Harness) -> None:
    async def limited(_subject: Subject, _case: str) -> Measured:
        return await _limited(harness)

    async def blocked(_subject: Subject, _case: str) -> Measured:
        return await _blocked(harness)

    await harness.rounds(SECTION, [LIMITED], [DETENT], limited)
    await harness.rounds(SECTION, [BLOCKED], [DETENT], blocked, count=1)


async def _limited(harness: Harness) -> Measured:
    """Drain without and with the limit, in turns.

    For longer than in other sections: what is compared is throughput, not the first moments of a
    node, in which its driver looks up the types of each statement.
    """
    without = Contestant(DETENT, {})
    within = Contestant(replace(DETENT, name="limited"), {TASK: "limited"})
    foreign = await compete(harness, [without, within], LONGER * harness.options.jobs)
    values = within.values()
    values |= {f"unlimited_{name}": value for name, value in without.values().items()}
    return values | {"of_unlimited": within.rate / without.rate}, foreign


async def _blocked(harness: Harness) -> Measured:
    """Claim from keys that are free, while one stands in front of all with a long backlog."""
    from detent.stores.postgres import PostgresStore  # noqa: PLC0415 - only when measured

    backlog = BACKLOG // 100 if harness.options.quick else BACKLOG
    database = await harness.database(DETENT)
    store = PostgresStore(harness.server.url(database))
    await store.open()
    try:
        scene = Scene(store)
        await scene.prepare(backlog, harness.options.claims)
        async with harness.server.connect() as counters:
            times = []
            for _ in range(harness.options.claims):
                await scene.finish()
                before = await server_ms(counters, database)
                await scene.claim()
                times.append(await server_ms(counters, database) - before)
    finally:
        await store.close()
    del times[:WARM_UP]
    return {"p50": percentile(times, 0.5), "p99": percentile(times, 0.99)}, 0.0


class Scene:
    """A node that claims from many keys, each with a limit of one."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.node = uuid4()
        self.lanes = [f"default~task:bench#{number}" for number in range(KEYS)]
        self.floors: dict[str, Any] = {}

    async def prepare(self, backlog: int, claims: int) -> None:
        from detent.model.limits import Limit  # noqa: PLC0415
        from detent.spi.nodes import NodeIdentity  # noqa: PLC0415

        identity = NodeIdentity(self.node, "bench", "localhost", 1, "0", {"default": 100})
        await self.store.join(identity, timedelta(hours=1))
        await self.store.declare_limits([Limit("task:bench#", 1)])
        blocked = "default~task:bench#blocked"
        await self._enqueue([blocked] * backlog)
        for lane in self.lanes:
            await self._enqueue([lane] * (claims + 1))
        await self._ask([blocked, *self.lanes])  # the first of the key keeps it blocked

    async def finish(self) -> None:
        """End what runs, but for the one that keeps its key blocked."""
        from detent.model.job import Completion  # noqa: PLC0415

        rows = await self.store.claims_of(self.node)
        ends = [Completion(job, fence, "bench", "default", 0.0, None) for job, fence in rows[1:]]
        await self.store.finish_jobs(self.node, ends)

    async def claim(self) -> None:
        """Ask for one job of each of some keys, the blocked one first."""
        lanes = ["default~task:bench#blocked", *self.lanes[:20]]
        answer = await self._ask(lanes)
        assert answer.lanes[0].blocked_by is not None
        assert len(answer.claims) == len(lanes) - 1

    async def _ask(self, lanes: list[str]) -> Any:
        from detent.spi.limits import GatedRequest  # noqa: PLC0415
        from detent.spi.scans import Floor, LaneScan  # noqa: PLC0415

        none = [None] * 5
        scans = [LaneScan(lane, "default", 5, self.floors.get(lane, none)) for lane in lanes]
        request = GatedRequest(
            self.node,
            scans,
            [5] * len(scans),
            [0] * len(scans),
            1_000,
            timedelta(minutes=15),
            8_192,
        )
        answer = await self.store.claim_gated(request)
        for claim in answer.claims:
            # As a node does: where the last claim began, scans begin.
            self.floors[claim.lane] = [None, None, Floor(claim.due_at, claim.id), None, None]
        return answer

    async def _enqueue(self, lanes: list[str]) -> None:
        from detent.ids import IdMaker  # noqa: PLC0415
        from detent.model.job import NewJob  # noqa: PLC0415

        make = IdMaker()
        for start in range(0, len(lanes), 1_000):
            jobs = [
                NewJob(make.new(), "bench", "default", lane, 2, 0.0, None, b"[]", "json", None,
                       None, None, 0, None, None)
                for lane in lanes[start : start + 1_000]
            ]  # fmt: skip
            await self.store.enqueue_jobs(jobs)
