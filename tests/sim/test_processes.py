"""If these fail, simulated processes do what real ones cannot: die with last words, or dream."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from detent.testing import virtual
from detent.testing.simulation.process import Process, ProcessRuntime, gate, who
from detent.testing.virtual import running_loop


def in_world(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in virtual time with a gate before the loop."""

    async def main() -> None:
        running_loop().gate = gate
        await test()

    def wrapper() -> None:
        virtual.run(main())

    return wrapper


async def tick(told: list[float]) -> None:
    """Tell the time every second, and one last time at the end."""
    try:
        while True:
            told.append(running_loop().time())
            await asyncio.sleep(1)
    finally:
        told.append(-1)


@in_world
async def test_a_killed_process_does_nothing_any_more_not_even_its_last_words() -> None:
    process, told = Process("one", "seed"), list[float]()
    ticker = process.spawn(tick(told), "ticker")
    await asyncio.sleep(2.5)
    process.kill()
    await asyncio.sleep(10)
    assert told == [0, 1, 2]
    assert not ticker.done()
    process.release()


@in_world
async def test_who_waits_for_a_killed_process_is_told() -> None:
    process = Process("one", "seed")
    running_loop().call_later(3, process.kill)
    assert not await process.run(asyncio.sleep(10), "sleeping")
    assert running_loop().time() == 3
    assert not await process.run(asyncio.sleep(10), "sleeping once more")
    process.release()


@in_world
async def test_a_stopped_process_sleeps_through_its_timers_and_then_hears_them_all() -> None:
    process, told = Process("one", "seed"), list[float]()
    sleeper = process.spawn(tick(told), "ticker")
    await asyncio.sleep(2.5)
    process.pause()
    await asyncio.sleep(10)
    assert told == [0, 1, 2]
    process.resume()
    await asyncio.sleep(1)
    assert 12.5 <= told[3] <= 12.8, "late, and soon after"
    sleeper.cancel()


@in_world
async def test_others_go_on_while_one_is_stopped() -> None:
    one, other = Process("one", "seed"), Process("other", "seed")
    answer = running_loop().create_future()

    async def ask() -> float:
        return float(await answer)

    asking = one.spawn(ask(), "asking")
    one.pause()

    async def reply() -> None:
        await asyncio.sleep(1)
        answer.set_result(1.0)

    assert await other.run(reply(), "replying")
    await asyncio.sleep(1)
    assert not asking.done(), "the answer waits for who asked"
    one.resume()
    assert await asking == 1.0


@in_world
async def test_a_blocked_loop_does_not_block_the_threads_of_its_process() -> None:
    process, on_loop, on_thread = Process("one", "seed"), list[float](), list[float]()
    runtime = ProcessRuntime(process, "seed")

    async def main() -> None:
        loop_ticker = asyncio.create_task(tick(on_loop))
        thread = runtime.thread(lambda: tick(on_thread), "thread")
        await asyncio.sleep(1.5)
        await who().block(5)
        on_loop.append(-running_loop().time())
        await asyncio.sleep(1.2)
        loop_ticker.cancel()
        thread.stop()
        await thread.joined()

    assert await process.run(main(), "main")
    assert on_loop[:3] == [0, 1, -6.5], "who blocked goes on first"
    assert on_thread == [0, 1, 2, 3, 4, 5, 6, 7, -1]


@in_world
async def test_a_process_killed_while_it_is_stopped_stays_dead() -> None:
    process, told = Process("one", "seed"), list[float]()
    ticker = process.spawn(tick(told), "ticker")
    await asyncio.sleep(0.5)
    process.pause()
    process.kill()
    process.resume()
    await asyncio.sleep(5)
    assert told == [0]
    assert not ticker.done()
    process.release()


@in_world
async def test_nothing_dies_unseen_in_a_process() -> None:
    process, seen = Process("one", "seed"), list[str]()
    runtime = ProcessRuntime(process, "seed")
    runtime.on_crash = lambda name, error: seen.append(f"{name}: {error!r}")

    async def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await runtime.spawn(fail(), "failing")

    assert await process.run(main(), "main")
    assert seen == ["failing: ZeroDivisionError()"]


@in_world
async def test_clocks_may_run_too_fast() -> None:
    process = Process("one", "seed")
    fast = ProcessRuntime(process, "seed", rate=1.01)
    before = fast.monotonic()
    await fast.sleep(101)
    assert running_loop().time() == pytest.approx(100)
    assert fast.monotonic() - before == pytest.approx(101)
