"""If these fail, a deploy costs work: jobs run twice for nothing, or a node never goes."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent import App, ConfigError, DaemonContext, JobContext, Retry, State, StoreUnavailable
from detent._engine.node import Node
from detent.events import DaemonStarted, HookFailed, NodeDraining, NodeStopped
from detent.running import RunningNode
from detent.testing.simulation.ledger import stubborn_sleep
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

ONCE = Retry(max_attempts=1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@in_virtual_time
async def test_a_drain_waits_for_what_runs_and_starts_nothing_new() -> None:
    stage, ran = Stage(), list[str]()

    @stage.app.task
    async def work(name: str) -> str:
        await asyncio.sleep(10)
        ran.append(name)
        return name

    async with stage.node() as node:
        job = await work.enqueue("first")
        await stage.until(lambda: stage.tables.running)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(1)
        assert [each.state for each in await stage.store.nodes()] == ["draining"]
        late = await work.enqueue("late")
        await draining
        assert stage.now == pytest.approx(10, abs=0.5)
        assert await job.result() == "first"
        assert (await stage.app.jobs.get(late.id)).state is State.PENDING
    assert ran == ["first"]
    assert await stage.store.nodes() == []
    assert [event.running for event in stage.told(NodeDraining)] == [1]
    assert [event.released for event in stage.told(NodeStopped)] == [0]


@in_virtual_time
@pytest.mark.parametrize("lost", ["nodes", "join"])
async def test_a_start_that_fails_leaves_no_heart_that_beats(lost: str) -> None:
    """A program that goes on would otherwise keep a node on the list that never does anything."""
    stage = Stage()
    # Who is ready joins once more.
    stage.line.lose(lost, matching=lambda call: lost != "join" or stage.line.count("join") > 1)
    node = Node(stage.app.node_parts(stage.config))
    with pytest.raises(StoreUnavailable):
        await node.start()
    assert await stage.store.nodes() == []
    beats = stage.line.count("beat")
    await asyncio.sleep(60)
    assert stage.line.count("beat") == beats
    async with stage.node():
        assert [each.state for each in await stage.store.nodes()] == ["active"]


@in_virtual_time
@pytest.mark.parametrize("wakeups", [True, False])
async def test_who_drains_a_node_that_is_being_replaced_is_heard(wakeups: bool) -> None:
    """Else its parent starts another one, which serves on."""
    stage = Stage(wakeups=wakeups)
    nodes = stage.app.nodes

    @stage.app.task
    async def work(seconds: float) -> None:
        await asyncio.sleep(seconds)

    for drained in (False, True):
        async with stage.node(max_jobs=1, name="web-1") as node:
            ended = asyncio.ensure_future(node.wait_stopped())
            await work.enqueue(20)
            await work.enqueue(0)
            await stage.until(
                lambda: [each.state for each in stage.tables.nodes.values()] == ["recycled"]
            )
            if drained:
                assert (await nodes.drain("web-1")).state == "draining"
            await ended
            assert node.was_sent_away is drained
        assert await stage.store.nodes() == []


@in_virtual_time
async def test_a_process_that_is_too_big_from_the_start_is_told_so() -> None:
    """It would drain at once; and its parent would start another, again and again."""
    stage = Stage()
    parts = stage.app.node_parts(
        replace(stage.config, node=replace(stage.config.node, max_rss=100_000_000))
    )
    node = Node(replace(parts, load=lambda: {"rss": 120_000_000.0}))
    with pytest.raises(ConfigError, match=r"max_rss = 100,000,000: the process takes 120,000,000"):
        await node.start()
    assert await stage.store.nodes() == []


@in_virtual_time
@pytest.mark.parametrize("hurried, most", [(False, 25), (True, 12)])
async def test_a_store_that_never_answers_cannot_keep_a_node(hurried: bool, most: float) -> None:
    """A service manager waits for some time more than the drain takes, and then it kills."""
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(3)

    @stage.app.daemon
    async def watch(ctx: DaemonContext) -> None:
        await ctx.stopping()

    async with stage.node(drain_timeout=seconds(60)) as node:
        await work.enqueue()
        await stage.until(lambda: stage.tables.running and stage.told(DaemonStarted))
        stage.line.latency = 86_400
        began = stage.now
        node.stop(now=hurried)
        await node.wait_stopped()
        assert stage.now - began <= most
        stage.line.latency = 0


@in_virtual_time
async def test_what_does_not_end_in_time_goes_back_unharmed() -> None:
    stage, stopped = Stage(), list[float]()

    @stage.app.task(retry=ONCE)
    async def long(ctx: JobContext) -> str:
        if stopped:
            return f"attempt {ctx.attempt}"
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(stage.now)
        return "never"

    async with stage.node(drain_timeout=seconds(20)):
        job = await long.enqueue()
        await stage.until(lambda: stage.tables.running)
        await asyncio.sleep(5)
    assert stopped[0] == pytest.approx(25, abs=0.5)
    info = await stage.app.jobs.get(job.id)
    assert (info.state, info.attempt) == (State.PENDING, 1)
    assert await stage.app.jobs.attempts(job.id) == [], "nothing is charged"
    async with stage.node():
        assert await job.result(timeout=5) == "attempt 1"


@in_virtual_time
async def test_what_will_not_stop_is_given_back_and_its_late_words_are_refused() -> None:
    stage, begun, ends = Stage(), list[str](), list[str]()

    @stage.app.task
    async def deaf(name: str) -> str:
        begun.append(name)
        await stubborn_sleep(100)
        ends.append(name)
        return name

    async with stage.node(drain_timeout=seconds(1)):
        job = await deaf.enqueue("deaf")
        await stage.until(lambda: begun)
    assert stage.now == pytest.approx(6, abs=0.5), "a second, and a little grace"
    assert (await stage.app.jobs.get(job.id)).state is State.PENDING
    await asyncio.sleep(200)
    assert ends == ["deaf"]
    assert (await stage.app.jobs.get(job.id)).state is State.PENDING


@in_virtual_time
async def test_jobs_that_were_claimed_and_not_started_go_back_at_once() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(10)

    async with stage.node(concurrency=2) as node:
        # As if jobs had been ending fast: then some are claimed ahead.
        slots = node._crew.dispatcher.queues["default"]
        slots.pace, slots.measured_at = 100.0, stage.now + 3600
        await stage.app.enqueue_many([work.bind() for _ in range(4)])
        await stage.until(lambda: len(stage.tables.running) == 4)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(1)
        assert len(stage.tables.running) == 2
        assert {place.attempt for place in stage.tables.ready.values()} == {1}
        await draining


@in_virtual_time
async def test_a_second_stop_does_not_wait() -> None:
    stage = Stage()

    @stage.app.task
    async def long() -> None:
        await asyncio.sleep(3600)

    async with stage.node(drain_timeout=seconds(1000)) as node:
        await long.enqueue()
        await stage.until(lambda: stage.tables.running)
        gone = asyncio.ensure_future(node.wait_stopped())
        await asyncio.sleep(10)
        assert not gone.done(), "nobody has asked yet"
        node.stop()
        await asyncio.sleep(10)
        assert not gone.done(), "it waits for its job"
        node.stop()
        await asyncio.sleep(1)
        assert gone.done()
    assert len(stage.tables.ready) == 1


@pytest.mark.parametrize("drain_timeout", [3.0, 1000.0])
def test_stopping_now_waits_for_nothing_but_the_last_words(drain_timeout: float) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task
        async def long() -> None:
            await asyncio.sleep(3600)

        async with stage.node(drain_timeout=seconds(drain_timeout)) as node:
            await long.enqueue()
            await stage.until(lambda: stage.tables.running)
            asked = stage.now
            node.stop(now=True)
            await node.wait_stopped()
            assert stage.now - asked < 1
        assert len(stage.tables.ready) == 1

    test()


@in_virtual_time
async def test_what_has_ended_is_written_even_when_there_is_no_time() -> None:
    stage, ran = Stage(), list[int]()

    @stage.app.task
    async def work() -> str:
        ran.append(1)
        return "done"

    async with stage.node(drain_timeout=seconds(0)) as node:
        writing = stage.line.hold("finish_jobs")
        job = await work.enqueue()
        await stage.until(lambda: stage.line.count("finish_jobs"))
        node.stop(now=True)
        draining = asyncio.ensure_future(node.wait_stopped())
        await asyncio.sleep(0.5)
        writing.set()
        await draining
    assert (await stage.app.jobs.get(job.id)).state is State.SUCCEEDED
    assert ran == [1]


@in_virtual_time
async def test_a_node_may_be_drained_by_several_at_once() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(5)

    async with stage.node() as node:
        await work.enqueue()
        await stage.until(lambda: stage.tables.running)
        await asyncio.gather(node.drain(), node.drain())
    await node.drain()
    assert len(stage.told(NodeStopped)) == 1
    assert len(stage.tables.outcome) == 1


@in_virtual_time
async def test_claims_whose_reply_was_lost_go_back_before_the_node_leaves() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    async with stage.node() as node:
        await asyncio.sleep(5)
        stage.line.lose("claim_jobs", reply=True)
        stage.line.lose("claims_of")
        await work.enqueue()
        await stage.until(lambda: stage.tables.running)
        await node.drain()
    assert len(stage.tables.ready) == 1
    assert await stage.store.nodes() == []


@in_virtual_time
async def test_a_node_leaves_even_when_its_store_does_not_answer() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(3)

    async with stage.node(drain_timeout=seconds(5)):
        await work.enqueue()
        await stage.until(lambda: stage.tables.running)
        stage.line.lose(None, times=None)
        began = stage.now
    assert stage.now - began < 60
    assert stage.told(HookFailed)
    assert len(stage.told(NodeStopped)) == 1


# Hooks


@in_virtual_time
async def test_hooks_run_in_order_around_the_life_of_a_node() -> None:
    stage, told = Stage(), list[str]()
    app = stage.app

    @app.on_start
    def start() -> None:
        told.append("start")
        assert stage.tables.nodes == {}

    @app.on_ready
    async def ready() -> None:
        await asyncio.sleep(1)
        told.append("ready")
        assert len(stage.tables.nodes) == 1

    @app.on_drain
    async def drain() -> None:
        told.append("drain")

    @app.on_stop
    def stop() -> None:
        told.append("stop")
        assert stage.tables.nodes == {}

    async with stage.node():
        told.append("running")
    assert told == ["start", "ready", "running", "drain", "stop"]


@in_virtual_time
async def test_a_hook_that_fails_keeps_a_node_from_starting_and_no_more() -> None:
    stage = Stage()

    def broken() -> None:
        raise ZeroDivisionError

    for declare in (stage.app.on_ready, stage.app.on_drain, stage.app.on_stop):
        declare(broken)
    async with stage.node():
        pass
    assert [event.name for event in stage.told(HookFailed)] == ["on_ready", "on_drain", "on_stop"]
    assert len(stage.told(NodeStopped)) == 1
    stage.app.on_start(broken)
    with pytest.raises(ZeroDivisionError):
        async with stage.node():
            pytest.fail("it did not start")
    assert stage.tables.nodes == {}


def test_a_hook_that_could_not_be_called_is_refused() -> None:
    declare: Any = App("memory://").on_drain
    for wrong in ("close the pool", lambda node: None):
        with pytest.raises(ConfigError, match=r"@app.on_drain: .*: must be def hook\(\)"):
            declare(wrong)


@in_virtual_time
async def test_a_node_that_cannot_join_says_so() -> None:
    stage = Stage()
    stage.line.lose("join")
    with pytest.raises(StoreUnavailable):
        async with stage.node():
            pytest.fail("it never joined")
    assert stage.told(NodeStopped) == []


@in_virtual_time
async def test_an_app_runs_nodes_by_itself() -> None:
    stage = Stage()

    @stage.app.task
    async def add(one: int, two: int) -> int:
        return one + two

    node: RunningNode = stage.app.node(queues={"default": 2}, name="here")
    assert node.id is None
    async with node:
        assert node.id == (await stage.store.nodes())[0].incarnation
        assert (await stage.store.nodes())[0].name == "here"
        assert await (await add.enqueue(1, two=2)).result() == 3
    assert await stage.store.nodes() == []
