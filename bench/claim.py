"""What a claim of 100 jobs costs the server, in every situation that usually makes it grow."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bench.claim_situations import (
    SHAPES,
    SITUATIONS,
    Scale,
    Shape,
    add_fresh,
    prepared,
)
from bench.harness import Harness, say
from bench.processes import usage
from bench.results import Results, Sample, Spread, percentile, spread
from bench.subjects import DETENT, RAW

SECTION = "claim"
TEMPLATE = "bench_claim_template"
ROWS = 100
WARM_UP = 10
SMALL, LARGE = 100, 1 << 20
PAYLOADS = {"payload 100 B": SMALL, "payload 1 MiB": LARGE}


@dataclass
class Claimer:
    """One node's claims against one database, with its floors, as a node keeps them."""

    database: str
    case: str
    store: Any
    connection: Any
    shape: Shape
    node: uuid.UUID = field(default_factory=uuid.uuid4)
    floors: dict[tuple[str, int], Any] = field(default_factory=dict)
    server_ms: list[float] = field(default_factory=list)
    call_ms: list[float] = field(default_factory=list)

    async def join(self) -> None:
        from detent.spi.nodes import NodeIdentity  # noqa: PLC0415 - only when measured
        from detent.spi.scans import Floor  # noqa: PLC0415

        queues = dict.fromkeys(self.shape.lanes, ROWS)
        identity = NodeIdentity(self.node, "bench", "localhost", os.getpid(), "0", queues)
        await self.store.join(identity, timedelta(hours=1))
        # A node looks for the heads beside its claims; what it found is where its scans begin.
        for head in await self.store.look(self.shape.lanes):
            self.floors[head.lane, head.priority] = Floor(head.due_at, head.id)

    async def claim(self, turn: int) -> Sequence[Any]:
        from detent.spi.scans import Floor, LaneScan  # noqa: PLC0415
        from detent.spi.store import ClaimRequest  # noqa: PLC0415

        # The lanes rotate, so that each has its turn at the front.
        start = turn % len(self.shape.lanes)
        scans = [
            LaneScan(lane, lane, self.shape.room, [self.floors.get((lane, p)) for p in range(5)])
            for lane in self.shape.lanes[start:] + self.shape.lanes[:start]
        ]
        request = ClaimRequest(
            node=self.node,
            scans=scans,
            limit=ROWS,
            boost_interval=timedelta(minutes=15),
            inline_args=8192,
        )
        started = time.perf_counter()
        claims: Sequence[Any] = await self.store.claim_jobs(request)
        self.call_ms.append((time.perf_counter() - started) * 1e3)
        assert len(claims) == ROWS, f"{self.case}: {len(claims)} jobs claimed, {ROWS} expected"
        for claim in reversed(claims):  # the first of each priority is the last written
            self.floors[claim.lane, claim.priority] = Floor(claim.due_at, claim.id)
        return claims

    async def end(self, claims: Sequence[Any]) -> None:
        """Take the claims away, so that no situation is claimed from with more of them."""
        await self.connection.execute(
            "DELETE FROM detent.detent_running WHERE id = ANY ($1)", [claim.id for claim in claims]
        )

    def values(self, fresh: Claimer) -> dict[str, float]:
        mine, theirs = percentile(self.server_ms, 0.5), percentile(fresh.server_ms, 0.5)
        return {
            "p50": mine,
            "p99": percentile(self.server_ms, 0.99),
            "call_p50": percentile(self.call_ms, 0.5),
            "rate": ROWS / mine * 1e3,
            "of_fresh": theirs / mine,
        }


async def run(harness: Harness) -> None:
    await install(harness)
    claimed = (harness.options.claims + WARM_UP + 5) * ROWS
    for shape in SHAPES:
        scale = Scale(fresh=claimed * shape.plenty, big=harness.options.big)
        async with AsyncExitStack() as stack:
            claimers: list[Claimer] = []
            for situation in SITUATIONS:
                case = f"{shape.name}: {situation.name(scale)}"
                say(f"claim: setting up {case}")
                database = f"bench_claim_{len(claimers)}"
                await clone(harness, database)
                await stack.enter_async_context(
                    prepared(harness.server, database, situation, shape, scale)
                )
                claimers.append(await open_claimer(harness, stack, database, case, shape))
            await measure(harness, claimers)
    await run_payloads(harness)


