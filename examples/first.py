"""A first task: enqueue a few jobs, run them in this process, print what they returned.

Runs without any database: `memory://` keeps the jobs in this process. With `DETENT_URL` set to a
PostgreSQL URL (after `detent migrate`) the same program uses that.
"""

import asyncio
import os

from detent import App, JobContext, Retry

app = App(os.environ.get("DETENT_URL", "memory://"))


@app.task(retry=Retry(max_attempts=3))
async def greet(ctx: JobContext, name: str) -> str:
    """Fail the first time, to show that it is tried again."""
    if ctx.attempt == 1 and name == "Grace":
        raise ConnectionError("the line was busy")
    return f"hello {name}"


@app.task
def count_letters(text: str) -> int:
    """Run on a thread, since it is not async."""
    return sum(character.isalpha() for character in text)


async def main() -> None:
    """Enqueue, run, wait."""
    async with app, app.node(concurrency=10):
        greetings = [await greet.enqueue(name) for name in ("Ada", "Grace", "Edsger")]
        letters = await count_letters.enqueue("a detent holds until it is released")
        for job in greetings:
            print(await job.result(timeout=30))
        print(await letters.result(timeout=30), "letters")


if __name__ == "__main__":
    asyncio.run(main())
