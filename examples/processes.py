"""Work for the processor, in child processes: several at once, stopped for certain, safe to crash.

Runs without any database: `memory://` keeps the jobs in this process. With `DETENT_URL` set, the
same program uses that.
"""

import asyncio
import os
from datetime import timedelta

from detent import App, JobContext, JobFailed, Retry

app = App(os.environ.get("DETENT_URL", "memory://"))
app.pool("fragile", size=1, max_jobs=100, max_memory="512MB")


@app.task(executor="process")
def count_primes(low: int, high: int) -> int:
    """Keep a core busy; on a thread it would keep the whole node from working."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(low, 2), high))


@app.task(executor="process", timeout=0.5, retry=Retry(max_attempts=1))
def never_ends() -> None:
    """Be killed when the time is up."""
    while True:
        pass


@app.task(executor="fragile", retry=Retry(max_attempts=2, delay=timedelta(milliseconds=10)))
def crash_once(ctx: JobContext) -> str:
    """Take the whole process down, the first time: another one is started for the retry."""
    if ctx.attempt == 1:
        os._exit(3)
    return f"got through in attempt {ctx.attempt}"


async def main() -> None:
    """Enqueue, run, wait."""
    async with app, app.node():
        ranges = [count_primes.bind(n, n + 5_000) for n in range(0, 20_000, 5_000)]
        counted = await app.enqueue_many(ranges)
        endless = await never_ends.enqueue()
        crashing = await crash_once.enqueue()
        print(sum([await job.result(timeout=30) for job in counted]), "primes")
        print(await crashing.result(timeout=30))
        try:
            await endless.result(timeout=30)
        except JobFailed as failed:
            print(failed.error["message"] if failed.error else failed)


# Children import this file too, and must not run it as a program.
if __name__ == "__main__":
    asyncio.run(main())
