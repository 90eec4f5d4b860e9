"""If these fail, a node that is told to stop while it starts goes on, or is left half-started."""

import asyncio
from typing import Any, cast

import pytest
from click import ClickException

from detent.cli.node import Stopper
from detent.running import RunningNode
from detent.testing.virtual import in_virtual_time


class SlowNode:
    """A node that starts when the test says so, and remembers how it was stopped."""

    def __init__(self) -> None:
        self.may_start = asyncio.Event()
        self.stops: list[bool] = []

    async def start(self) -> None:
        await self.may_start.wait()

    def stop(self, *, now: bool = False) -> None:
        self.stops.append(now)


def make(drain: float = 30.0) -> tuple[SlowNode, Stopper]:
    node = SlowNode()
    return node, Stopper(cast("RunningNode", cast("Any", node)), drain)


async def test_the_first_signal_drains_and_the_second_hurries() -> None:
    node, stopper = make()
    node.may_start.set()
    await stopper.start()
    assert node.stops == []
    stopper.stop()
    stopper.stop()
    assert node.stops == [False, True]


async def test_a_signal_during_the_start_stops_the_node_once_it_has_started() -> None:
    node, stopper = make()
    starting = asyncio.create_task(stopper.start())
    await asyncio.sleep(0)
    stopper.stop()
    assert node.stops == []
    node.may_start.set()
    await starting
    assert node.stops == [False]


async def test_a_second_signal_during_the_start_gives_up_the_start() -> None:
    _, stopper = make()
    starting = asyncio.create_task(stopper.start())
    await asyncio.sleep(0)
    stopper.stop()
    stopper.stop()
    with pytest.raises(ClickException, match="stopped before the node had started"):
        await starting


@in_virtual_time
async def test_a_start_that_takes_longer_than_a_drain_may_is_given_up() -> None:
    node, stopper = make(drain=3.0)
    starting = asyncio.create_task(stopper.start())
    await asyncio.sleep(60)
    stopper.stop()
    await asyncio.sleep(2.9)
    assert not starting.done()
    with pytest.raises(ClickException, match="stopped before the node had started"):
        await starting
    assert node.stops == []
