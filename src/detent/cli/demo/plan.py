"""What the demonstration enqueues: a few thousand jobs of every kind."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from detent.cli.demo import tasks
from detent.handle import Job


class Enqueued(NamedTuple):
    """What was handed over."""

    jobs: list[Job[Any]]
    duplicates: int
    """How many calls had a key that was taken, and got the job that holds it."""
    canceled: list[Job[Any]]
    """Those that will never run."""


def plain(size: int) -> Sequence[Any]:
    """Return the calls without keys or delays."""
    return [
        *(tasks.report.bind(1.0 + number % 5 / 2) for number in range(size * 2)),
        *(tasks.greet.bind(f"visitor {number}") for number in range(size * 60)),
        *(tasks.thumbnail.bind(number) for number in range(size * 10)),
        *(tasks.primes.bind(20_000 + number) for number in range(size * 10)),
        *(tasks.flaky.bind() for _ in range(size * 5)),
        *(tasks.hopeless.bind() for _ in range(size)),
    ]


async def enqueue(size: int) -> Enqueued:
    """Enqueue everything."""
    app = tasks.app
    jobs = await app.enqueue_many(plain(size))
    delayed = [
        tasks.greet.options(delay=timedelta(seconds=1 + number % 40 / 10)).bind("later")
        for number in range(size * 8)
    ]
    jobs += await app.enqueue_many(delayed)
    duplicates = 0
    for number in range(size * 2):
        key = f"invoice-{number // 2}"
        job = await tasks.greet.options(key=key).enqueue(key)
        if job.created:
            jobs.append(job)
        else:
            duplicates += 1
    unwanted = await app.enqueue_many(
        [tasks.greet.options(delay=timedelta(hours=1)).bind("never") for _ in range(size)]
    )
    for job in unwanted:
        await job.cancel(reason="changed our mind")
    return Enqueued(jobs, duplicates, unwanted)
