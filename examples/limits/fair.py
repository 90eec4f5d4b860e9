"""Two customers share a queue three to one, however much each of them has enqueued."""

import asyncio
from collections import Counter

from detent import App

app = App("memory://")
app.queue("render", fair_key="customer", weights={"gold": 3})
order: list[str] = []


@app.task(queue="render")
async def preview(customer: str) -> None:
    order.append(customer)


@app.task(queue="render")
async def poster(size: int, customer: str) -> None:
    order.append(customer)


async def main() -> None:
    calls = [preview.bind("tin") for _ in range(200)]
    calls += [poster.bind(60, "gold") for _ in range(50)]
    jobs = await app.enqueue_many(calls)
    urgent = await preview.options(priority=4).enqueue("tin")
    async with app.node(queues={"render": 1}):
        for job in [*jobs, urgent]:
            await job.result(timeout=10)
    print(f"first of all what is critical: {order[0]}")
    shares = Counter(order[1:41])
    print(f"then by weight: {round(shares['gold'] / shares['tin'])} of gold for 1 of tin")
    print(f"in the end all {len(order)} are done")


asyncio.run(main())
