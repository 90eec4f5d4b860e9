"""If these fail, nodes take on too much or too little, in the wrong order or at the wrong time."""

import asyncio
from datetime import timedelta

import pytest

from detent import App, JobContext, Priority, Task
from detent.config import Config, NodeConfig, StoreConfig
from detent.events import StoreTrouble
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time

SECOND = timedelta(seconds=1)


class Gauge:
    """Counts what runs at once, by queue, and keeps the order of the starts."""

    def __init__(self, app: App) -> None:
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.started: dict[str, float] = {}

        async def work(ctx: JobContext, name: str, seconds: float) -> None:
            queue = ctx.queue
            self.started[name] = asyncio.get_running_loop().time()
            self.running[queue] = self.running.get(queue, 0) + 1
            self.most[queue] = max(self.most.get(queue, 0), self.running[queue])
            await asyncio.sleep(seconds)
            self.running[queue] -= 1

        self.work: Task[[str, float], None] = app.task(name="work")(work)

    @property
    def order(self) -> list[str]:
        """The names in the order in which they started."""
        return list(self.started)


# Slots


@in_virtual_time
async def test_no_queue_ever_runs_more_than_its_slots() -> None:
    stage = Stage()
    gauge = Gauge(stage.app)
    calls = [
        gauge.work.options(queue=queue).bind(str(number), 0.5 + number % 3)
        for number in range(30)
        for queue in ("mail", "bulk")
    ]
    async with stage.node(queues={"mail": 3, "bulk": 5}):
        await stage.app.enqueue_many(calls)
        await stage.until(lambda: len(stage.tables.outcome) == 60)
    assert gauge.most == {"mail": 3, "bulk": 5}


@in_virtual_time
async def test_a_full_queue_goes_on_at_once_while_another_has_room() -> None:
    stage = Stage()
    gauge = Gauge(stage.app)
    slow = gauge.work.options(queue="slow")
    async with stage.node(queues={"slow": 1, "fast": 10}):
        await stage.app.enqueue_many([slow.bind(str(number), 1.0) for number in range(10)])
        ended = await stage.until(lambda: len(stage.tables.outcome) == 10)
    assert ended < 11, "ten jobs of a second, one after the other, without pauses"


@in_virtual_time
@pytest.mark.parametrize("apart", [0.0, 0.003, 0.01, 0.03])
@pytest.mark.parametrize("latency", [0.0, 0.001, 0.02])
async def test_slow_jobs_are_not_hoarded_by_a_node_that_cannot_start_them(
    apart: float, latency: float
) -> None:
    """Jobs that end in the same moment say nothing about how soon the next slot is free."""
    stage = Stage()
    stage.line.latency = latency
    gauge = Gauge(stage.app)
    async with stage.node(concurrency=4) as node:
        calls = [gauge.work.bind(str(n), 10.0 + apart * (n % 4)) for n in range(100)]
        await stage.app.enqueue_many(calls)
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert sum(not each.over for each in node._crew.dispatcher.held.values()) <= 4
    assert len(gauge.started) >= 20


@in_virtual_time
async def test_a_queue_of_slow_jobs_takes_none_ahead_because_another_is_quick() -> None:
    stage = Stage()
    stage.line.latency = 0.001
    gauge = Gauge(stage.app)
    slow, quick = gauge.work.options(queue="slow"), gauge.work.options(queue="quick")
    async with stage.node(queues={"quick": 10, "slow": 4}) as node:
        await stage.app.enqueue_many([slow.bind(str(n), 10.0) for n in range(20)])
        for number in range(300):
            calls = [quick.bind(f"{number} {each}", 0.002) for each in range(100)]
            await stage.app.enqueue_many(calls)
            await asyncio.sleep(0.1)
            held = node._crew.dispatcher.held.values()
            assert sum(each.queue == "slow" and not each.over for each in held) <= 4


@in_virtual_time
async def test_quick_jobs_are_claimed_a_little_ahead_but_not_twice_as_many_as_slots() -> None:
    stage = Stage()
    stage.line.latency = 0.001
    gauge = Gauge(stage.app)
    most = 0
    async with stage.node(concurrency=10):
        await stage.app.enqueue_many([gauge.work.bind(str(n), 0.002) for n in range(1000)])
        while len(stage.tables.outcome) < 1000:
            most = max(most, len(stage.tables.running))
            await asyncio.sleep(0.001)
    assert gauge.most == {"default": 10}
    assert 10 < most <= 50, "in slots, waiting for one, or waiting to be written"
    assert stage.told(StoreTrouble) == []


@in_virtual_time
async def test_when_the_pace_falls_while_claims_gather_nothing_breaks() -> None:
    stage = Stage()
    async with stage.node() as node:
        await asyncio.sleep(1)
        # There was room by the old pace, and by the new one there is none.
        rooms = iter([{"default": 2}, {"default": 0}])
        node._crew.dispatcher.rooms = lambda _queues=None: next(rooms, {"default": 0})  # type: ignore[method-assign,assignment]
        node._crew.claimer._hungry = True
        node._crew.claimer.ask(["default"])
        await asyncio.sleep(1)
    assert next(rooms, None) is None
    assert stage.told(StoreTrouble) == []


# Order


