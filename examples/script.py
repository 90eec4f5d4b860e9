"""A whole program in one file: some tasks, a handful of jobs, and the node that runs them.

    python examples/script.py

The jobs live in `detent.db` in the current folder, or wherever DETENT_URL says.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from detent import App, JobContext, JobFailed, Priority, Retry

app = App()


@dataclass
class Page:
    """Arguments and results can be dataclasses, pydantic models, dates, and what JSON knows."""

    url: str
    words: int


@app.task(retry=Retry(max_attempts=3, delay=timedelta(seconds=0.1)), timeout=30)
async def fetch(ctx: JobContext, url: str) -> Page:
    """Async functions run on the event loop. This one fails at first, as networks do."""
    if ctx.attempt == 1:
        raise ConnectionError("connection reset")
    ctx.log.info("got it")
    return Page(url, words=len(url.split("/")))


@app.task
def count_primes(below: int) -> int:
    """Other functions run on threads."""
    return sum(all(number % i for i in range(2, number)) for number in range(2, below))


@app.task(retry=Retry(never=(ValueError,)))
def parse(text: str) -> int:
    """Trying again would not help: this job fails for good at once."""
    return int(text)


@app.task
async def remind(who: str) -> str:
    """Run when it is due, and not before."""
    return f"{who}, it is time"


async def main() -> None:
    """Enqueue, run, and print what came of it."""
    async with app:
        # Nobody runs these yet. They are stored, and would survive a crash right here.
        pages = await app.enqueue_many([fetch.bind(f"https://example.com/{n}") for n in range(3)])
        primes = await count_primes.options(priority=Priority.HIGH).enqueue(below=500)
        number = await parse.enqueue("forty-two")
        reminder = await remind.options(delay=timedelta(seconds=0.5)).enqueue("Ada")

        async with app.node(concurrency=10):  # a real program says `detent node module:app`
            for page in pages:
                print(await page.result(timeout=30))
            print(await primes.result(timeout=30), "primes")
            print(await reminder.result(timeout=30))
            try:
                await number.result(timeout=30)
            except JobFailed as failure:
                print(failure)


if __name__ == "__main__":
    asyncio.run(main())
