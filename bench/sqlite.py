"""The embedded default: how fast nodes empty a file, and what one costs that waits beside it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.adapter import URL
from bench.drain import watch
from bench.harness import Harness, Measured, MeasurementFailed
from bench.probe import new_run
from bench.processes import usage
from bench.subjects import DETENT, Subject

SECTION = "sqlite"
DRAINS = {"drain, 1 process": 1, "drain, 2 processes": 2}
IDLE = "idle node"
ONE = next(iter(DRAINS))
MOST = 50_000


@contextmanager
def new_file() -> Iterator[Mapping[str, str]]:
    """A file of its own, on the disk that holds temporary files, as the subjects are told of it."""
    with tempfile.TemporaryDirectory(prefix="detent-bench-") as folder:
        url = f"sqlite:///{folder}/jobs.db"
        yield {URL: url, "DETENT_URL": url}


async def run(harness: Harness) -> None:
    async def measure(_subject: Subject, case: str) -> Measured:
        with new_file() as extra:
            if case == IDLE:
                return await idle(harness, extra)
            return await drain(harness, DRAINS[case], extra)

    await harness.rounds(SECTION, list(DRAINS), [DETENT], measure)
    await harness.rounds(SECTION, [IDLE], [DETENT], measure, count=1)


async def drain(harness: Harness, processes: int, extra: Mapping[str, str]) -> Measured:
    jobs = min(harness.options.jobs, MOST)
    await harness.call(DETENT, "fill", extra=extra, jobs=jobs)
    await harness.quiet()
    with new_run(jobs) as run, usage(harness.server.postmaster) as used:
        async with harness.nodes(DETENT, processes, run, extra) as nodes:
            counts, resident = await watch(run, nodes, jobs, harness.options.cap)
        distinct = sum(1 for start in run.starts() if start)
    values = {
        "rate": counts.rate,
        "jobs": float(distinct),
        "twice": float(counts.started - distinct),
        "resident": float(resident),
    }
    return values, used.foreign


async def idle(harness: Harness, extra: Mapping[str, str]) -> Measured:
    seconds = harness.options.idle_seconds
    with new_run(1) as run, usage(harness.server.postmaster) as used:
        async with harness.nodes(DETENT, 1, run, extra) as nodes:
            await nodes.started()
            cpu = nodes.cpu_seconds()
            await asyncio.sleep(seconds)
            cpu = nodes.cpu_seconds() - cpu
            if not nodes.alive:
                raise MeasurementFailed(f"the node ended: {run.log_tail()}")
    return {"cpu_percent": 100 * cpu / seconds}, used.foreign
