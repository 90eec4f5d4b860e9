"""An API allows fifty calls a second: what is too much waits, and nothing is refused."""

import asyncio
import time

from detent import App, Rate

app = App("memory://")
started: list[float] = []


@app.task(rate=Rate(50, burst=5))
async def call(number: int) -> None:
    started.append(time.monotonic())


async def main() -> None:
    jobs = await app.enqueue_many([call.bind(number) for number in range(55)])
    async with app.node(concurrency=50):
        for job in jobs:
            await job.result(timeout=10)
    lasted = started[-1] - started[0]
    print(f"{len(started)} calls")
    # After the burst of 5, the other 50 come at 50 a second: it takes a second, and would take
    # next to nothing without the rate. The first may have had to wait for a busy machine.
    print("not too fast" if lasted >= 0.5 else f"too fast: {lasted:.2f} s")


asyncio.run(main())
