"""A task that takes longer than the time to its next slot: what `overlap` makes of it.

Four schedules fire every minute, and their task takes a minute and a half. The program runs in
virtual time: the minutes are over at once, and what it prints is the same every time.
"""

import asyncio
from collections import Counter
from datetime import timedelta

from detent import App, JobContext
from detent.config import Config
from detent.stores.memory import MemoryStore
from detent.testing.virtual import VirtualRuntime, in_virtual_time

RULES = ("allow", "skip", "queue", "replace")
MINUTE = timedelta(minutes=1)


class Observer:
    """Counts, for each schedule, how many of its jobs run at the same time and how they end."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.canceled: Counter[str] = Counter()

    async def watch(self, name: str) -> None:
        """Take a minute and a half, unless somebody cancels it."""
        self.running[name] += 1
        self.most[name] = max(self.most[name], self.running[name])
        try:
            await asyncio.sleep(90)
            self.ended[name] += 1
        except asyncio.CancelledError:
            self.canceled[name] += 1
            raise
        finally:
            self.running[name] -= 1


def new_app(observer: Observer) -> App:
    """Return an app whose code declares a schedule for each rule."""
    clock = VirtualRuntime(0)
    app = App(config=Config(), store=MemoryStore(clock.utcnow), runtime=clock)

    @app.schedule(MINUTE, name="allow", overlap="allow", max_runs=4)
    @app.schedule(MINUTE, name="skip", overlap="skip", max_runs=4)
    @app.schedule(MINUTE, name="queue", overlap="queue", max_runs=4)
    @app.schedule(MINUTE, name="replace", overlap="replace", max_runs=4)
    @app.task(name="work")
    async def work(ctx: JobContext) -> None:
        await observer.watch(ctx.schedule or "nobody")

    return app


@in_virtual_time
async def main() -> None:
    """Let every schedule fire four times, and say what became of its slots."""
    observer = Observer()
    app = new_app(observer)
    async with app.node():
        await asyncio.sleep(20 * 60)
    for name in RULES:
        slots = await app.schedules.history(name)
        skipped = sum(slot.job is None for slot in slots)
        print(
            f"{name}: {len(slots)} slots; skipped {skipped}, ended {observer.ended[name]}, "
            f"canceled {observer.canceled[name]}; at most {observer.most[name]} at a time"
        )


if __name__ == "__main__":
    main()
