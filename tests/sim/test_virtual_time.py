"""If these fail, tests in virtual time wait, differ from run to run, or hang without a word."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from detent.ids import timestamp_of
from detent.testing import virtual
from detent.testing.virtual import START, Deadlock, VirtualRuntime, in_virtual_time


def test_hours_pass_in_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(3600 * 20)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert virtual.run(main()) == 72_000
    assert time.perf_counter() - began < 5


@in_virtual_time
async def test_timers_come_in_their_order_and_at_their_time() -> None:
    loop, told = asyncio.get_running_loop(), list[tuple[str, float]]()

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        told.append((name, loop.time()))

    await asyncio.gather(sleeper("c", 3.5), sleeper("a", 0.001), sleeper("b", 3.5 - 1e-6))
    assert told == [("a", 0.001), ("b", 3.499999), ("c", 3.5)]


@in_virtual_time
async def test_timeouts_follow() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1000):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == 1000


def test_when_nobody_can_wake_it_is_said_who_waits() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_for_ever(), name="the sleeper")

    with pytest.raises(Deadlock, match="no timer is set") as caught:
        virtual.run(main())
    assert f"the sleeper at {__file__}" in str(caught.value)


def test_a_loop_that_waits_without_waiting_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "ROUNDS", 1000)

    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="no time has passed"):
        virtual.run(main())


def test_a_run_without_end_is_ended() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError, match="more than 3,600 virtual s"):
        virtual.run(main(), limit=timedelta(hours=1))


@in_virtual_time
async def test_time_stands_still_while_a_thread_works() -> None:
    release = threading.Event()
    asyncio.get_running_loop().call_later(0, release.set)
    ticker = asyncio.create_task(asyncio.sleep(60))
    assert await asyncio.to_thread(release.wait, 10)
    assert asyncio.get_running_loop().time() == 0
    await ticker


def test_what_a_test_raises_comes_out() -> None:
    @in_virtual_time
    async def test() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        test()


# The runtime


def draw(seed: int | str) -> list[object]:
    """Return everything that a runtime says in a little while."""

    async def main() -> list[object]:
        runtime = VirtualRuntime(seed)
        said: list[object] = [runtime.random_bits(64), runtime.uniform(1, 2)]
        for _ in range(3):
            await runtime.sleep(runtime.uniform(0, 10))
            said += [runtime.monotonic(), runtime.utcnow(), runtime.new_id()]
        return said

    return virtual.run(main())


def test_a_runtime_says_what_its_seed_says() -> None:
    assert draw(1) == draw(1)
    assert draw("node a") == draw("node a")
    assert not set(draw(1)) & set(draw(2))


@in_virtual_time
async def test_its_ids_are_version_7_in_order_and_never_twice() -> None:
    runtime = VirtualRuntime()
    ids: list[UUID] = []
    for _ in range(3):
        ids += [runtime.new_id() for _ in range(5000)]
        await runtime.sleep(0.0004)
    assert ids == sorted(set(ids))
    assert {job_id.version for job_id in ids} == {7}
    assert timestamp_of(ids[0]) == START
    await runtime.sleep(10)
    assert timestamp_of(runtime.new_id()) == runtime.utcnow().replace(microsecond=1000)


@in_virtual_time
async def test_its_clock_can_be_set_and_be_wrong() -> None:
    start = datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)
    right = VirtualRuntime(start=start)
    wrong = VirtualRuntime(start=start, ahead=timedelta(seconds=-3))
    await asyncio.sleep(1)
    assert right.utcnow() == datetime(2000, 1, 1, tzinfo=UTC)
    assert right.utcnow() - wrong.utcnow() == timedelta(seconds=3)
    assert right.monotonic() == wrong.monotonic() == 1


@in_virtual_time
async def test_what_is_called_off_does_not_happen() -> None:
    runtime, told = VirtualRuntime(), list[str]()
    runtime.later(1, lambda: told.append("happened"))
    runtime.later(1, lambda: told.append("never")).cancel()
    task = runtime.spawn(asyncio.sleep(2, "done"), "a sleeper")
    assert (await task, task.get_name()) == ("done", "a sleeper")
    assert told == ["happened"]


@in_virtual_time
async def test_a_thread_runs_beside_and_ends_when_told() -> None:
    runtime, ticks = VirtualRuntime(), list[float]()

    async def tick() -> None:
        while True:
            ticks.append(runtime.monotonic())
            await runtime.sleep(5)

    thread = runtime.thread(tick, "ticker")
    await asyncio.sleep(12)
    thread.stop()
    await thread.joined()
    await asyncio.sleep(60)
    assert ticks == [0, 5, 10]


@in_virtual_time
async def test_what_a_thread_raises_is_seen() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    thread = VirtualRuntime().thread(broken, "broken")
    with pytest.raises(ZeroDivisionError):
        await thread.joined()


async def test_a_virtual_runtime_refuses_to_work_in_real_time() -> None:
    with pytest.raises(RuntimeError, match="@in_virtual_time"):
        VirtualRuntime().monotonic()
