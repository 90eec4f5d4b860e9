"""A node with children, and what tests ask about it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from detent import App, Job, JobFailed
from detent.config import Config, LimitsConfig, NodeConfig, PoolConfig
from detent.executors.process import ProcessExecutor
from detent.executors.worker import Worker
from detent.running import RunningNode
from detent.spi.runtime import Runtime
from detent.stores.memory import MemoryNotifier, MemoryStore
from tests.unit.process_tasks import PATIENCE, declare

T = TypeVar("T")


class Station:
    """An app whose tasks run in children, and its node."""

    def __init__(self, app: App, node: RunningNode) -> None:
        self.app = app
        self.node = node

    async def enqueue(self, name: str, *args: Any, **options: Any) -> Job[Any]:
        return await self.app.enqueue(self.app.tasks.get(name).options(**options).bind(*args))

    async def result(self, name: str, *args: Any, **options: Any) -> Any:
        return await (await self.enqueue(name, *args, **options)).result(timeout=PATIENCE)

    async def failure(self, name: str, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the error of a job that fails."""
        job = await self.enqueue(name, *args, **options)
        with pytest.raises(JobFailed) as failed:
            await job.result(timeout=PATIENCE)
        assert failed.value.error is not None
        return failed.value.error

    async def attempts(self, job: Job[Any]) -> list[dict[str, Any]]:
        """Return the errors of the attempts that failed before the last."""
        attempts = await self.app.jobs.attempts(job.id)
        return [msgspec.json.decode(attempt.error or b"null") for attempt in attempts]

    def executor(self, name: str = "process") -> ProcessExecutor:
        assert self.node._node is not None
        executor = self.node._node._parts.executors[name]
        assert isinstance(executor, ProcessExecutor)
        return executor

    def children(self, name: str = "process") -> list[Worker]:
        pool = self.executor(name)._children
        return [*pool._starting, *pool._busy, *pool._idle]


async def _nothing() -> None:
    pass


@asynccontextmanager
async def station(
    size: int = 1,
    limits: LimitsConfig | None = None,
    slots: int = 10,
    runtime: Runtime | None = None,
    **pool: Any,
) -> AsyncIterator[Station]:
    """Run a node whose pool has this size and these settings."""
    config = Config(
        node=NodeConfig(
            concurrency=slots,
            signal_interval=timedelta(milliseconds=5),
            drain_timeout=timedelta(0),
        ),
        limits=limits or LimitsConfig(),
        pools={"process": PoolConfig(size=size, **pool)},
    )
    app = App(config=config, store=MemoryStore(), notifier=MemoryNotifier(), runtime=runtime)
    declare(app)
    # Otherwise the node claims no more than it has children, and no job would wait for one.
    app.task(name="on_the_loop")(_nothing)
    async with app.node() as node:
        yield Station(app, node)
    await app.close()


async def until(holds: Callable[[], T]) -> T:
    """Wait for something that other processes do, and return what it came to."""
    ends_at = asyncio.get_running_loop().time() + PATIENCE
    while not (found := holds()):
        assert asyncio.get_running_loop().time() < ends_at, "it did not happen"
        await asyncio.sleep(0.002)
    return found


async def written(path: Path) -> list[int]:
    """Wait for the numbers that a child writes to a file."""
    text = await until(lambda: path.exists() and path.read_text())
    return [int(word) for word in str(text).split()]


async def gone(*pids: int) -> None:
    """Wait until these processes are no more."""
    await until(lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be buried does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
