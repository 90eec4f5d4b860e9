"""What a node costs that has nothing to do: statements sent and CPU used while it waits."""

from __future__ import annotations

import asyncio

from bench.harness import Harness, Measured, MeasurementFailed
from bench.probe import new_run
from bench.processes import usage
from bench.subjects import Subject

CASE = "idle node"


async def run(harness: Harness, subjects: list[Subject]) -> None:
    seconds = harness.options.idle_seconds

    async def measure(subject: Subject, _case: str) -> Measured:
        database = await harness.database(subject)
        with new_run(1) as probe, usage(harness.server.postmaster) as used:
            async with harness.nodes(subject, 1, probe) as nodes:
                await nodes.started()
                before = await harness.server.counters(database)
                cpu = nodes.cpu_seconds()
                await asyncio.sleep(seconds)
                after = await harness.server.counters(database)
                cpu = nodes.cpu_seconds() - cpu
                if not nodes.alive:
                    raise MeasurementFailed(f"the node ended: {probe.log_tail()}")
        statements = (after.statements - before.statements) / seconds
        return {"statements": statements, "cpu_percent": 100 * cpu / seconds}, used.foreign

    await harness.rounds("idle", (CASE,), subjects, measure, count=1)
