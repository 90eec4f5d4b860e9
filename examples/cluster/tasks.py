"""Tasks for a small cluster: the README beside this file shows four ways to run them.

python tasks.py      enqueues thirty jobs, and waits for them
"""

import asyncio
import socket

from detent import App, JobContext

app = App()


@app.task
async def order(ctx: JobContext, number: int) -> str:
    """Ordinary work: any node may do it."""
    await asyncio.sleep(0.05)
    return f"order {number} on {ctx.node_id}"


@app.task(queue="mail")
async def mail(to: str) -> str:
    """Mails have a queue of their own, so that a thousand of them keep nothing else waiting."""
    return f"mail to {to}"


@app.task(queue="images", needs="gpu")
def render(picture: int) -> str:
    """Runs only on nodes that offer a `gpu`."""
    return f"picture {picture} on {socket.gethostname()}"


async def main() -> None:
    """Enqueue some of each, and wait for them."""
    async with app:
        jobs = await app.enqueue_many(
            [
                *(order.bind(number) for number in range(10)),
                *(mail.bind(f"customer{number}@example.com") for number in range(10)),
                *(render.bind(number) for number in range(10)),
            ]
        )
        for job in jobs:
            await job.result(timeout=60)
        print(f"{len(jobs)} jobs done")


if __name__ == "__main__":
    asyncio.run(main())
