"""The tasks of the demonstration, written as anybody would write theirs."""

import asyncio
import hashlib
import time
from datetime import timedelta

from detent import App, JobContext, Retry

app = App()


@app.task(name="greet")
async def greet(name: str) -> str:
    """Most jobs are like this: a few lines on the event loop."""
    return f"Hello, {name}!"


@app.task(name="report")
async def report(ctx: JobContext, seconds: float) -> str:
    """Takes a while, and says how far it is."""
    for step in range(5):
        await asyncio.sleep(seconds / 5)
        await ctx.progress((step + 1) / 5)
    return "written"


@app.task(name="thumbnail")
def thumbnail(picture: int) -> str:
    """A plain function runs on a thread: it may block."""
    time.sleep(0.005)
    return hashlib.sha256(str(picture).encode()).hexdigest()


@app.task(name="primes", executor="process")
def primes(limit: int) -> int:
    """Work for the processor runs in a process of its own."""
    sieve = bytearray([1]) * (limit + 1)
    sieve[:2] = b"\0\0"
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, limit + 1, number)))
    return sum(sieve)


@app.task(name="flaky", retry=Retry(max_attempts=3, delay=timedelta(milliseconds=200)))
async def flaky(ctx: JobContext) -> str:
    """Fails once, as networks do."""
    if ctx.attempt == 1:
        raise ConnectionError("the other side hung up")
    return "got through"


@app.task(name="hopeless", retry=Retry(max_attempts=2, delay=timedelta(milliseconds=100)))
async def hopeless() -> None:
    """Fails each time: it ends among the failed jobs, where somebody can look at it."""
    raise ValueError("no such customer")
