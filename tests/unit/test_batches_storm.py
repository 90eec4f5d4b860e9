"""If this fails, batches lose jobs or end them twice when nodes and connections fail."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any

import pytest

from detent import App, BatchItem, Conflict, Fail, Retry, State
from detent._engine.node import Node
from detent.config import Config, NodeConfig
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

JOBS = 300
NODES = 3
SOON = Retry(max_attempts=50, delay=timedelta(seconds=1), jitter=False)


class Storm:
    """Nodes that run batches, while what connects them to the store fails at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stage = Stage(Config(node=NodeConfig(concurrency=2, inline_args=8)))
        self.nodes: list[Node] = []
        self.sizes: list[int] = []
        self.task = self.declare(self.stage.app)

    def declare(self, app: App) -> Any:
        @app.task(name="index", batch=20, linger=0.5, retry=SOON, timeout=15)
        async def index(items: list[BatchItem[str]]) -> list[int]:
            self.sizes.append(len(items))
            await asyncio.sleep(self.chance.uniform(0, 4))
            for item in items:
                match self.chance.randrange(12):
                    case 0:
                        item.fail(OSError("bad luck"))
                    case 1:
                        item.snooze(timedelta(seconds=2))
                    case 2 if item.value == "hopeless":
                        item.fail(Fail("no use"))
            if self.chance.randrange(15) == 0:
                raise ConnectionError("the index is gone")
            return [item.ctx.fence for item in items]

        return index

    async def blow(self, jobs: list[Any]) -> None:
        """Let one thing go wrong."""
        line = self.stage.line
        match self.chance.randrange(6):
            case 0:
                line.lose("claim_jobs", reply=self.chance.random() < 0.5)
            case 1:
                line.lose("finish_jobs", reply=self.chance.random() < 0.5)
            case 2:
                line.lose("settle_jobs", reply=self.chance.random() < 0.5)
            case 3:
                line.lose("load_args")
            case 4:
                node = self.chance.choice(self.nodes)
                await self.stage.store.declare_dead([node.identity.incarnation], "the storm")
            case _:
                with suppress(Conflict):  # it has ended
                    await self.chance.choice(jobs).cancel(reason="the storm")


@pytest.mark.parametrize("seed", range(5))
@in_virtual_time
async def test_in_a_storm_every_job_comes_to_one_end(seed: int) -> None:
    storm = Storm(seed)
    stage = storm.stage
    values = ["hopeless" if number % 10 == 0 else f"number {number}" for number in range(JOBS)]
    jobs = await stage.app.enqueue_many([storm.task.bind(value) for value in values])
    async with AsyncExitStack() as stack:
        for _ in range(NODES):
            app = stage.new_app()
            storm.declare(app)
            storm.nodes.append(await stack.enter_async_context(stage.node(app)))
        for _ in range(40):
            await asyncio.sleep(storm.chance.uniform(0, 1))
            await storm.blow(jobs)
        stage.line.heal()
        await stage.until(lambda: not stage.tables.running and not stage.tables.ready, 3_000)
    infos = [await job.info() for job in jobs]
    ends = Counter(info.state for info in infos)
    assert set(ends) <= {State.SUCCEEDED, State.FAILED, State.CANCELED}
    assert ends[State.SUCCEEDED] > JOBS / 2
    for job, info in zip(jobs, infos, strict=True):
        if info.state is State.SUCCEEDED:
            assert await job.result(timeout=1) == info.fence, "by the claim that was valid"
    assert max(storm.sizes) == 20
    assert not any(node._crew.dispatcher.held for node in storm.nodes)
    assert not any(node.busy for node in storm.nodes)
