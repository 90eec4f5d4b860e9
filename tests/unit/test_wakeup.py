"""If these fail, somebody sleeps through what he waits for, or wakes for nothing."""

import asyncio

import pytest

from detent._engine.wakeup import Wakeup
from detent.testing.virtual import VirtualRuntime, in_virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_it_wakes_the_one_who_waits() -> None:
    wakeup = Wakeup(VirtualRuntime())
    asyncio.get_running_loop().call_later(3, wakeup.set)
    assert await wakeup.wait(10) is True
    assert now() == 3


@in_virtual_time
async def test_it_is_over_after_the_limit() -> None:
    wakeup = Wakeup(VirtualRuntime())
    assert await wakeup.wait(10) is False
    assert now() == 10


@in_virtual_time
async def test_what_came_before_the_wait_counts_once() -> None:
    wakeup = Wakeup(VirtualRuntime())
    wakeup.set()
    wakeup.set()
    assert wakeup.pending
    assert await wakeup.wait(10) is True
    assert now() == 0
    assert not wakeup.pending
    assert await wakeup.wait(10) is False


@in_virtual_time
async def test_no_limit_is_no_limit_and_none_at_all_is_a_look() -> None:
    wakeup = Wakeup(VirtualRuntime())
    assert await wakeup.wait(0) is False
    asyncio.get_running_loop().call_later(100_000 / 2, wakeup.set)
    assert await wakeup.wait(None) is True
    assert now() == 50_000


@in_virtual_time
async def test_a_canceled_wait_leaves_nothing_behind() -> None:
    wakeup = Wakeup(VirtualRuntime())
    waiting = asyncio.ensure_future(wakeup.wait(5))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    wakeup.set()
    assert await wakeup.wait(5) is True
    assert now() == 1
