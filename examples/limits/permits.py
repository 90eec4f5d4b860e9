"""A mail server takes three connections: the cluster never opens a fourth."""

import asyncio

from detent import App

app = App("memory://")
app.limit("smtp", concurrency=3)
connections = {"open": 0, "most": 0}


@app.task(resource="smtp")
async def send(number: int) -> None:
    await connect(1)


@app.task(resource="smtp", weight=2)
async def send_with_attachment(number: int) -> None:
    await connect(2)


async def connect(count: int) -> None:
    connections["open"] += count
    connections["most"] = max(connections["most"], connections["open"])
    await asyncio.sleep(0.01)
    connections["open"] -= count


async def main() -> None:
    jobs = await app.enqueue_many([send.bind(number) for number in range(20)])
    jobs += await app.enqueue_many([send_with_attachment.bind(number) for number in range(10)])
    async with app.node(concurrency=50):
        for job in jobs:
            await job.result(timeout=10)
    print(f"{len(jobs)} mails sent, at most {connections['most']} connections at once")
    await app.limits.set("smtp", concurrency=2)
    (info,) = await app.limits.list()
    print(f"{info.limit.name}: {info.limit.concurrency} from now on, code says 3")


asyncio.run(main())
