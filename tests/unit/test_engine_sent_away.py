"""If these fail, a node inside a program stays in the cluster although it was told to leave."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from detent import DaemonContext
from detent._engine.node import Node
from detent.events import DaemonStarted, NodeStopped
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@in_virtual_time
@pytest.mark.parametrize("wakeups", [True, False])
async def test_a_node_in_a_program_leaves_when_it_is_drained_from_outside(wakeups: bool) -> None:
    """The program calls nothing: it only stays inside `async with app.node()`."""
    stage, ran = Stage(wakeups=wakeups), list[str]()

    @stage.app.task
    async def work(name: str) -> None:
        await asyncio.sleep(3)
        ran.append(name)

    @stage.app.daemon
    async def watch(ctx: DaemonContext) -> None:
        await ctx.stopping()

    async with stage.app.node(name="web-1") as node:
        await work.enqueue("begun")
        await stage.until(lambda: stage.tables.running and stage.told(DaemonStarted))
        await stage.until(lambda: len(stage.tables.leaders) >= 2)
        began = stage.now
        await stage.app.nodes.drain("web-1")
        await work.enqueue("late")
        await stage.until(lambda: stage.told(NodeStopped))
        assert stage.now - began < 10, "a heartbeat at most, and the job that ran"
        assert ran == ["begun"]
        assert await stage.store.nodes() == []
        assert [each for each in await stage.store.leaders() if each.holder is not None] == []
        assert node.was_sent_away
    assert len(stage.told(NodeStopped)) == 1, "leaving the context later is fine"


@in_virtual_time
async def test_a_node_in_a_program_leaves_after_its_number_of_jobs() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(1)

    async with stage.app.node(max_jobs=2) as node:
        for _ in range(2):
            await work.enqueue()
        await stage.until(lambda: stage.told(NodeStopped))
        assert await stage.store.nodes() == []
        assert not node.was_sent_away


@in_virtual_time
async def test_a_node_in_a_program_leaves_when_its_process_has_grown_too_big() -> None:
    stage, rss = Stage(), [1e6]
    parts = stage.app.node_parts(
        replace(stage.config, node=replace(stage.config.node, max_rss=100_000_000))
    )
    node = Node(replace(parts, load=lambda: {"rss": rss[0]}))
    await node.start()
    rss[0] = 2e8
    await stage.until(lambda: stage.told(NodeStopped))
    assert await stage.store.nodes() == []


@in_virtual_time
async def test_a_node_that_is_asked_to_stop_drains_whether_anybody_waits_or_not() -> None:
    stage = Stage()
    node: Any = stage.app.node()
    async with node:
        node.stop()
        await stage.until(lambda: stage.told(NodeStopped))
        await node.wait_stopped()
    assert len(stage.told(NodeStopped)) == 1
