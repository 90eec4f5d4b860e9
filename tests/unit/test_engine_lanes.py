"""If these fail, what a node offers makes it slow, or urgent jobs wait behind others."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from detent import App, Priority
from detent._engine.claim import PAGE
from detent.config import Config, NodeConfig
from detent.errors import StoreError
from detent.events import ClaimsReconciled
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import VirtualRuntime, in_virtual_time

JOBS = 1_000
LATENCY = 0.001
SECOND = timedelta(seconds=1)


def has_ended(stage: Stage, count: int) -> bool:
    return len(stage.tables.outcome) == count


def names(count: int) -> Sequence[str]:
    return [f"c{number}" for number in range(count)]


@in_virtual_time
@pytest.mark.parametrize("offered", [2, 6, 32, 1_000])
async def test_a_node_is_as_fast_whatever_it_offers(offered: int) -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    @stage.app.task(needs=["c1", "c0"])
    async def needy() -> None: ...

    async def drain(capabilities: Sequence[str]) -> tuple[int, float]:
        stage.tables.outcome.clear()
        await stage.app.enqueue_many([work.bind() for _ in range(JOBS)])
        stage.line.calls.clear()
        stage.line.latency = LATENCY
        async with stage.node(queues={"default": 50}, capabilities=capabilities):
            began = stage.now
            ended = await stage.until(lambda: len(stage.tables.outcome) == JOBS)
            claims = stage.line.count("claim_jobs")
        stage.line.latency = 0.0
        return claims, ended - began

    claims, took = await drain(())
    more_claims, took_longer = await drain(names(offered))
    assert more_claims <= claims * 1.5
    assert took_longer <= took * 1.5


@in_virtual_time
@pytest.mark.parametrize("enqueued_first", [True, False])
async def test_one_queue_has_one_order_over_all_that_its_jobs_need(enqueued_first: bool) -> None:
    stage, begun, go = Stage(), list[str](), asyncio.Event()

    @stage.app.task
    async def hold() -> None:
        await go.wait()

    @stage.app.task
    async def work(name: str) -> None:
        begun.append(name)

    async def enqueue() -> None:
        for number in range(9):
            await work.options(priority=Priority.LOW).enqueue(f"plain {number}")
        await work.options(priority=Priority.HIGH, needs=["ml", "gpu"]).enqueue("both")
        await work.options(priority=Priority.CRITICAL, needs=["gpu"]).enqueue("gpu")
        await work.options(priority=Priority.CRITICAL, needs=["fpga"]).enqueue("never")

    if enqueued_first:
        await enqueue()
        go.set()
    async with stage.node(queues={"default": 1}, capabilities=["gpu", "ml"]):
        if not enqueued_first:
            await hold.enqueue()
            await stage.until(lambda: stage.tables.running)
            await enqueue()
            # Hints are on their way.
            await asyncio.sleep(0.1)
            go.set()
        await stage.until(lambda: len(begun) == 11)
        await asyncio.sleep(1)
    assert begun == ["gpu", "both", *(f"plain {number}" for number in range(9))]


@in_virtual_time
@pytest.mark.parametrize("wakeups", [True, False])
async def test_lanes_of_which_nobody_tells_are_found(wakeups: bool) -> None:
    stage = Stage(wakeups=wakeups)

    @stage.app.task(needs=["gpu"])
    async def work() -> None: ...

    mute = App(store=stage.store, runtime=VirtualRuntime("mute"))
    untold = mute.task(name=work.name, needs=["gpu"])(work.function)
    async with stage.node(capabilities=["gpu"]):
        await asyncio.sleep(1)
        for number in range(3):
            await untold.enqueue()
            began = stage.now
            ended = await stage.until(partial(has_ended, stage, number + 1))
            assert ended - began < 11.0
            # The lane is forgotten meanwhile.
            await asyncio.sleep(60)


@in_virtual_time
async def test_a_node_that_offers_nothing_looks_for_nothing() -> None:
    stage = Stage()
    async with stage.node():
        await asyncio.sleep(60)
    assert stage.line.count("needy_lanes") == 0


@in_virtual_time
async def test_lanes_that_stay_empty_are_not_asked_for_ever() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    async with stage.node(capabilities=names(8)) as node:
        for number in range(1, 8):
            await work.options(needs=names(number)).enqueue()
        await stage.until(lambda: len(stage.tables.outcome) == 7)
        await asyncio.sleep(30)
        assert list(node._crew.claimer.lanes) == ["default"]


@in_virtual_time
@pytest.mark.parametrize("held", ["claim_gated", "claims_of"])
async def test_a_slow_answer_to_one_question_delays_no_other_claim(held: str) -> None:
    stage = Stage(Config(node=NodeConfig(reconcile_interval=SECOND)))

    @stage.app.task
    async def work() -> None: ...

    @stage.app.task(queue="limited", concurrency=5)
    async def limited() -> None: ...

    async with stage.node(queues={"default": 4, "limited": 4}):
        await limited.enqueue()
        await stage.until(lambda: len(stage.tables.outcome) == 1)
        before = stage.line.count(held)
        answer = stage.line.hold(held)
        await limited.enqueue()
        await stage.until(lambda: stage.line.count(held) > before)
        for number in range(10):
            await work.enqueue()
            began, ended = stage.now, 2 + number + (held == "claims_of")
            assert await stage.until(partial(has_ended, stage, ended)) - began < 0.05
        answer.set()
        await stage.until(partial(has_ended, stage, 12))
    assert not stage.told(ClaimsReconciled)


@in_virtual_time
async def test_a_claim_that_lands_while_claims_are_compared_is_not_given_back() -> None:
    stage = Stage(Config(node=NodeConfig(reconcile_interval=SECOND)))
    go = asyncio.Event()

    @stage.app.task
    async def work() -> None:
        await go.wait()

    async with stage.node():
        await asyncio.sleep(3)
        # The store has made the claim, and the node does not know of it for a while.
        reply = stage.line.hold("claim_jobs", reply=True)
        await work.enqueue()
        await stage.until(lambda: stage.tables.running)
        asked = stage.line.count("claims_of")
        await stage.until(lambda: stage.line.count("claims_of") > asked)
        await asyncio.sleep(1)
        reply.set()
        await asyncio.sleep(5)
        go.set()
        await stage.until(lambda: has_ended(stage, 1))
    assert not stage.told(ClaimsReconciled)


@in_virtual_time
async def test_claims_made_side_by_side_take_no_more_than_there_is_room_for() -> None:
    stage, most = Stage(), 0
    stage.line.latency = 0.01

    @stage.app.task
    async def work() -> None: ...

    @stage.app.task(concurrency=100)
    async def limited() -> None: ...

    async with stage.node(queues={"default": 3}) as node:
        for _ in range(60):
            await stage.app.enqueue_many([work.bind(), limited.bind()])
        while len(stage.tables.outcome) < 120:
            # One prefetched for each slot at most.
            most = max(most, len(node._crew.dispatcher.held))
            assert len(stage.tables.running) <= 6
            await asyncio.sleep(0.001)
    assert 0 < most <= 6


class Mixed:
    """A queue with jobs that have a gate, that need something, and that have nothing of it."""

    def __init__(self, stage: Stage) -> None:
        self.begun: list[str] = []
        self.go = asyncio.Event()

        async def hold() -> None:
            await self.go.wait()

        async def note(name: str) -> None:
            self.begun.append(name)

        self.hold = stage.app.task(name="hold")(hold)
        self.tasks = {
            "plain": stage.app.task(name="plain")(note),
            "gated": stage.app.task(name="gated", concurrency=100)(note),
            "gpu": stage.app.task(name="gpu", needs=["gpu"])(note),
        }

    async def enqueue(self, urgent: str) -> None:
        """Enqueue nine of each, but five urgent ones of one kind."""
        for number in range(9):
            for name, task in self.tasks.items():
                if name != urgent:
                    await task.options(priority=Priority.LOW).enqueue(f"{name} {number}")
        critical = self.tasks[urgent].options(priority=Priority.CRITICAL)
        for number in range(5):
            await critical.enqueue(f"urgent {number}")


@in_virtual_time
@pytest.mark.parametrize("enqueued_first", [True, False])
@pytest.mark.parametrize("urgent", ["gated", "plain", "gpu"])
async def test_one_queue_has_one_order_over_plain_and_gated_jobs(
    enqueued_first: bool, urgent: str
) -> None:
    stage = Stage()
    mixed = Mixed(stage)
    if enqueued_first:
        await mixed.enqueue(urgent)
    else:
        await mixed.hold.enqueue()
    async with stage.node(queues={"default": 1}, capabilities=["gpu"]):
        if not enqueued_first:
            await stage.until(lambda: stage.tables.running)
            await mixed.enqueue(urgent)
            # Hints are on their way.
            await asyncio.sleep(0.1)
            mixed.go.set()
        await stage.until(lambda: len(mixed.begun) == 23)
    assert mixed.begun[:5] == [f"urgent {number}" for number in range(5)]


@in_virtual_time
async def test_plain_jobs_go_on_while_those_behind_gates_cannot_be_claimed() -> None:
    stage = Stage()

    @stage.app.task
    async def plain() -> None: ...

    @stage.app.task(concurrency=100)
    async def gated() -> None: ...

    async with stage.node(queues={"default": 2}):
        stage.line.lose("claim_gated", times=None, error=StoreError("no such function"))
        for number in range(5):
            await gated.enqueue()
            await plain.enqueue()
            began = stage.now
            assert await stage.until(partial(has_ended, stage, number + 1)) - began < 1.0
        stage.line.heal()
        await stage.until(partial(has_ended, stage, 10))


@in_virtual_time
async def test_a_limit_that_binds_costs_no_claims_of_other_jobs() -> None:
    stage = Stage()

    @stage.app.task(concurrency=2)
    async def limited() -> None:
        await asyncio.sleep(0.1)

    for _ in range(100):
        await limited.enqueue()
    async with stage.node(queues={"default": 10}):
        await stage.until(lambda: has_ended(stage, 100))
        assert stage.line.count("claim_jobs") + stage.line.count("next_due") < 30


@in_virtual_time
@pytest.mark.parametrize("queues", [1, 2_000])
async def test_a_wake_up_asks_only_the_queue_that_it_names(queues: int) -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    served = {f"queue{number}": 2 for number in range(queues)}
    async with stage.node(queues=served):
        await asyncio.sleep(10)
        stage.line.calls.clear()
        await work.options(queue="queue0").enqueue()
        await stage.until(lambda: has_ended(stage, 1))
        calls = [call for call in stage.line.calls if call.statement == "claim_jobs"]
        assert [len(call.args[0].scans) for call in calls] == [1]


@in_virtual_time
async def test_a_busy_queue_does_not_hide_what_nobody_told_of_in_another() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    mute = App(store=stage.store, runtime=VirtualRuntime("mute"))
    untold = mute.task(name="untold", queue="b")(work.function)
    stage.app.task(name="untold")(work.function)

    async def keep_busy() -> None:
        while True:
            await work.options(queue="a").enqueue()
            await asyncio.sleep(0.05)

    async with stage.node(queues={"a": 5, "b": 5}):
        busy = asyncio.create_task(keep_busy())
        await asyncio.sleep(5)
        job = await untold.enqueue()
        await stage.until(lambda: job.id in stage.tables.outcome, 3.0)
        busy.cancel()


@in_virtual_time
async def test_each_queue_is_asked_when_its_next_job_is_due() -> None:
    stage, begun = Stage(wakeups=False), dict[str, float]()

    @stage.app.task
    async def work(name: str) -> None:
        begun[name] = stage.now

    async with stage.node(queues={"a": 5, "b": 5, "c": 5}):
        due = {"c": 61.0, "a": 62.5, "b": 64.0}
        for queue, delay in due.items():
            await work.options(queue=queue, delay=timedelta(seconds=delay)).enqueue(queue)
        began = stage.now
        await stage.until(lambda: len(begun) == 3, 100)
    assert {name: round(at - began, 1) for name, at in begun.items()} == due


@in_virtual_time
async def test_polls_of_very_many_queues_go_page_by_page_and_miss_none() -> None:
    stage = Stage(wakeups=False)

    @stage.app.task
    async def work() -> None: ...

    queues = {f"queue{number}": 2 for number in range(2 * PAGE + 10)}
    async with stage.node(queues=queues):
        await asyncio.sleep(1)
        stage.line.calls.clear()
        for number, queue in enumerate(("queue0", f"queue{PAGE}", f"queue{2 * PAGE + 9}")):
            await work.options(queue=queue).enqueue()
            began = stage.now
            assert await stage.until(partial(has_ended, stage, number + 1)) - began < 11.0
    polls = [call for call in stage.line.calls if call.statement == "next_due"]
    assert max(len(call.args[0]) for call in polls) == PAGE
