"""If these fail, jobs wait on a busy node while another one has nothing to do."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from detent import App, BatchItem, JobContext, State
from detent._engine.slots import PROBE, REST, Slots
from detent.spi.executor import Call
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


class Desk:
    """An executor with a few places, in virtual time."""

    def __init__(self, places: int) -> None:
        self._places = asyncio.Semaphore(places)

    async def run(self, call: Call) -> Any:
        if self._places.locked():
            call.on_queued()
            await self._places.acquire()
            call.on_begun()
        else:
            await self._places.acquire()
        try:
            return await call.function(*call.args, **call.kwargs)
        finally:
            self._places.release()

    async def close(self) -> None:
        pass


class CountedDesk(Desk):
    """One that says how many places it has."""

    def __init__(self, places: int) -> None:
        super().__init__(places)
        self.capacity = places


class Work:
    """A task that notes where and when its jobs began."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.begun: dict[str, list[tuple[Any, float]]] = {}
        self.attempts = Counter[int]()

    def declare(self, app: App, **options: Any) -> Any:
        async def work(ctx: JobContext, name: str, seconds: float) -> None:
            self.begun.setdefault(name, []).append((ctx.node_id, self.stage.now))
            self.attempts[ctx.attempt] += 1
            await asyncio.sleep(seconds)

        return app.task(name="work", **options)(work)

    def nodes_of(self, *names: str) -> set[Any]:
        return {node for name in names for node, _ in self.begun[name]}


def pretend_quick(node: Any, stage: Stage) -> None:
    """Let a node believe that jobs have been ending fast: then it claims some ahead."""
    for slots in node._crew.dispatcher.queues.values():
        slots.pace, slots.measured_at = 1_000.0, stage.now + 3_600


# A slot


@in_virtual_time
async def test_claims_ahead_go_to_an_idle_node_when_the_jobs_before_them_are_long() -> None:
    stage = Stage()
    work = Work(stage)
    task = work.declare(stage.app)
    other = stage.new_app()
    work.declare(other)
    async with stage.node(concurrency=2) as busy:
        pretend_quick(busy, stage)
        await stage.app.enqueue_many([task.bind(str(n), 100.0) for n in range(4)])
        await stage.until(lambda: len(busy._crew.dispatcher.held) == 4)
        joined = stage.now
        async with stage.node(other, concurrency=10) as idle:
            await stage.until(lambda: len(work.begun) == 4)
            assert stage.now - joined < 3
            assert work.nodes_of("2", "3") == {idle.identity.incarnation}
            assert work.attempts == {1: 4}, "nothing was charged"
            busy.stop(now=True)
            await busy.wait_stopped()


@in_virtual_time
async def test_a_node_that_serves_a_queue_alone_keeps_its_claims() -> None:
    """Given back they would be claimed again, and again."""
    stage = Stage()
    task = Work(stage).declare(stage.app)
    other = stage.new_app()
    needy = task.options(queue="mail")
    async with (
        stage.node(queues={"mail": 2}) as busy,
        stage.node(other, queues={"bulk": 2}),
    ):
        pretend_quick(busy, stage)
        await stage.app.enqueue_many([needy.bind(str(n), 30.0) for n in range(8)])
        await stage.until(lambda: len(busy._crew.dispatcher.held) == 4)
        await asyncio.sleep(20)
        assert len(busy._crew.dispatcher.held) == 4
        assert stage.line.count("settle_jobs") == 0


@in_virtual_time
async def test_a_node_without_what_a_job_needs_is_no_other_node_for_it() -> None:
    stage = Stage()
    task = Work(stage).declare(stage.app, needs="gpu")
    async with (
        stage.node(concurrency=2, capabilities=("gpu",)) as busy,
        stage.node(stage.new_app(), concurrency=2),
    ):
        pretend_quick(busy, stage)
        await stage.app.enqueue_many([task.bind(str(n), 30.0) for n in range(4)])
        await stage.until(lambda: len(busy._crew.dispatcher.held) == 4)
        await asyncio.sleep(20)
        assert stage.line.count("settle_jobs") == 0


@in_virtual_time
async def test_two_busy_nodes_do_not_pass_claims_to_and_fro() -> None:
    stage = Stage()
    work = Work(stage)
    task = work.declare(stage.app)
    other = stage.new_app()
    work.declare(other)
    async with stage.node(concurrency=2) as one, stage.node(other, concurrency=2) as two:
        for node in (one, two):
            pretend_quick(node, stage)
        await stage.app.enqueue_many([task.bind(str(n), 30.0) for n in range(100)])
        await asyncio.sleep(28)
        assert len(stage.tables.running) <= 6
        back = stage.line.count("settle_jobs")
        assert back <= 2 * (1 + 28 / PROBE), "at once, and now and then one that is tried"


