"""A payment service goes down. Its breaker stops the calls, tries it, and starts them again.

Two nodes share the breaker: what one of them sees holds for both. Everything is in memory, so the
program needs no server; with PostgreSQL the nodes would be processes on many machines.
"""

import asyncio
from datetime import timedelta

from detent import App, Breaker, JobContext, Retry
from detent.events import BreakerClosed, BreakerHalfOpen, BreakerOpened

app = App("memory://")
app.breaker("payments", Breaker.fast(minimum=5, window=10, wait=timedelta(seconds=1)))

service = {"down": True, "calls": 0}


@app.task(breaker="payments", retry=Retry(max_attempts=3, delay=timedelta(seconds=1)))
async def charge(ctx: JobContext, invoice: int) -> int:
    """Charge a customer, and return which attempt it took."""
    service["calls"] += 1
    if service["down"]:
        raise ConnectionError("the payment service does not answer")
    return ctx.attempt


def tell(event: BreakerOpened | BreakerHalfOpen | BreakerClosed) -> None:
    """Say what happens, and repair the service while the breaker is open."""
    match event:
        case BreakerOpened():
            print(f"open: {event.failed} of {event.total} calls failed ({event.reason})")
            service.update(down=False, calls=0)
        case BreakerHalfOpen():
            print(f"half-open: {service['calls']} calls since, now {event.trials} trials")
        case BreakerClosed():
            print("closed: all trials passed")


async def main() -> None:
    """Charge a few invoices while the service is down, and many more while nobody may call it."""
    opened = asyncio.Event()
    app.on(BreakerOpened, tell)
    app.on(BreakerOpened, lambda _event: opened.set())
    app.on(BreakerHalfOpen, tell)
    app.on(BreakerClosed, tell)
    async with app.node(name="one"), app.node(name="two"):
        first = [await charge.enqueue(invoice) for invoice in range(5)]
        await opened.wait()
        rest = [await charge.enqueue(invoice) for invoice in range(5, 50)]
        attempts = [await job.result(timeout=30) for job in rest]
        print(f"{len(rest)} invoices waited; attempts charged for it: {max(attempts) - 1}")
        again = [await job.result(timeout=30) for job in first]
        print(f"the first {len(first)} were charged in attempt {min(again)}")
        info = await app.breakers.get("payments")
        print(f"the breaker is {info.phase}")


asyncio.run(main())
