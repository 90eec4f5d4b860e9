"""What more nodes bring and cost: drains by 1 to 8 of them, a foreign backlog, an idle cluster.

On a machine with few cores more nodes cannot be faster for long. What is seen here is that they do
not get in each other's way, that jobs which a node cannot run do not slow it down, and that nodes
which have nothing to do leave the database alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bench.drain import Drains
from bench.harness import Harness, Measured, MeasurementFailed, say
from bench.probe import new_run
from bench.processes import usage
from bench.results import Results, Spread, spread
from bench.server import MARK
from bench.subjects import DETENT, Subject

SECTION = "scale"
NODES = {f"{count} node{'s' if count > 1 else ''}": count for count in (1, 2, 4, 8)}
FOREIGN = "1 node beside gpu jobs"
IDLE = "10 idle nodes"
IDLE_NODES = 10
# After this long without work a node polls as seldom as it ever does.
CALM = 75.0
TASK = "BENCH_TASK"
BY_STATEMENT = f"""
    SELECT calls, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) AS text
    FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1) AND query NOT LIKE '%{MARK}%'
    ORDER BY calls DESC LIMIT 12
"""


async def run(harness: Harness) -> None:
    drains = Drains(harness)

    async def drain(_subject: Subject, case: str) -> Measured:
        return await drains.measure(DETENT, NODES[case])

    async def beside(_subject: Subject, _case: str) -> Measured:
        return await _beside_foreign(harness, drains)

    async def idle(_subject: Subject, _case: str) -> Measured:
        return await _idle(harness)

    await harness.rounds(SECTION, list(NODES), [DETENT], drain)
    await harness.rounds(SECTION, [FOREIGN], [DETENT], beside)
    await harness.rounds(SECTION, [IDLE], [DETENT], idle, count=1)


async def _beside_foreign(harness: Harness, drains: Drains) -> Measured:
    """Drain alone, then behind as many jobs again that need what the node does not offer."""

    async def fill_foreign() -> None:
        await harness.call(DETENT, "fill", extra={TASK: "gpu"}, jobs=harness.options.jobs)

    alone, _ = await drains.measure(DETENT, 1)
    # Those jobs stay: nobody may wait for the store to be empty.
    unsettled = replace(DETENT, unfinished=None)
    values, foreign = await drains.measure(unsettled, 1, prepare=fill_foreign)
    return {**values, "of_alone": values["rate"] / alone["rate"]}, foreign


async def _idle(harness: Harness) -> Measured:
    """Statements a second of all nodes together; which ones is told as progress."""
    seconds, calm = (10.0, 5.0) if harness.options.quick else (60.0, CALM)
    database = await harness.database(DETENT)
    with new_run(1) as probe, usage(harness.server.postmaster) as used:
        async with harness.nodes(DETENT, IDLE_NODES, probe) as nodes:
            await nodes.started()
            await asyncio.sleep(calm)
            async with harness.server.connect() as connection:
                await connection.execute("SELECT pg_stat_statements_reset()")
                before, cpu = await harness.server.counters(database), nodes.cpu_seconds()
                await asyncio.sleep(seconds)
                after = await harness.server.counters(database)
                rows = await connection.fetch(BY_STATEMENT, database)
            if not nodes.alive:
                raise MeasurementFailed(f"the nodes ended: {probe.log_tail()}")
            cpu = nodes.cpu_seconds() - cpu
    for row in rows:
        say(f"  {row['calls'] / seconds:6.2f}/s  {row['text']}")
    statements = (after.statements - before.statements) / seconds
    return {"statements_a_second": statements, "cpu_percent": 100 * cpu / seconds}, used.foreign


def of_one(results: Results, case: str) -> Spread | None:
    """The rate of several nodes by that of one, round by round."""
    one = results.of(SECTION, next(iter(NODES)), DETENT.name, "rate")
    several = results.of(SECTION, case, DETENT.name, "rate")
    return spread(several[each] / one[each] for each in several if one.get(each))
