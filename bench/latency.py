"""How long an idle system takes from the enqueue call in one process to the start in another."""

from __future__ import annotations

from collections.abc import Mapping

from bench.harness import Harness, Measured, MeasurementFailed
from bench.probe import new_run
from bench.processes import usage
from bench.results import percentile
from bench.subjects import Subject

INTERVAL = 0.03
WARM_UP = 20
CASE = "idle"


async def measure_lone_jobs(
    harness: Harness,
    subject: Subject,
    nodes_count: int = 1,
    extra: Mapping[str, str] | None = None,
) -> Measured:
    """Enqueue single jobs into idle nodes; say how late they start and what they cost."""
    database = await harness.database(subject)
    jobs = harness.options.latency_samples + WARM_UP
    with new_run(jobs) as probe, usage(harness.server.postmaster) as used:
        async with harness.nodes(subject, nodes_count, probe, extra) as nodes:
            await nodes.started()
            await harness.quiet()
            if not nodes.alive:
                raise MeasurementFailed(f"the node ended: {probe.log_tail()}")
            before = await harness.server.reset_counters(database)
            answer = await harness.call(subject, "pulse", extra=extra, jobs=jobs, interval=INTERVAL)
            after = await harness.server.counters(database)
        starts = probe.starts()
    pairs = list(zip(starts, answer["sent"], strict=True))[WARM_UP:]
    waits = [(start - sent) / 1e6 for start, sent in pairs if start]
    if not waits:
        raise MeasurementFailed(f"no job started: {len(pairs)} sent")
    values = {f"p{share}": percentile(waits, share / 100) for share in (50, 95, 99)}
    values["statements"] = (after.statements - before.statements) / jobs
    return {**values, "lost": float(len(pairs) - len(waits))}, used.foreign


async def run(harness: Harness, subjects: list[Subject]) -> None:
    async def measure(subject: Subject, _case: str) -> Measured:
        return await measure_lone_jobs(harness, subject)

    await harness.rounds("latency", (CASE,), subjects, measure)
