"""Tasks behind limits, for nodes that are stopped and killed while they run them."""

import asyncio
import random

from detent import App, Rate

app = App()


@app.task(name="serial", concurrency=1, concurrency_key=lambda key, **_: key)
async def serial(key: str, lasts: float) -> None:
    await asyncio.sleep(lasts * random.random())


@app.task(name="three", concurrency=3, concurrency_key=lambda key, **_: key)
async def three(key: str, lasts: float) -> None:
    await asyncio.sleep(lasts * random.random())


@app.task(name="rated", rate=Rate(100, burst=10))
async def rated(number: int) -> None:
    """Count, and nothing else."""