@in_virtual_time
async def test_urgent_jobs_come_first_and_equals_in_their_order() -> None:
    stage = Stage()
    gauge = Gauge(stage.app)
    for name, priority in (("c", 2), ("e", 0), ("a", 4), ("d", 2), ("b", 3)):
        await gauge.work.options(priority=priority).enqueue(name, 1.0)
    async with stage.node(concurrency=1):
        await stage.until(lambda: len(stage.tables.outcome) == 5)
    assert gauge.order == ["a", "b", "c", "d", "e"]


@in_virtual_time
async def test_a_job_that_has_waited_long_overtakes_more_urgent_ones() -> None:
    boost = StoreConfig(priority_boost_interval=60 * SECOND)
    stage = Stage(Config(store=boost, node=NodeConfig(concurrency=1)))
    gauge = Gauge(stage.app)
    await gauge.work.options(priority=Priority.LOWEST).enqueue("old", 1.0)
    await asyncio.sleep(200)
    await gauge.work.options(priority=Priority.NORMAL).enqueue("new", 1.0)
    await gauge.work.options(priority=Priority.CRITICAL).enqueue("critical", 1.0)
    async with stage.node():
        await stage.until(lambda: len(stage.tables.outcome) == 3)
    assert gauge.order == ["critical", "old", "new"], "three steps risen, from 0 to 3"


@in_virtual_time
async def test_a_job_due_in_the_past_is_found_below_those_already_claimed() -> None:
    stage = Stage(wakeups=False)
    gauge = Gauge(stage.app)
    async with stage.node(concurrency=2):
        await stage.app.enqueue_many([gauge.work.bind(str(n), 1.0) for n in range(40)])
        await asyncio.sleep(5)
        await gauge.work.options(at=START - timedelta(days=1)).enqueue("early", 1.0)
        began = stage.now
        await stage.until(lambda: "early" in gauge.order)
        assert stage.now - began < 4, "it does not wait behind forty others"


# Time


@pytest.mark.parametrize("wakeups", [True, False])
def test_a_delayed_job_starts_when_it_is_due_however_idle_the_node_is(wakeups: bool) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage(wakeups=wakeups)
        gauge = Gauge(stage.app)
        stage.line.latency = 0.002
        async with stage.node():
            await asyncio.sleep(500)  # deep idle
            await gauge.work.options(delay=77 * SECOND).enqueue("late", 0.0)
            due = stage.now - 0.002 + 77
            await stage.until(lambda: gauge.order, limit=100)
        assert due - 0.01 <= gauge.started["late"] <= due + 0.05

    test()


@in_virtual_time
async def test_a_wake_up_reaches_a_node_in_deep_idle_at_once() -> None:
    stage = Stage()
    gauge = Gauge(stage.app)
    async with stage.node():
        await asyncio.sleep(1000)
        enqueued = stage.now
        await gauge.work.enqueue("now", 0.0)
        await stage.until(lambda: gauge.order)
        assert gauge.started["now"] - enqueued < 0.05


@in_virtual_time
async def test_without_wake_ups_a_job_starts_at_the_next_poll() -> None:
    stage = Stage(wakeups=False)
    gauge = Gauge(stage.app)
    async with stage.node():
        await asyncio.sleep(1000)
        enqueued = stage.now
        await gauge.work.enqueue("now", 0.0)
        assert await stage.until(lambda: gauge.order) - enqueued <= 30


@in_virtual_time
async def test_an_idle_node_leaves_its_store_alone() -> None:
    stage = Stage()
    async with stage.node():
        await asyncio.sleep(300)
        before = len(stage.line.calls)
        await asyncio.sleep(60)
        assert len(stage.line.calls) - before <= 60, "at most one call a second"


@in_virtual_time
async def test_a_paused_queue_rests_on_all_nodes_until_it_is_resumed() -> None:
    stage = Stage()
    gauge = Gauge(stage.app)
    async with stage.node(queues={"mail": 5, "bulk": 5}):
        await stage.app.queues.pause("mail")
        await gauge.work.options(queue="mail").enqueue("mail", 0.0)
        await gauge.work.options(queue="bulk").enqueue("bulk", 0.0)
        await asyncio.sleep(120)
        assert gauge.order == ["bulk"]
        resumed = stage.now
        await stage.app.queues.resume("mail")
        assert await stage.until(lambda: "mail" in gauge.order) - resumed <= 30
    assert [queue.paused for queue in await stage.app.queues.list()] == [False]


@in_virtual_time
async def test_nodes_take_only_jobs_whose_needs_they_meet() -> None:
    stage = Stage()
    gauge = Gauge(stage.app)
    await gauge.work.options(needs="gpu").enqueue("gpu", 0.0)
    await gauge.work.options(needs=["gpu", "disk"]).enqueue("both", 0.0)
    await gauge.work.enqueue("plain", 0.0)
    async with stage.node():
        await asyncio.sleep(60)
        assert gauge.order == ["plain"]
        async with stage.node(capabilities=("gpu",)):
            await asyncio.sleep(60)
            assert gauge.order == ["plain", "gpu"]
        async with stage.node(capabilities=("gpu", "disk", "tape")):
            await stage.until(lambda: "both" in gauge.order)
