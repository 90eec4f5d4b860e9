"""The steps of one order run one after the other, in their order; orders beside each other.

A step that has to be tried again holds back the later steps of its order, and no other order.
"""

import asyncio
from datetime import timedelta

from detent import App, JobContext, Retry

app = App("memory://")
done: dict[str, list[str]] = {}
running: set[str] = set()
beside: list[int] = []


@app.task(
    concurrency=1,
    concurrency_key=lambda order, **_: order,
    retry=Retry(max_attempts=3, delay=timedelta(seconds=0.1)),
)
async def step(ctx: JobContext, order: str, what: str) -> None:
    assert order not in running, "two steps of one order at once"
    running.add(order)
    beside.append(len(running))
    await asyncio.sleep(0.01)
    running.remove(order)
    if (order, what, ctx.attempt) == ("order 2", "charge", 1):
        raise ConnectionError("the bank did not answer")
    done.setdefault(order, []).append(what)


async def main() -> None:
    steps = ("reserve", "charge", "pack", "ship")
    orders = [f"order {number}" for number in range(1, 6)]
    calls = [step.bind(order, what) for what in steps for order in orders]
    jobs = await app.enqueue_many(calls)
    async with app.node(concurrency=20):
        for job in jobs:
            await job.result(timeout=10)
    for order in orders:
        print(f"{order}: {', '.join(done[order])}")
    print(f"{max(beside)} orders at once")


asyncio.run(main())
