"""The workers of some jobs of a simulation: fewer of them than a node has slots."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from detent.app import App
from detent.model.retry import Retry
from detent.spi.executor import Call
from detent.testing.simulation.ledger import Ledger

POOLED: Final = "pooled"
"""The task that needs one of them."""
EXECUTOR: Final = "workers"
SIZE: Final = 1
ATTEMPTS: Final = 3


class Workers:
    """An executor that runs few calls at a time; the others wait in it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._free = asyncio.Semaphore(SIZE)

    async def run(self, call: Call) -> Any:
        """See `Executor.run`."""
        if self._free.locked():
            claim = (call.job.job_id, call.job.fence)
            call.on_queued()
            self._ledger.queued[claim] = None
            try:
                await self._free.acquire()
            finally:
                self._ledger.queued.pop(claim, None)
            call.on_begun()
            self._ledger.on_served(*claim, call.job.node_id)
        else:
            await self._free.acquire()
        try:
            return await call.function(*call.args, **call.kwargs)
        finally:
            self._free.release()

    async def close(self) -> None:
        """See `Executor.close`."""


def declare_pooled(app: App, ledger: Ledger) -> None:
    """Declare the task, and its workers in this process."""
    app.executor(EXECUTOR, lambda: Workers(ledger))

    @app.task(name=POOLED, executor=EXECUTOR, retry=Retry(ATTEMPTS, timedelta(seconds=1), "fixed"))
    async def pooled(seconds: float) -> None:
        await asyncio.sleep(seconds)
