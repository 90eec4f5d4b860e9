"""If these fail, work that was done is done again: its end was known, and was thrown away."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from detent import JobContext, Retry, State, StoreError
from detent.config import Config
from detent.errors import ResultNotStored, StoreBusy, StoreUnavailable
from detent.events import (
    ClaimsReconciled,
    ClaimWasLost,
    FinishGaveUp,
    NodeFenced,
    StoreRecovered,
    StoreTrouble,
)
from detent.stores.memory.nodes import DEAD
from detent.testing.simulation.stage import Stage
from detent.testing.simulation.store import Call
from detent.testing.virtual import in_virtual_time

ENDS = ("finish_jobs", "settle_jobs", "finish_hooked")


def named(*names: str) -> Any:
    """Return a condition for calls whose ends are of one of these tasks."""
    return lambda call: any(end.task.endswith(names) for end in call.args[1])


def refuse_ends(stage: Stage, error: StoreError | None = None, **settings: Any) -> None:
    for statement in ENDS:
        stage.line.lose(statement, times=None, error=error, **settings)


@in_virtual_time
async def test_a_refusal_that_passes_is_waited_out() -> None:
    stage, runs = Stage(), Counter[int]()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def work(number: int) -> int:
        runs[number] += 1
        if number % 5 == 4:
            raise ValueError(number)
        return number

    async with stage.node(reconcile_interval=timedelta(seconds=1)):
        refuse_ends(stage, StoreUnavailable("no space left on device"))
        for number in range(30):
            await work.options(unique=f"key {number}" if number % 2 else None).enqueue(number)
        await asyncio.sleep(60)
        stage.line.heal()
        await stage.until(lambda: len(stage.tables.outcome) == 30)
    assert set(runs.values()) == {1}, "each ran once"
    assert stage.told(ClaimsReconciled) == []
    assert stage.told(FinishGaveUp) == []


@pytest.mark.parametrize("way", ["succeeds", "fails", "hooked", "logs"])
def test_an_end_that_was_known_at_the_fence_is_written_when_the_node_comes_back(way: str) -> None:
    @in_virtual_time
    async def test() -> None:
        stage, runs = Stage(), list[int]()

        @stage.app.task(retry=Retry(max_attempts=1))
        async def work(ctx: JobContext) -> str:
            runs.append(ctx.fence)
            await asyncio.sleep(5)
            if way == "logs":
                ctx.log.info("done")
            if way == "fails":
                raise ValueError
            return "done"

        @stage.app.task
        async def long(ctx: JobContext) -> int:
            await asyncio.sleep(30)
            return ctx.attempt

        async with stage.node() as node:
            first = node.identity.incarnation
            job = await work.options(unique="key" if way == "hooked" else None).enqueue()
            other = await long.enqueue()
            await stage.until(lambda: len(stage.tables.running) == 2)
            stage.line.lose(None, times=None)
            await stage.until(lambda: stage.told(NodeFenced))
            await asyncio.sleep(2)
            assert node.identity.incarnation == first, "the store still does not answer"
            stage.line.heal()
            await stage.until(lambda: job.id in stage.tables.outcome, limit=20)
            outcome = stage.tables.outcome[job.id]
            assert outcome.state is (State.FAILED if way == "fails" else State.SUCCEEDED)
            assert (outcome.node, outcome.fence, len(runs)) == (first, runs[0], 1)
            assert await other.result(timeout=60) == 1, "what was stopped went back uncharged"
            assert node.identity.incarnation != first
            assert stage.told(ClaimWasLost) == []

    test()


@in_virtual_time
async def test_a_call_that_hangs_at_the_fence_does_not_take_its_ends_along() -> None:
    stage, runs = Stage(), list[int]()

    @stage.app.task
    async def work(ctx: JobContext) -> str:
        runs.append(ctx.fence)
        return "done"

    async with stage.node() as node:
        first = node.identity.incarnation
        stage.line.hold("finish_jobs")  # for ever
        stage.line.lose("beat", times=None)
        job = await work.enqueue()
        await stage.until(lambda: node.identity.incarnation != first)
        assert stage.tables.outcome[job.id].node == first
        stage.line.heal()
        await asyncio.sleep(30)
        assert len(runs) == 1
        assert await (await work.enqueue()).result(timeout=10) == "done", "the writer goes on"


@in_virtual_time
async def test_a_call_that_the_fence_breaks_off_is_no_answer_of_the_store() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    async with stage.node() as node:
        first = node.identity.incarnation
        stage.line.lose("finish_jobs")  # told as trouble
        await work.enqueue()
        await stage.until(lambda: stage.told(StoreTrouble))
        stage.line.hold("finish_jobs")  # for ever
        stage.line.lose(None, times=None)
        await stage.until(lambda: stage.told(NodeFenced))
        await asyncio.sleep(5)
        assert stage.told(StoreRecovered) == []
        stage.line.heal()
        await stage.until(lambda: node.identity.incarnation != first)
        await work.enqueue()
        await stage.until(lambda: StoreRecovered("finisher") in stage.told(StoreRecovered))


@in_virtual_time
async def test_what_others_took_meanwhile_is_refused_by_the_fence_and_told() -> None:
    stage, runs = Stage(), list[int]()

    @stage.app.task
    async def work(ctx: JobContext) -> int:
        runs.append(ctx.fence)
        return ctx.fence

    async with stage.node() as node:
        first = node.identity.incarnation
        stage.line.lose("finish_jobs", times=None)
        job = await work.enqueue()
        await stage.until(lambda: stage.line.count("finish_jobs") >= 2)
        # Do what a rescuer does.
        stage.tables.nodes[first] = stage.tables.nodes[first]._replace(state=DEAD)
        stage.tables.ready[job.id] = stage.tables.running.pop(job.id).place
        stage.line.heal()
        assert await job.result(timeout=60) == runs[1]
        (event,) = stage.told(ClaimWasLost)
        assert (event.job_id, event.node) == (job.id, first)


@in_virtual_time
async def test_what_the_store_refuses_for_good_is_a_failed_attempt() -> None:
    stage, runs = Stage(), list[int]()

    @stage.app.task(retry=Retry(max_attempts=3, delay=timedelta(seconds=1)))
    async def work(ctx: JobContext) -> str:
        runs.append(ctx.attempt)
        return "done"

    async with stage.node(reconcile_interval=timedelta(seconds=1)):
        stage.line.lose("finish_jobs", times=None, error=StoreError("never"))
        job = await work.enqueue()
        await stage.until(lambda: job.id in stage.tables.outcome)
        await asyncio.sleep(30)
    assert runs == [1, 2, 3], "each run is charged, so there is an end of it"
    assert stage.tables.outcome[job.id].state is State.FAILED
    assert b"the store refused its end: never" in (stage.tables.outcome[job.id].error or b"")
    assert len(stage.told(FinishGaveUp)) == 3


@in_virtual_time
async def test_what_cannot_even_be_charged_is_kept_and_holds_up_nothing() -> None:
    stage, runs = Stage(), Counter[str]()

    @stage.app.task
    async def poison() -> None:
        runs["poison"] += 1

    @stage.app.task
    async def quick() -> None:
        runs["quick"] += 1

    async with stage.node(reconcile_interval=timedelta(seconds=1)) as node:
        first = node.identity.incarnation
        refuse_ends(stage, StoreError("never"), matching=named("poison"))
        job = await poison.enqueue()
        await stage.until(lambda: stage.told(FinishGaveUp))
        started = stage.now
        for _ in range(10):
            await (await quick.enqueue()).result(timeout=5)
        assert stage.now - started < 5
        await asyncio.sleep(120)
        assert runs == {"poison": 1, "quick": 10}
        assert [claim.node for claim in stage.tables.running.values()] == [first]
        assert len(stage.told(FinishGaveUp)) == 1, "told once"
        assert stage.line.count("settle_jobs") < 100, "with pauses"
        stage.line.heal()
        await stage.until(lambda: job.id not in stage.tables.running)
        assert stage.tables.attempts, "it was charged at last"


@in_virtual_time
async def test_one_end_that_breaks_the_connection_does_not_hold_up_the_others() -> None:
    stage, runs = Stage(), Counter[str]()

    @stage.app.task
    async def huge() -> str:
        runs["huge"] += 1
        return "x" * 1000

    @stage.app.task
    async def quick() -> str:
        runs["quick"] += 1
        return "quick"

    def is_too_large(call: Call) -> bool:
        return any(len(end.result or b"") > 500 for end in call.args[1])

    async with stage.node():
        stage.line.lose("finish_jobs", times=None, matching=is_too_large)
        writing = stage.line.hold("finish_jobs")
        calls = [huge.bind() if number == 70 else quick.bind() for number in range(100)]
        jobs = await stage.app.enqueue_many(calls)
        await asyncio.sleep(1)
        writing.set()
        for number, job in enumerate(jobs):
            if number != 70:
                assert await job.result(timeout=10) == "quick"
        for _ in range(15):
            await asyncio.sleep(10)
            assert await (await quick.enqueue()).result(timeout=2) == "quick"
        with pytest.raises(ResultNotStored, match="the store refused it"):
            await jobs[70].result(timeout=1)
    assert runs["huge"] == 1


@in_virtual_time
async def test_a_locked_row_holds_up_only_its_own_end() -> None:
    stage = Stage()

    @stage.app.task
    async def plain() -> str:
        return "plain"

    @stage.app.task
    async def keyed() -> str:
        return "keyed"

    @stage.app.task
    async def locked() -> str:
        return "locked"

    async with stage.node():
        writing = stage.line.hold("finish_hooked")
        stage.line.lose(
            "finish_hooked", times=None, error=StoreBusy("locked"), matching=named("locked")
        )
        await keyed.options(unique="first").enqueue()
        held = [await locked.options(unique=f"locked {number}").enqueue() for number in range(5)]
        others = [await keyed.options(unique=f"{number}").enqueue() for number in range(100)]
        assert await (await plain.enqueue()).result(timeout=1) == "plain", "it has a writer"
        writing.set()
        for job in others:
            assert await job.result(timeout=1) == "keyed"
        assert len(stage.tables.running) == 5
        for number in range(20):
            job = await keyed.options(unique=f"more {number}").enqueue()
            assert await job.result(timeout=1) == "keyed"
        stage.line.heal()
        for job in held:
            assert await job.result(timeout=15) == "locked"


@in_virtual_time
async def test_a_node_that_drains_writes_what_is_known_and_leaves_the_rest_to_the_rescue() -> None:
    stage, runs = Stage(), Counter[str]()

    @stage.app.task
    async def poison() -> None:
        runs["poison"] += 1

    @stage.app.task
    async def late() -> None:
        runs["late"] += 1

    async with stage.node(drain_timeout=timedelta(seconds=1)):
        refuse_ends(stage, StoreError("never"), matching=named("poison"))
        bad = await poison.enqueue()
        await stage.until(lambda: stage.told(FinishGaveUp))
        stage.line.lose("finish_jobs", times=4, matching=named("late"))
        good = await late.enqueue()
        await stage.until(lambda: runs["late"])
    assert good.id in stage.tables.outcome
    assert list(stage.tables.running) == [bad.id], "its lease runs out, and that is charged"
    assert runs == {"poison": 1, "late": 1}
    assert "the node ended" in stage.told(FinishGaveUp)[-1].error


def test_a_node_with_too_many_bytes_to_write_takes_on_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("detent._engine.finish.BACKLOG_BYTES", 100_000)

    @in_virtual_time
    async def test() -> None:
        stage = Stage(Config())

        @stage.app.task
        async def work() -> str:
            return "x" * 1_000

        async with stage.node(concurrency=10) as node:
            stage.line.lose("finish_jobs", times=None)
            await stage.app.enqueue_many([work.bind() for _ in range(300)])
            await asyncio.sleep(5)
            assert 99 <= len(node._crew.dispatcher.held) <= 120
            stage.line.heal()
            await stage.until(lambda: len(stage.tables.outcome) == 300)

    test()


@in_virtual_time
async def test_a_batch_is_bounded_by_bytes_too() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> str:
        return "x" * 1_000_000

    async with stage.node(concurrency=100):
        writing = stage.line.hold("finish_jobs")
        await stage.app.enqueue_many([work.bind() for _ in range(50)])
        await asyncio.sleep(1)
        writing.set()
        await stage.until(lambda: len(stage.tables.outcome) == 50)
    sizes = [
        sum(len(end.result or b"") for end in call.args[1])
        for call in stage.line.calls
        if call.statement == "finish_jobs"
    ]
    assert max(sizes) <= 4 << 20
    assert len(sizes) < 20, "and not one by one"
