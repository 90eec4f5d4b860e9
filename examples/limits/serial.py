"""The steps of one order run one after the other, in their order; orders beside each other."""

import asyncio

from detent import App

app = App("memory://")
done: dict[str, list[str]] = {}
running: set[str] = set()
beside: list[int] = []


@app.task(concurrency=1, concurrency_key=lambda order, **_: order)
async def step(order: str, what: str) -> None:
    assert order not in running, "two steps of one order at once"
    running.add(order)
    beside.append(len(running))
    await asyncio.sleep(0.01)
    done.setdefault(order, []).append(what)
    running.remove(order)


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
