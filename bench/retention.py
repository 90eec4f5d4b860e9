"""What claims notice of retention: a node claims while another one prunes a million ended jobs.

The pruner is the service of a node, with its own connections and its own pauses. Claims come
every so often, as on a node with steady work, from before the first page to after the last.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bench.claim import ROWS, WARM_UP, Claimer, clone, install, open_claimer
from bench.claim_situations import SHAPES, Scale, Shape, add_fresh
from bench.harness import Harness, say
from bench.processes import usage
from bench.results import Results, Sample, Spread, percentile
from bench.subjects import DETENT

SECTION = "retention"
ALONE = "nothing is pruned"
CASES = {ALONE: None, "deleted meanwhile": "7d", "archived meanwhile": "7d archive"}
EVERY = 0.025
"""Seconds between claims."""
FRESH = 6_000
"""So many claims at the most, while a sweep goes on."""

_FINISHED = """
WITH job AS (
    INSERT INTO detent.detent_job
        (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
    SELECT (lpad(to_hex((1000 * extract(epoch FROM at))::bigint), 12, '0') || '7'
            || lpad(to_hex(n % 4096), 3, '0') || '8000' || lpad(to_hex(n), 12, '0'))::uuid,
        'bench.noop', 'default', 'default', 2, at, at, convert_to(repeat('x', 100), 'UTF8'), 'json'
    FROM generate_series(1, $1::integer) AS n,
        LATERAL (SELECT now() - interval '30 days' + n * interval '1 ms') AS past (at)
    RETURNING id, task, queue, enqueued_at
)
INSERT INTO detent.detent_outcome
    (id, generation, attempt, finished_at, started_at, duration, state, task, queue, result)
SELECT id, 1, 1, enqueued_at, enqueued_at, 0, 'succeeded', task, queue, '{"done":true}'
FROM job
"""


@dataclass
class Sweep:
    """A pruner at work: when it is over, and what it did."""

    store: Any
    rule: str
    pruned: int = 0
    seconds: float = 0.0
    pages: list[float] = field(default_factory=list)

    async def run(self) -> None:
        from detent._engine.maintenance.prune import Pruner  # noqa: PLC0415 - when measured
        from detent.clock import SystemRuntime  # noqa: PLC0415
        from detent.config import RetentionConfig  # noqa: PLC0415
        from detent.events import Bus, Pruned  # noqa: PLC0415

        bus = Bus()
        config = RetentionConfig(succeeded=self.rule, interval=timedelta(milliseconds=100))  # type: ignore[arg-type]
        pruner = Pruner(SystemRuntime(), bus, self, config)  # type: ignore[arg-type]

        def told(event: Pruned) -> None:
            self.pruned += event.deleted + event.archived
            pruner.stop()

        bus.subscribe(Pruned, told)
        started = time.perf_counter()
        await pruner.run()
        self.seconds = time.perf_counter() - started

    async def prune_jobs(self, request: Any) -> Any:
        started = time.perf_counter()
        page = await self.store.prune_jobs(request)
        self.pages.append((time.perf_counter() - started) * 1e3)
        return page

    async def prune_keys(self, limit: int) -> Any:
        return await self.store.prune_keys(limit)

    async def prune_archive(self, keep: timedelta, limit: int) -> Any:
        return await self.store.prune_archive(keep, limit)

    def values(self) -> dict[str, float]:
        return {
            "pruned": self.pruned,
            "rate": self.pruned / self.seconds,
            "seconds": self.seconds,
            "page_p50": percentile(self.pages, 0.5),
            "page_p99": percentile(self.pages, 0.99),
        }


async def run(harness: Harness) -> None:
    await install(harness)
    for case, rule in CASES.items():
        await measure(harness, case, rule)


async def measure(harness: Harness, case: str, rule: str | None) -> None:
    """Claim as long as the sweep goes on; without one, as often as in the section on claims."""
    shape, database = SHAPES[0], "bench_retention"
    claims = harness.options.claims
    say(f"{SECTION}: setting up {case}")
    await clone(harness, database)
    await fill(harness, database, shape, claims if rule is None else FRESH)
    async with AsyncExitStack() as stack:
        claimer = await open_claimer(harness, stack, database, case, shape)
        counters = await stack.enter_async_context(harness.server.connect())
        statement = await find_claim(claimer, counters)
        await harness.quiet()
        with usage(harness.server.postmaster) as used:
            sweep = None if rule is None else Sweep(claimer.store, rule)
            going = None if sweep is None else asyncio.create_task(sweep.run())
            turn = 0
            while turn < claims if going is None else not going.done():
                await claim(claimer, counters, statement, turn)
                turn += 1
            if going is not None:
                await going
    values = {
        "p50": percentile(claimer.server_ms, 0.5),
        "p99": percentile(claimer.server_ms, 0.99),
        "call_p50": percentile(claimer.call_ms, 0.5),
        "call_p99": percentile(claimer.call_ms, 0.99),
        "claims": len(claimer.server_ms),
        **(sweep.values() if sweep else {}),
    }
    harness.results.samples.append(Sample(SECTION, case, DETENT.name, 0, values, used.foreign))


async def fill(harness: Harness, database: str, shape: Shape, claims: int) -> None:
    async with harness.server.connect(database) as connection:
        await connection.execute(_FINISHED, harness.options.big)
        scale = Scale(fresh=(claims + WARM_UP + 5) * ROWS, big=harness.options.big)
        await add_fresh(connection, shape, scale)
    await harness.server.settle(database)


async def claim(claimer: Claimer, counters: Any, statement: int, turn: int) -> None:
    before = await claim_ms(counters, statement)
    claims = await claimer.claim(turn)
    claimer.server_ms.append(await claim_ms(counters, statement) - before)
    await claimer.end(claims)
    await asyncio.sleep(EVERY)


async def find_claim(claimer: Claimer, counters: Any) -> int:
    """Warm up, and return by which number the server counts the claims of this database."""
    await counters.execute("SELECT pg_stat_statements_reset()")
    for turn in range(WARM_UP):
        await claimer.end(await claimer.claim(turn))
    claimer.call_ms.clear()
    number: int = await counters.fetchval(
        "SELECT queryid FROM pg_stat_statements"
        " WHERE query LIKE '%detent_running%nextval%' AND calls >= $1",
        WARM_UP,
    )
    return number


async def claim_ms(connection: Any, statement: int) -> float:
    """Milliseconds that the server has planned and executed claims."""
    value = await connection.fetchval(
        "SELECT total_plan_time + total_exec_time FROM pg_stat_statements(false)"
        " WHERE queryid = $1",
        statement,
    )
    return float(value)


def worst_p99(results: Results) -> Spread | None:
    found = [results.spread(SECTION, case, DETENT.name, "p99") for case in CASES if case != ALONE]
    values = [spread.middle for spread in found if spread is not None]
    return Spread(max(values), min(values), max(values)) if values else None
