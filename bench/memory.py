"""What running jobs weigh, and whether a node that drained a million of them has grown."""

from __future__ import annotations

import asyncio
import time

from bench.drain import watch
from bench.harness import Harness, Measured, MeasurementFailed
from bench.probe import Run, new_run
from bench.processes import Nodes, usage
from bench.subjects import Subject

RUNNING = "1,000 running jobs"
DRAINED = "1,000,000 drained"
HELD = {"BENCH_TASK": "hold"}
JOBS = {RUNNING: 1_000, DRAINED: 1_000_000}
DRAIN_WITHIN = 300.0


async def run(harness: Harness, subject: Subject) -> None:
    async def measure(subject: Subject, case: str) -> Measured:
        jobs = JOBS[case]
        await harness.database(subject)
        with new_run(jobs) as probe, usage(harness.server.postmaster) as used:
            async with harness.nodes(subject, 1, probe) as nodes:
                await nodes.started()
                empty = nodes.resident_bytes()
                await harness.call(
                    subject, "fill", jobs=jobs, extra=HELD if case == RUNNING else {}
                )
                early = await resident_at(probe, nodes, jobs // 10)
                await watch(probe, nodes, jobs, DRAIN_WITHIN)
                await asyncio.sleep(1)
                late = nodes.resident_bytes()
        return {"empty": float(empty), "early": float(early), "late": float(late)}, used.foreign

    cases = [RUNNING, DRAINED] if harness.options.full else [RUNNING]
    await harness.rounds("memory", cases, [subject], measure, count=1)


async def resident_at(probe: Run, nodes: Nodes, started: int) -> int:
    """Memory when this many jobs have started: the caches are warm, the rest must not add."""
    end = time.monotonic() + DRAIN_WITHIN
    while probe.counts().started < started:
        if time.monotonic() > end or not nodes.alive:
            raise MeasurementFailed(f"too few jobs started: {probe.log_tail()}")
        await asyncio.sleep(0.02)
    return nodes.resident_bytes()
