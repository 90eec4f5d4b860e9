"""What one design choice is worth: the raw prototype with and without a lock around each claim.

Quartz takes one row of the cluster `FOR UPDATE` before it acquires triggers. The arm `own row`
sends the very same statements but every node locks a row of its own: the step from `no lock` to
`own row` is the price of the round trips, the step to `one row for all` is the price of waiting.
Large claims hide the lock, since it is taken so rarely; small ones, as Quartz makes, show it.
"""

from __future__ import annotations

from dataclasses import replace

from bench.drain import Drains
from bench.harness import Harness, Measured
from bench.prototype import CLAIM_LOCK, CLAIM_SIZE
from bench.subjects import PROTOTYPE, Subject

LOCKS = {"no lock": "", "own row": "own", "one row for all": "one"}
PROCESSES = (1, 2, 4)
CLAIM_SIZES = (500, 10)
SECTION = "global-lock"


async def run(harness: Harness) -> None:
    drains = Drains(harness)
    arms = {
        f"claims of {size}, {count} process{'es' if count > 1 else ''}, {lock}": (size, count, lock)
        for size in CLAIM_SIZES
        for count in PROCESSES
        for lock in LOCKS
    }

    async def measure(subject: Subject, name: str) -> Measured:
        size, count, lock = arms[name]
        jobs = min(harness.options.jobs, size * 1000)  # small claims are slow: fewer jobs will do
        extra = {CLAIM_LOCK: LOCKS[lock], CLAIM_SIZE: str(size)}
        return await drains.measure(replace(subject, drain_jobs=jobs), count, extra)

    await harness.rounds(SECTION, list(arms), [PROTOTYPE], measure)
