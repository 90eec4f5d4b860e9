"""If this fails, nodes that have nothing to do keep the database busy."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Final

from detent._engine.look import LONGEST_REST
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

NODES: Final = 10
# One statement a second for each node, less what only a real notifier sends: its pings.
AT_MOST: Final = NODES * (1.0 - 0.12)


@in_virtual_time
async def test_ten_idle_nodes_send_fewer_than_ten_statements_a_second() -> None:
    stage = Stage()
    async with AsyncExitStack() as stack:
        for _ in range(NODES):
            app = stage.new_app()

            @app.task(name="work")
            async def work() -> None: ...

            await stack.enter_async_context(stage.node(app))
        await asyncio.sleep(120)
        before = len(stage.line.calls)
        await asyncio.sleep(600)
        calls = stage.line.calls[before:]
    rates = {name: n / 600 for name, n in Counter(c.statement for c in calls).most_common()}
    assert sum(rates.values()) <= AT_MOST, rates
    # No single chore is on its way to become the next heartbeat.
    assert max(rates.values()) <= NODES / 4


@in_virtual_time
async def test_a_look_that_was_held_up_does_not_make_the_node_blind_for_long() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    async def keep_busy() -> None:
        while True:
            await (await work.enqueue()).result(timeout=5)
            await asyncio.sleep(0.5)

    held = stage.line.hold("look")
    async with stage.node():
        busy = asyncio.create_task(keep_busy())
        await asyncio.sleep(20)
        held.set()
        await asyncio.sleep(1)
        before = stage.line.count("look")
        await asyncio.sleep(LONGEST_REST)
        assert stage.line.count("look") > before == 1
        busy.cancel()
