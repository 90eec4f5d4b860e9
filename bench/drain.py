"""How fast nodes empty a full store, and what each job costs the node and the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bench.harness import Harness, Measured, MeasurementFailed
from bench.probe import Counts, Run, new_run
from bench.processes import Nodes, usage
from bench.subjects import Subject

CASES = {"1 process": 1, "2 processes": 2}
START_WITHIN = 20.0
STALLED_AFTER = 8.0
SETTLE_WITHIN = 10.0
LOOK = 0.01


class Drains:
    """The drain section; remembers what the mere start of each subject's node costs."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.start_up: dict[str, float] = {}

    async def run(self, subjects: list[Subject]) -> None:
        async def measure(subject: Subject, case: str) -> Measured:
            return await self.measure(subject, CASES[case])

        await self.harness.rounds("drain", list(CASES), subjects, measure)

    async def measure(
        self,
        subject: Subject,
        processes: int,
        extra: Mapping[str, str] | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        fill: Mapping[str, str] | None = None,
    ) -> Measured:
        """Fill a fresh store, and let nodes empty it."""
        options, server = self.harness.options, self.harness.server
        start_up = await self.start_up_cpu(subject)
        jobs = min(options.jobs, subject.drain_jobs or options.jobs)
        database = await self.harness.database(subject)
        if prepare is not None:
            await prepare()
        await self.harness.call(subject, "fill", extra=fill, jobs=jobs)
        await server.settle(database)
        await self.harness.quiet()
        before = await server.reset_counters(database)
        with new_run(jobs) as run, usage(server.postmaster) as used:
            async with (
                server.connect(database) as connection,
                self.harness.nodes(subject, processes, run, extra) as nodes,
            ):
                counts, resident = await watch(run, nodes, jobs, options.cap)
                polls, settled = 0, 0.0
                if counts.started >= jobs and subject.unfinished:
                    polls, settled = await wait_settled(connection, subject.unfinished)
                node_cpu = nodes.cpu_seconds() - processes * start_up
                resident_after = nodes.resident_bytes()
                counts = run.counts()
            distinct = sum(1 for start in run.starts() if start)
        await server.alone(database)
        after = await server.counters(database)
        started = counts.started
        values = {
            "rate": counts.rate,
            "jobs": float(distinct),
            "twice": float(started - distinct),
            "statements": (after.statements - before.statements) / started,
            "commits": (after.commits - before.commits - polls) / started,
            "node_us": max(node_cpu, 0.0) / started * 1e6,
            "server_us": used.server / started * 1e6,
            "resident_before": float(resident),
            "resident_after": float(resident_after),
        }
        if settled:
            values["settled_rate"] = started / (settled - counts.first)
        return values, used.foreign

    async def start_up_cpu(self, subject: Subject) -> float:
        """CPU seconds of a node that starts, finds nothing and waits: an empty drain."""
        if subject.name not in self.start_up:
            await self.harness.database(subject)
            with new_run(1) as run:
                async with self.harness.nodes(subject, 1, run) as nodes:
                    await nodes.started()
                    if not nodes.alive:
                        raise MeasurementFailed(f"the node ended: {run.log_tail()}")
                    self.start_up[subject.name] = nodes.cpu_seconds()
        return self.start_up[subject.name]


async def watch(run: Run, nodes: Nodes, jobs: int, cap: float) -> tuple[Counts, int]:
    """Wait until all jobs started, or the time is up; also the memory at the first start."""
    began = moved = time.monotonic()
    resident = 0
    counts = run.counts()
    while counts.started < jobs:
        now = time.monotonic()
        if not nodes.alive:
            raise MeasurementFailed(f"the node ended: {run.log_tail()}")
        if not counts.started and now - began > START_WITHIN:
            raise MeasurementFailed(f"no job within {START_WITHIN:.0f} s: {run.log_tail()}")
        if counts.started and (now - counts.first > cap or now - moved > STALLED_AFTER):
            break
        await asyncio.sleep(LOOK)
        latest = run.counts()
        if latest.started > counts.started:
            moved = time.monotonic()
            resident = resident or nodes.resident_bytes()
        counts = latest
    return counts, resident


async def wait_settled(connection: Any, unfinished: str) -> tuple[int, float]:
    """Poll until the last completion is committed: how often we asked, and when it was."""
    end = time.monotonic() + SETTLE_WITHIN
    polls = 0
    while time.monotonic() < end:
        polls += 1
        if not await connection.fetchval(unfinished):
            return polls, time.monotonic()
        await asyncio.sleep(LOOK / 2)
    raise MeasurementFailed(f"jobs unfinished {SETTLE_WITHIN:.0f} s after the last start")