async def run_payloads(harness: Harness) -> None:
    shape, scale = SHAPES[0], Scale(fresh=(harness.options.claims + WARM_UP + 5) * ROWS, big=0)
    async with AsyncExitStack() as stack:
        claimers: list[Claimer] = []
        for case, payload in PAYLOADS.items():
            say(f"claim: setting up {case}")
            database = f"bench_claim_{len(claimers)}"
            await clone(harness, database)
            async with harness.server.connect(database) as connection:
                await add_fresh(connection, shape, scale, payload=payload)
            await harness.server.settle(database)
            claimers.append(await open_claimer(harness, stack, database, case, shape))
        await measure(harness, claimers)


async def install(harness: Harness) -> None:
    """The schema, by the store itself: this section needs no app and no command line."""
    await harness.server.create(TEMPLATE)
    await harness.call(RAW, "install", database=TEMPLATE)
    await harness.server.alone(TEMPLATE)


async def clone(harness: Harness, database: str) -> None:
    await harness.server.create(database, TEMPLATE)
    # Planning belongs to the server's time; only here, since it costs every statement a little.
    setting = f"ALTER DATABASE {database} SET pg_stat_statements.track_planning = on"
    await harness.server.execute("postgres", setting)


async def open_claimer(
    harness: Harness, stack: AsyncExitStack, database: str, case: str, shape: Shape
) -> Claimer:
    from detent.stores.postgres import PostgresStore  # noqa: PLC0415

    store = PostgresStore(harness.server.url(database))
    await store.open()
    stack.push_async_callback(store.close)
    connection = await stack.enter_async_context(harness.server.connect(database))
    claimer = Claimer(database, case, store, connection, shape)
    await claimer.join()
    return claimer


async def measure(harness: Harness, claimers: Sequence[Claimer]) -> None:
    """Claim in turn: what disturbs one situation for a moment disturbs all of them."""
    await harness.quiet()
    with usage(harness.server.postmaster) as used:
        async with harness.server.connect() as counters:
            for turn in range(harness.options.claims + WARM_UP):
                first = turn % len(claimers)
                for claimer in [*claimers[first:], *claimers[:first]]:
                    before = await server_ms(counters, claimer.database)
                    claims = await claimer.claim(turn)
                    claimer.server_ms.append(await server_ms(counters, claimer.database) - before)
                    await claimer.end(claims)
    for claimer in claimers:
        del claimer.server_ms[:WARM_UP], claimer.call_ms[:WARM_UP]
    for claimer in claimers:
        values = claimer.values(claimers[0])
        sample = Sample(SECTION, claimer.case, DETENT.name, 0, values, used.foreign)
        harness.results.samples.append(sample)


async def server_ms(connection: Any, database: str) -> float:
    """Milliseconds that the server has planned and executed in a database, as it counts them.

    The difference over one claim is that claim's time, without the network, the driver and the
    commit; the text of the statements is not read, which would cost more than the claim.
    """
    value = await connection.fetchval(
        """SELECT coalesce(sum(total_plan_time + total_exec_time), 0)
        FROM pg_stat_statements(false)
        WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1)""",
        database,
    )
    return float(value)


def _situations(results: Results, metric: str) -> list[float]:
    return [
        sample.values[metric]
        for sample in results.samples
        if sample.section == SECTION and sample.case not in PAYLOADS
    ]


def worst_p99(results: Results) -> Spread | None:
    values = _situations(results, "p99")
    return Spread(max(values), min(values), max(values)) if values else None


def worst_rate(results: Results) -> Spread | None:
    values = _situations(results, "of_fresh")
    return Spread(min(values), min(values), max(values)) if values else None


def payload_ratio(results: Results) -> Spread | None:
    small, large = (results.spread(SECTION, case, DETENT.name, "p99") for case in PAYLOADS)
    return spread([large.middle / small.middle]) if small and large else None
