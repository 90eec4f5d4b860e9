"""The batch task of the cluster tests. Nodes import `app`; tests make their own `Batching`."""

import asyncio
import os
import signal
from pathlib import Path
from typing import TypedDict

from detent import App, BatchItem
from tests.cluster.workload import note

SIZE = 50


class Order(TypedDict):
    """What each item says: where to be counted, and which file to wait for."""

    executions: str
    until: str


class Parcel(TypedDict):
    """What the items of `deadly` say: where to be counted, and whether to kill."""

    executions: str
    poison: bool


async def together(items: list[BatchItem[Order]]) -> list[int]:
    """Be counted, wait for a file, and return how many came together."""
    for item in items:
        note(item.ctx, item.value["executions"])
    until = Path(items[0].value["until"])
    while not until.exists():  # noqa: ASYNC110, ASYNC240  another process makes it
        await asyncio.sleep(0.02)
    return [len(items) for _ in items]


async def deadly(items: list[BatchItem[Parcel]]) -> None:
    """Be counted, and die of the one that is poison."""
    for item in items:
        note(item.ctx, item.value["executions"])
    if any(item.value["poison"] for item in items):
        os.kill(os.getpid(), signal.SIGKILL)


class Batching:
    """The task above, registered with an app."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.together = app.task(name="together", batch=SIZE, linger=0.2)(together)
        self.deadly = app.task(name="deadly", batch=SIZE, linger=0.2)(deadly)


app = App()
batching = Batching(app)