# A worker


@in_virtual_time
async def test_jobs_that_wait_for_a_worker_go_to_an_idle_node() -> None:
    stage = Stage()
    work = Work(stage)
    other = stage.new_app()
    for app in (stage.app, other):
        app.executor("desk", lambda: Desk(2))
    task, _ = [work.declare(app, executor="desk") for app in (stage.app, other)]
    async with stage.node(concurrency=96) as busy:
        await stage.app.enqueue_many([task.bind(str(n), 100.0) for n in range(4)])
        await stage.until(lambda: len(busy._crew.dispatcher.held) == 4)
        joined = stage.now
        async with stage.node(other, concurrency=96) as idle:
            await stage.until(lambda: len(work.begun) == 4)
            assert stage.now - joined < 3
            assert work.nodes_of("2", "3") == {idle.identity.incarnation}
            assert work.attempts == {1: 4}
            await asyncio.sleep(1)
            assert len(stage.tables.running) == 4
            for node in (busy, idle):
                node.stop(now=True)
                await node.wait_stopped()


@in_virtual_time
async def test_a_queue_shows_how_many_of_its_claims_have_begun() -> None:
    stage = Stage()
    work = Work(stage)
    stage.app.executor("desk", lambda: Desk(2))
    task = work.declare(stage.app, executor="desk")

    @stage.app.task(batch=10, linger=30)
    async def index(items: list[BatchItem[int]]) -> None:
        pass

    async with stage.node(concurrency=96) as node:
        await stage.app.enqueue_many([task.bind(str(n), 100.0) for n in range(7)])
        await index.enqueue(1)
        await asyncio.sleep(6)
        (queue,) = await stage.app.queues.list()
        assert (queue.running, queue.started) == (8, 2)
        (known,) = await stage.app.nodes.list()
        assert (known.load["running"], known.load["unstarted:default"]) == (2, 6)
        node.stop(now=True)
        await node.wait_stopped()


@in_virtual_time
async def test_nodes_whose_workers_are_all_busy_do_not_pass_claims_to_and_fro() -> None:
    stage = Stage()
    work = Work(stage)
    other = stage.new_app()
    for app in (stage.app, other):
        app.executor("desk", lambda: Desk(2))
    task, _ = [work.declare(app, executor="desk") for app in (stage.app, other)]
    async with stage.node(concurrency=96) as one, stage.node(other, concurrency=96) as two:
        await stage.app.enqueue_many([task.bind(str(n), 30.0) for n in range(300)])
        await asyncio.sleep(5)
        assert len(stage.tables.running) <= 6, "four run, and a node may try one more"
        back = stage.line.count("settle_jobs")
        await asyncio.sleep(20)
        assert stage.line.count("settle_jobs") - back <= 2 * 20 / PROBE
        assert len(work.begun) == 4
        for node in (one, two):
            node.stop(now=True)
            await node.wait_stopped()


@in_virtual_time
async def test_a_node_whose_tasks_all_need_workers_claims_no_more_than_those() -> None:
    stage = Stage()
    work = Work(stage)
    stage.app.executor("desk", lambda: CountedDesk(2))
    task = work.declare(stage.app, executor="desk")
    most = 0
    async with stage.node(concurrency=96):
        await stage.app.enqueue_many([task.bind(str(n), 1.0) for n in range(20)])
        while len(stage.tables.outcome) < 20:
            most = max(most, len(stage.tables.running))
            await asyncio.sleep(0.05)
        assert stage.now < 12, "ten rounds of a second, without pauses"
    assert most <= 3


@in_virtual_time
async def test_a_queue_takes_its_full_share_again_when_its_jobs_begin_at_once() -> None:
    """Jobs that need no worker must not wait behind a lesson learned from those that did."""
    stage = Stage()
    work = Work(stage)
    stage.app.executor("desk", lambda: Desk(1))
    blocked = work.declare(stage.app, executor="desk")

    @stage.app.task
    async def free() -> None:
        await asyncio.sleep(0.5)

    async with stage.node(concurrency=20) as node:
        await stage.app.enqueue_many([blocked.bind(str(n), 8.0) for n in range(3)])
        await asyncio.sleep(20)
        assert node._crew.dispatcher.queues["default"].ceiling is not None
        await stage.until(lambda: len(stage.tables.outcome) == 3)
        await stage.app.enqueue_many([free.bind() for _ in range(200)])
        began = stage.now
        await stage.until(lambda: len(stage.tables.outcome) == 203)
        assert stage.now - began < 15


# A batch


