"""The batch task of the cluster tests. Nodes import `app`; tests make their own `Batching`."""

import asyncio
from pathlib import Path
from typing import TypedDict

from detent import App, BatchItem
from tests.cluster.workload import note

SIZE = 50


class Order(TypedDict):
    """What each item says: where to be counted, and which file to wait for."""

    executions: str
    until: str


async def together(items: list[BatchItem[Order]]) -> list[int]:
    """Be counted, wait for a file, and return how many came together."""
    for item in items:
        note(item.ctx, item.value["executions"])
    until = Path(items[0].value["until"])
    while not until.exists():  # noqa: ASYNC110, ASYNC240  another process makes it
        await asyncio.sleep(0.02)
    return [len(items) for _ in items]


class Batching:
    """The task above, registered with an app."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.together = app.task(name="together", batch=SIZE, linger=0.2)(together)


app = App()
batching = Batching(app)
