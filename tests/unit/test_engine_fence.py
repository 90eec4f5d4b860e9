"""If these fail, a node without a right goes on working, or one that has it stops for nothing."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from detent import JobContext, Retry, State
from detent.events import ClaimsReconciled, ClaimWasLost, ClockSkew, HistoryLost, NodeFenced
from detent.model.numbers import EPOCH
from detent.stores.memory.nodes import DEAD
from detent.testing.conformance.builders import claim_request
from detent.testing.simulation.ledger import stubborn_sleep
from detent.testing.simulation.stage import Stage
from detent.testing.simulation.store import Call
from detent.testing.virtual import VirtualRuntime, in_virtual_time

WRITES = ("finish_jobs", "settle_jobs", "finish_hooked", "save_progress", "append_log")


def writes(stage: Stage) -> list[Call]:
    """Return all calls that say something about a claim."""
    return [call for call in stage.line.calls if call.statement in WRITES]


def declare_dead(stage: Stage) -> None:
    """Do what a rescuer does: mark all nodes dead and give their claims back."""
    for node, row in stage.tables.nodes.items():
        stage.tables.nodes[node] = row._replace(state=DEAD)
    for job_id in list(stage.tables.running):
        stage.tables.ready[job_id] = stage.tables.running.pop(job_id).place


@in_virtual_time
async def test_a_node_that_cannot_renew_its_lease_stops_before_it_ends() -> None:
    stage, stopped = Stage(), list[float]()

    @stage.app.task
    async def long(ctx: JobContext) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(stage.now)
            ctx.log.info("last words")

    async with stage.node(drain_timeout=timedelta(0)) as node:
        await long.enqueue()
        await stage.until(lambda: stage.tables.running)
        first = node.identity.incarnation
        await stage.until(lambda: stage.line.count("beat") >= 2)
        cut = stage.now
        stage.line.lose("beat", times=None)
        await stage.until(lambda: stopped)
        assert 9 < stopped[0] - cut < 11, "two thirds of fifteen seconds"
        (event,) = stage.told(NodeFenced)
        assert event.node == first
        assert "could not be renewed" in event.reason
        assert writes(stage) == [], "nothing of it is written"
        await stage.until(
            lambda: all(claim.node != first for claim in stage.tables.running.values())
        )
        assert stage.tables.attempts == {}, "the job went back, and nobody crashed"
        stage.line.heal()
        await stage.until(lambda: node.identity.incarnation != first)
        await asyncio.sleep(5)
        assert writes(stage) == [], "nor later, in its new name"


@in_virtual_time
async def test_it_joins_again_as_somebody_else_and_works() -> None:
    stage = Stage()

    @stage.app.task
    async def add(one: int, two: int) -> int:
        return one + two

    async with stage.node() as node:
        first = node.identity.incarnation
        stage.line.lose(None, times=None)
        await stage.until(lambda: stage.told(NodeFenced))
        await asyncio.sleep(60)
        stage.line.heal()
        assert await (await add.enqueue(1, 2)).result(timeout=30) == 3
        assert node.identity.incarnation != first
        assert len(stage.told(NodeFenced)) == 1


@in_virtual_time
async def test_a_node_that_was_declared_dead_drops_its_work_and_joins_again() -> None:
    stage = Stage()
    runs: list[UUID] = []

    @stage.app.task
    async def long(ctx: JobContext) -> str:
        runs.append(ctx.node_id)
        await asyncio.sleep(20)
        return "done"

    async with stage.node() as node:
        first = node.identity.incarnation
        job = await long.enqueue()
        await stage.until(lambda: stage.tables.running)
        declare_dead(stage)
        assert await job.result(timeout=60) == "done"
        assert runs == [first, node.identity.incarnation]
        assert [event.reason for event in stage.told(NodeFenced)] == [
            "the cluster has declared it dead"
        ]
    info = await stage.app.jobs.get(job.id)
    assert (info.attempt, info.node) == (1, runs[1])


@in_virtual_time
async def test_an_end_that_was_known_when_the_node_was_fenced_is_sent_in_its_old_name_only() -> (
    None
):
    stage = Stage()

    @stage.app.task
    async def quick() -> str:
        return "done"

    async with stage.node() as node:
        first = node.identity.incarnation
        stage.line.lose("finish_jobs", times=None)
        job = await quick.enqueue()
        await stage.until(lambda: stage.line.count("finish_jobs") >= 2)
        declare_dead(stage)
        await stage.until(lambda: stage.told(NodeFenced))
        stage.line.heal()
        before = len(writes(stage))
        assert await job.result(timeout=60) == "done", "it was run again"
        after = writes(stage)[before:]
        assert [call.args[0] for call in after] == [first, node.identity.incarnation]
        assert [len(call.args[1]) for call in after] == [1, 1]
        assert [event.node for event in stage.told(ClaimWasLost)] == [first], "and was refused"


@in_virtual_time
async def test_a_node_never_runs_a_job_twice_at_once_even_as_somebody_else() -> None:
    stage = Stage()
    going, most, runs = 0, 0, list[int]()

    @stage.app.task
    async def deaf(ctx: JobContext) -> int:
        nonlocal going, most
        going += 1
        most = max(most, going)
        runs.append(ctx.fence)
        await stubborn_sleep(40)
        going -= 1
        return len(runs)

    async with stage.node(drain_timeout=timedelta(0)):
        job = await deaf.enqueue()
        await stage.until(lambda: stage.tables.running)
        declare_dead(stage)
        assert await job.result(timeout=200) == 2
        assert most == 1
        calls = stage.line.count("claim_jobs")
        assert calls < 400, "nor does it spin while the old run goes on"


@in_virtual_time
async def test_one_beat_without_an_answer_is_no_reason_to_stop() -> None:
    stage = Stage()
    async with stage.node() as node:
        first = node.identity.incarnation
        await stage.until(lambda: stage.line.count("beat") == 2)
        stage.line.hold("beat")  # for ever: a connection that died without a word
        await asyncio.sleep(60)
        assert stage.told(NodeFenced) == []
        assert node.identity.incarnation == first


@in_virtual_time
async def test_while_its_lease_is_in_doubt_a_node_claims_nothing() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    async with stage.node():
        await asyncio.sleep(5)
        stage.line.lose("beat", times=None)
        stage.line.lose("join", times=None)
        await stage.until(lambda: stage.told(NodeFenced))
        await work.enqueue()
        await asyncio.sleep(120)
        assert len(stage.tables.ready) == 1
        stage.line.heal()
        await stage.until(lambda: stage.tables.outcome)


@in_virtual_time
async def test_a_clock_that_is_wrong_is_told_once() -> None:
    stage = Stage()
    app = stage.new_app()
    app._runtime = VirtualRuntime("skewed", ahead=timedelta(seconds=-90))
    async with stage.node(app):
        await asyncio.sleep(60)
    (event,) = stage.told(ClockSkew)
    assert event.seconds == pytest.approx(-90, abs=1)


# Claims that the node does not know of


@in_virtual_time
async def test_a_claim_whose_reply_was_lost_goes_back_and_is_run() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def work(ctx: JobContext) -> int:
        return ctx.attempt

    async with stage.node() as node:
        await asyncio.sleep(5)
        stage.line.lose("claim_jobs", reply=True)
        job = await work.enqueue()
        assert await job.result(timeout=10) == 1
        (event,) = stage.told(ClaimsReconciled)
        assert (event.node, event.released) == (node.identity.incarnation, 1)


@in_virtual_time
async def test_reconciling_leaves_alone_what_the_node_holds() -> None:
    stage = Stage()

    @stage.app.task
    async def long() -> None:
        await asyncio.sleep(300)

    async with stage.node(reconcile_interval=timedelta(seconds=1)):
        job = await long.enqueue()
        await job.result(timeout=400)
    assert stage.line.count("claims_of") > 100
    assert stage.told(ClaimsReconciled) == []
    assert stage.told(HistoryLost) == []
    assert (await stage.app.jobs.get(job.id)).state is State.SUCCEEDED


# Jobs whose claims the store has forgotten


@pytest.mark.parametrize("statement", ["signals_for", "elect", "beat"])
@in_virtual_time
async def test_a_job_whose_claim_is_gone_is_stopped_soon_after_trouble(statement: str) -> None:
    """A standby was promoted that lacked the last moments: another node may have the job.

    Whichever part of the node saw that the store was away, and be it the only one.
    """
    stage = Stage()
    ends: list[str] = []

    @stage.app.task
    async def long(name: str) -> None:
        try:
            await asyncio.sleep(3_000)
        except asyncio.CancelledError:
            ends.append(name)
            raise

    async with stage.node() as node:
        await long.enqueue("kept")
        lost = await long.enqueue("lost")
        await stage.until(lambda: len(stage.tables.running) == 2)
        await asyncio.sleep(10)
        stage.line.lose(statement)
        fence = stage.tables.running.pop(lost.id).fence
        before = stage.now
        await stage.until(lambda: ends)
        assert stage.now - before <= 15
        assert ends == ["lost"]
        (event,) = stage.told(HistoryLost)
        assert event.node == node.identity.incarnation
        assert [each.job_id for each in stage.told(ClaimWasLost)] == [lost.id]
        await asyncio.sleep(120)
        assert len(stage.told(HistoryLost)) == 1, "it is told once"
        assert stage.tables.fence > fence + EPOCH - 1, "no number is given again"
        assert ends == ["lost"]


@in_virtual_time
async def test_a_node_that_was_declared_dead_accuses_nobody() -> None:
    stage = Stage()

    @stage.app.task
    async def long() -> None:
        await asyncio.sleep(3_000)

    async with stage.node(reconcile_interval=timedelta(seconds=1)) as node:
        await long.enqueue()
        await stage.until(lambda: stage.tables.running)
        await stage.store.declare_dead([node.identity.incarnation], "a test")
        stage.tables.running.clear()
        await stage.until(lambda: stage.told(NodeFenced))
    assert stage.told(HistoryLost) == []


@in_virtual_time
async def test_a_job_that_has_committed_its_own_end_is_not_stopped() -> None:
    """Its claim has gone with the commit, and it goes on to its last line."""
    stage = Stage()

    @stage.app.task
    async def work(ctx: JobContext) -> None:
        async with ctx.transaction():
            pass
        await asyncio.sleep(30)

    async with stage.node(reconcile_interval=timedelta(seconds=1)):
        job = await work.enqueue()
        await job.result(timeout=60)
        await asyncio.sleep(40)
    assert stage.line.count("claims_of") > 20
    assert stage.told(HistoryLost) == []
    assert stage.told(ClaimWasLost) == []


@in_virtual_time
async def test_ends_of_the_new_life_are_not_written_in_the_name_of_the_old() -> None:
    stage = Stage()

    @stage.app.task
    async def work(number: int) -> int:
        await asyncio.sleep(1)
        return number

    async with stage.node():
        # A write of the first life hangs on until long after the second has begun.
        writing = stage.line.hold("finish_jobs")
        await work.enqueue(1)
        await stage.until(lambda: stage.line.count("finish_jobs"))
        declare_dead(stage)
        await stage.until(lambda: stage.told(NodeFenced))
        job = await work.options(unique="key").enqueue(2)
        await asyncio.sleep(5)
        writing.set()
        assert await job.result(timeout=5) == 2
        assert stage.told(ClaimsReconciled) == []
    assert [event for event in stage.told(ClaimWasLost) if event.job_id == job.id] == []


@in_virtual_time
async def test_what_the_old_life_said_takes_nothing_from_what_the_new_one_says() -> None:
    stage = Stage()

    @stage.app.task
    async def talk(ctx: JobContext, number: int) -> None:
        await ctx.progress(0.5)
        ctx.log.info("first")
        ctx.log.info("second")
        await asyncio.sleep(30 * number)

    async with stage.node() as node:
        writing = stage.line.hold("save_progress")
        await talk.enqueue(100)
        await stage.until(lambda: stage.line.count("save_progress"))
        declare_dead(stage)
        stage.tables.ready.clear()
        await stage.until(lambda: stage.told(NodeFenced))
        second = node.identity.incarnation
        job = await talk.enqueue(1)
        await asyncio.sleep(1)
        writing.set()
        await job.result(timeout=60)
        assert [line.message for line in await stage.app.jobs.log(job.id)] == ["first", "second"]
        said = [call for call in writes(stage) if call.args[0] == second]
        assert {entry.id for call in said for entry in call.args[1]} == {job.id}


@in_virtual_time
async def test_a_drain_does_not_wait_for_work_that_the_fence_has_taken_away() -> None:
    stage = Stage()

    @stage.app.task
    async def quick() -> None: ...

    async with stage.node(drain_timeout=timedelta(seconds=300)):
        await stage.until(lambda: stage.line.count("beat") >= 2)
        stage.line.lose("beat", times=None)
        stage.line.lose("finish_jobs", times=None)
        await quick.enqueue()
        await stage.until(lambda: stage.line.count("finish_jobs"))
        began = stage.now
    assert stage.now - began < 60
    assert len(stage.told(NodeFenced)) == 1


@in_virtual_time
async def test_comparing_takes_a_small_share_of_the_time() -> None:
    """The store may have to walk over many dead rows to find the claims of a node."""
    stage = Stage()
    async with stage.node(reconcile_interval=timedelta(seconds=1)):
        await asyncio.sleep(10)
        stage.line.latency = 0.05
        await asyncio.sleep(10)
        before = stage.line.count("claims_of")
        await asyncio.sleep(1_000)
        # It takes a tenth of a second there and back, so the pauses are 50 s long.
        assert 15 <= stage.line.count("claims_of") - before <= 21
        stage.line.latency = 0.0


@in_virtual_time
async def test_a_claim_that_is_made_after_its_caller_was_cut_off_is_found_within_seconds() -> None:
    """The server may still be at it when the node, on another connection, first compares."""
    stage = Stage()
    begun: list[float] = []

    @stage.app.task
    async def work() -> None:
        begun.append(stage.now)

    async with stage.node() as node:
        await stage.until(lambda: stage.line.count("claims_of") >= 1)
        looks = stage.line.count("claims_of")
        stage.line.lose("claim_jobs")
        await work.enqueue()
        await stage.until(lambda: stage.line.count("claims_of") > looks)
        # The node pauses before it asks again, so this is the claim that it knows nothing of.
        assert await stage.store.claim_jobs(claim_request(node.identity.incarnation))
        late = stage.now
        await stage.until(lambda: begun, 120)
        assert begun[0] - late < 10
        assert stage.told(ClaimsReconciled)
