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
    jobs = await app.enqueue_many([call.bind(number) for number in range(30)])
    async with app.node(concurrency=50):
        for job in jobs:
            await job.result(timeout=10)
    lasted = started[-1] - started[0]
    at_once = sum(moment - started[0] < 0.01 for moment in started)
    print(f"{len(started)} calls, {at_once} of them at once")
    # After the burst of 5, the other 25 come at 50 a second: in half a second, not sooner.
    print("not too fast" if lasted >= 0.48 else f"too fast: {lasted:.2f} s")


asyncio.run(main())
