"""How fast jobs get in: one caller after the other, many at once, and in bulk."""

from __future__ import annotations

from bench.harness import Harness, Measured, MeasurementFailed
from bench.processes import usage
from bench.subjects import Subject

BULK = "bulk, 1000 a call"
CALLERS = {"1 caller": 1, "20 callers": 20, "50 callers": 50}
CASES = (*CALLERS, BULK)


async def run(harness: Harness, subjects: list[Subject]) -> None:
    async def measure(subject: Subject, case: str) -> Measured:
        database = await harness.database(subject)
        await harness.quiet()
        seconds = harness.options.enqueue_seconds
        with usage(harness.server.postmaster) as used:
            if case == BULK:
                answer = await harness.call(subject, "bulk", seconds=seconds)
            else:
                answer = await harness.call(
                    subject, "enqueue", callers=CALLERS[case], seconds=seconds
                )
        if subject.stored:
            await check_stored(harness, database, subject.stored, answer["stored"])
        return {"rate": answer["jobs"] / answer["seconds"]}, used.foreign

    await harness.rounds("enqueue", CASES, subjects, measure)


async def check_stored(harness: Harness, database: str, query: str, expected: int) -> None:
    """A call that returned must have stored its job: speed by forgetting does not count."""
    async with harness.server.connect(database) as connection:
        stored = await connection.fetchval(query)
    if stored != expected:
        raise MeasurementFailed(f"{expected:,} calls returned but {stored:,} jobs are stored")
