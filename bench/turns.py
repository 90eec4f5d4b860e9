"""Compares two nodes on a machine whose speed changes: they drain in turns of half a second.

A core that shares its silicon with a stranger's is slower by half for seconds at a time, so two
drains one after the other may differ by a third although they do the same. Of two that take turns,
each stopped while the other runs, both meet what happens. What a node has under way when it is
stopped is finished by the server, and found by the node when it goes on; so it is for both.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from bench.harness import Harness, MeasurementFailed
from bench.probe import Run, new_run
from bench.processes import cpu_seconds, usage
from bench.subjects import Subject

TURN = 0.5
START_WITHIN = 20.0
# One after the other would always be a little later in the life of a database.
ORDER = (0, 1, 1, 0)
# What is left then is for the last turns, and for a node that is faster than those of today.
UNTIL = 0.6


class Contestant:
    """A node that drains its own database, and is stopped but for its turns."""

    def __init__(self, subject: Subject, fill: dict[str, str]) -> None:
        self.subject = subject
        self.fill = fill
        self.started = 0
        self.seconds = self.node_cpu = self.server_cpu = 0.0
        self._run: Run | None = None
        self._group = 0

    async def prepare(self, harness: Harness, jobs: int) -> None:
        """Fill its database."""
        database = await harness.database(self.subject)
        await harness.call(self.subject, "fill", extra=self.fill, jobs=jobs)
        await harness.server.settle(database)

    async def start(self, harness: Harness, stack: AsyncExitStack, jobs: int) -> None:
        """Start the node, and stop it as soon as it has begun."""
        run = self._run = stack.enter_context(new_run(jobs))
        nodes = await stack.enter_async_context(harness.nodes(self.subject, 1, run))
        self._group = nodes.processes[0].pid
        end = time.monotonic() + START_WITHIN
        while not run.counts().started:
            if not nodes.alive or time.monotonic() > end:
                raise MeasurementFailed(f"no job within {START_WITHIN:.0f} s: {run.log_tail()}")
            await asyncio.sleep(0.01)
        os.killpg(self._group, signal.SIGSTOP)
        stack.callback(os.killpg, self._group, signal.SIGCONT)

    @property
    def done(self) -> int:
        """How many jobs it has started in all."""
        assert self._run is not None
        return self._run.counts().started

    async def turn(self, postmaster: int) -> None:
        """Let it run for a while, and count."""
        before = self.done, cpu_seconds(self._group), cpu_seconds(postmaster), time.monotonic()
        os.killpg(self._group, signal.SIGCONT)
        await asyncio.sleep(TURN)
        os.killpg(self._group, signal.SIGSTOP)
        self.seconds += time.monotonic() - before[3]
        self.started += self.done - before[0]
        self.node_cpu += cpu_seconds(self._group) - before[1]
        self.server_cpu += cpu_seconds(postmaster) - before[2]

    @property
    def rate(self) -> float:
        """Jobs per second in its turns."""
        return self.started / self.seconds

    def values(self) -> dict[str, float]:
        """What it did, and what each job cost."""
        return {
            "rate": self.rate,
            "node_us": self.node_cpu / self.started * 1e6,
            "server_us": self.server_cpu / self.started * 1e6,
        }


async def compete(harness: Harness, pair: Sequence[Contestant], jobs: int) -> float:
    """Let two nodes drain so many jobs each in turns; return the cores that others used."""
    for one in pair:
        await one.prepare(harness, jobs)
    await harness.quiet()
    postmaster = harness.server.postmaster
    async with AsyncExitStack() as stack:
        for one in pair:
            await one.start(harness, stack, jobs)
        used = stack.enter_context(usage(postmaster))
        while all(one.done < UNTIL * jobs for one in pair):
            for number in ORDER:
                await pair[number].turn(postmaster)
    if not all(one.started for one in pair):
        raise MeasurementFailed(f"{jobs:,} jobs are too few for turns of {TURN} s")
    return used.foreign