@in_virtual_time
async def test_a_batch_that_gathers_makes_no_room_for_jobs_of_other_tasks() -> None:
    stage = Stage()

    @stage.app.task(batch=64, linger=30)
    async def index(items: list[BatchItem[int]]) -> None:
        pass

    @stage.app.task
    async def single() -> None:
        await asyncio.sleep(10)

    async with stage.node(concurrency=2) as node:
        await index.enqueue(1)
        await stage.app.enqueue_many([single.bind() for _ in range(100)])
        for _ in range(20):
            await asyncio.sleep(0.5)
            assert len(node._crew.dispatcher.held) <= 1 + 2 + 4
        node.stop(now=True)
        await node.wait_stopped()


@in_virtual_time
async def test_a_batch_is_filled_in_few_claims_when_its_queue_has_nothing_else() -> None:
    stage, sizes = Stage(), list[int]()

    @stage.app.task(batch=100, linger=5)
    async def index(items: list[BatchItem[int]]) -> None:
        sizes.append(len(items))

    await stage.app.enqueue_many([index.bind(n) for n in range(1_000)])
    async with stage.node(concurrency=2):
        await stage.until(lambda: len(stage.tables.outcome) == 1_000)
    assert sizes == [100] * 10
    assert stage.line.count("claim_jobs") <= 35


# Draining


@in_virtual_time
async def test_a_draining_node_begins_nothing_that_waited_for_a_worker() -> None:
    stage = Stage()
    work = Work(stage)
    stage.app.executor("desk", lambda: Desk(1))
    task = work.declare(stage.app, executor="desk")
    async with stage.node(concurrency=10) as node:
        jobs = await stage.app.enqueue_many([task.bind(str(n), 5.0) for n in range(4)])
        await stage.until(lambda: len(node._crew.dispatcher.held) == 4)
        await stage.until(lambda: work.begun)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(0.1)
        states = Counter([(await job.info()).state for job in jobs])
        assert states == {State.RUNNING: 1, State.PENDING: 3}
        await draining
    assert len(work.begun) == 1
    assert {place.attempt for place in stage.tables.ready.values()} == {1}


@in_virtual_time
async def test_a_draining_node_begins_nothing_whose_arguments_come_too_late() -> None:
    stage = Stage()
    work = Work(stage)
    task = work.declare(stage.app)
    async with stage.node(concurrency=10, inline_args=1) as node:
        until = stage.line.hold("load_args")
        job = await task.enqueue("late", 1.0)
        await stage.until(lambda: stage.line.count("load_args") == 1)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(0.1)
        assert (await job.info()).state is State.PENDING
        until.set()
        await draining
    assert work.begun == {}


@in_virtual_time
async def test_a_claim_that_arrives_during_a_drain_goes_back() -> None:
    stage = Stage()
    work = Work(stage)
    task = work.declare(stage.app)
    async with stage.node(concurrency=10) as node:
        await asyncio.sleep(0.1)  # the first look has found nothing
        until = stage.line.hold("claim_jobs", reply=True)
        job = await task.enqueue("late", 1.0)
        await stage.until(lambda: stage.tables.running)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(0.1)
        until.set()
        await asyncio.sleep(0.1)
        assert (await job.info()).state is State.PENDING
        await draining
    assert work.begun == {}


# The rule


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_queue_that_was_capped_comes_back_to_its_slots_step_by_step(limit: int) -> None:
    slots = Slots(limit)
    assert slots.room(5) == limit + min(5, limit)
    slots.busy = limit
    slots.cap(limit // 2, now=0.0)
    assert slots.room(5) <= 0, "nothing more until a job ends"
    slots.probe(now=PROBE / 2)
    assert slots.room(5) <= 0
    steps = 0
    while slots.ceiling is not None:
        steps += 1
        slots.probe(now=PROBE * steps)
    assert steps <= 6
    assert slots.room(5) == min(5, limit)


def test_a_queue_rises_by_one_with_each_job_that_ends() -> None:
    slots = Slots(4)
    slots.cap(2, now=0.0)
    rooms = []
    while slots.ceiling is not None:
        rooms.append(slots.room(0))
        slots.rise()
    assert rooms == [2, 3, 4, 4, 4, 4]


def test_a_queue_rests_after_giving_back_and_for_longer_each_time() -> None:
    slots = Slots(4)
    now, rests = 0.0, []
    for _ in range(7):
        slots.cap(0, now)
        slots.rest(now)
        began = now
        assert slots.room(0) == 0
        while not slots.end_rest(now):
            now += REST / 4
        rests.append(now - began)
        assert slots.room(0) == 1
    assert rests[:3] == [REST, 2 * REST, 4 * REST]
    assert rests[-1] == PROBE
    slots.rise()
    slots.rest(now)
    assert slots.end_rest(now + REST), "a job has run: it begins with the shortest rest again"
