"""If these fail, jobs behind gates wait although there are slots for them."""

import asyncio

from detent._engine.look import LONGEST_REST
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

LANES = 1_200
LATENCY = 0.02


@in_virtual_time
async def test_a_node_that_starts_finds_all_lanes_without_a_rest() -> None:
    stage = Stage()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None: ...

    await stage.app.enqueue_many([work.bind(key) for key in range(LANES)])
    stage.line.latency = LATENCY
    async with stage.node(queues={"default": LANES}):
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == LANES)
    # Two seconds of claims, 64 lanes each; a rest after each page of lanes would be two more.
    assert ended - began < 3.0


@in_virtual_time
async def test_a_look_that_was_held_up_does_not_hide_lanes_for_long() -> None:
    stage, release = Stage(wakeups=False), asyncio.Event()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None:
        if key == 0:
            await release.wait()

    await stage.app.enqueue_many([work.bind(0), work.bind(0)])
    async with stage.node():
        await stage.until(lambda: len(stage.tables.running) == 1)
        held = stage.line.hold("gated_lanes")
        await asyncio.sleep(10)
        held.set()
        await asyncio.sleep(0.1)
        await work.enqueue(1)
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == 1)
        assert ended - began < LONGEST_REST + 1.0
        release.set()
