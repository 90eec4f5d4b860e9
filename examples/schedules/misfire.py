"""The night that nobody was there: what `misfire` makes of the slots that were missed.

Three schedules should fire every hour. The program runs in virtual time: it stops its node for five
hours and a half, which are over at once, and starts another. What it prints is the same every time.
"""

import asyncio
from datetime import datetime

from detent import App, JobContext
from detent.config import Config
from detent.stores.memory import MemoryStore
from detent.testing.virtual import VirtualRuntime, in_virtual_time
from detent.triggers import catch_up

HOUR = 3_600


def new_app(store: MemoryStore, seed: int) -> App:
    """Return the program as it is started: its code, on the store that outlives it."""
    app = App(config=Config(), store=store, runtime=VirtualRuntime(seed))

    @app.schedule("0 * * * *", name="skip", misfire="skip")
    @app.schedule("0 * * * *", name="fire_once", misfire="fire_once")
    @app.schedule("0 * * * *", name="catch_up(3)", misfire=catch_up(3))
    @app.task(name="report")
    async def report(ctx: JobContext) -> None:
        """Know the slot that the job was fired for, however late it runs."""
        assert ctx.slot is not None
        ctx.log.info(f"the report for {ctx.slot:%H:%M}")

    return app


def hours(slots: list[datetime]) -> str:
    """Return slots as people say them."""
    return " ".join(f"{slot:%H:%M}" for slot in slots) or "nothing"


@in_virtual_time
async def main() -> None:
    """Work, be away for a while, and work again."""
    clock = VirtualRuntime(0)
    store = MemoryStore(clock.utcnow)
    async with new_app(store, 1).node():
        await asyncio.sleep(HOUR + 60)
    await asyncio.sleep(5.5 * HOUR)
    app = new_app(store, 2)
    async with app.node():
        await asyncio.sleep(60)
    print(f"away from 01:01 to {clock.utcnow():%H:%M}")
    for name in ("skip", "fire_once", "catch_up(3)"):
        history = await app.schedules.history(name)
        fired = [slot.slot for slot in reversed(history) if slot.job is not None]
        skipped = [slot.slot for slot in reversed(history) if slot.job is None]
        print(f"{name}: fired {hours(fired)}; left out {hours(skipped)}")


if __name__ == "__main__":
    main()
