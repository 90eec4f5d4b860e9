"""If these fail, work that was done is done again, or one bad result spoils its neighbours'."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from detent import JobContext, JobFailed, Retry, State, StoreError
from detent.errors import ResultNotStored
from detent.events import ClaimWasLost, FinishGaveUp, NodeFenced, StoreRecovered, StoreTrouble
from detent.testing.simulation.stage import Stage
from detent.testing.simulation.store import Call
from detent.testing.virtual import in_virtual_time

ENDS = ("finish_jobs", "settle_jobs", "finish_hooked")


def carries(text: bytes) -> Any:
    """Return a condition for calls that carry this in one of their results or errors."""

    def matches(call: Call) -> bool:
        return any(
            text in (end.result or b"") + (getattr(end, "error", None) or b"")
            for end in call.args[1]
        )

    return matches


@in_virtual_time
async def test_ends_are_written_as_soon_as_the_store_answers_again() -> None:
    stage, ran = Stage(), list[int]()

    @stage.app.task
    async def work(number: int) -> int:
        ran.append(number)
        return number

    async with stage.node():
        stage.line.lose("finish_jobs", times=4)
        jobs = [await work.enqueue(number) for number in range(20)]
        assert [await job.result(timeout=30) for job in jobs] == list(range(20))
        assert sorted(ran) == list(range(20)), "each ran once"
        where = [(type(event), event.where) for event in stage.events if hasattr(event, "where")]
        assert where == [(StoreTrouble, "finisher"), (StoreRecovered, "finisher")], "told once"
        assert stage.told(NodeFenced) == []


@pytest.mark.parametrize("statement", ENDS)
def test_an_end_whose_reply_was_lost_is_no_lost_claim(statement: str) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task(retry=Retry(max_attempts=1))
        async def work(fails: bool) -> str:
            if fails:
                raise ValueError
            return "done"

        async with stage.node():
            stage.line.lose(statement, reply=True)
            unique = "key" if statement == "finish_hooked" else None
            job = await work.options(unique=unique).enqueue(statement == "settle_jobs")
            await asyncio.sleep(30)
            state = (await stage.app.jobs.get(job.id)).state
            assert state is (State.FAILED if statement == "settle_jobs" else State.SUCCEEDED)
            assert stage.line.count(statement) == 2
            assert stage.told(ClaimWasLost) == []

    test()


@in_virtual_time
async def test_neither_is_one_of_a_job_that_went_back() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=2, delay=timedelta(seconds=5)))
    async def flaky(ctx: JobContext) -> int:
        if ctx.attempt == 1:
            raise OSError
        return ctx.attempt

    @stage.app.task
    async def quick() -> None: ...

    async with stage.node():
        stage.line.lose("settle_jobs", reply=True)
        job = await flaky.enqueue()
        await stage.until(lambda: stage.line.count("settle_jobs"))
        # An end that is written meanwhile does not make the other one any surer.
        await quick.enqueue()
        assert await job.result(timeout=60) == 2
        assert stage.line.count("settle_jobs") == 2
        assert stage.told(ClaimWasLost) == []


@in_virtual_time
async def test_a_claim_that_is_really_lost_is_told() -> None:
    stage = Stage()

    @stage.app.task
    async def work(ctx: JobContext) -> int:
        await asyncio.sleep(5)
        return ctx.fence

    async with stage.node() as node:
        job = await work.enqueue()
        await stage.until(lambda: stage.tables.running)
        node_id = node.identity.incarnation
        # Somebody gave it back, although the node is alive.
        claims = await stage.store.claims_of(node_id)
        await stage.store.release_claims(node_id, claims)
        fence = claims[0][1]
        assert await job.result(timeout=60) > fence
        (event,) = stage.told(ClaimWasLost)
        assert (event.job_id, event.node) == (job.id, node_id)


@in_virtual_time
async def test_one_result_that_the_store_refuses_does_not_harm_the_others() -> None:
    stage = Stage()

    @stage.app.task
    async def work(number: int) -> str:
        return f"result {number}."

    stage.line.lose("finish_jobs", times=None, error=StoreError("bad"), matching=carries(b" 7."))
    async with stage.node():
        writing = stage.line.hold("finish_jobs")
        jobs = [await work.enqueue(number) for number in range(50)]
        await asyncio.sleep(1)
        writing.set()
        with pytest.raises(ResultNotStored, match="the store refused it"):
            await jobs.pop(7).result(timeout=30)
        results = [await job.result(timeout=30) for job in jobs]
    expected = [f"result {number}." for number in range(50) if number != 7]
    assert results == expected, "that one succeeded too, without its result"
    assert stage.told(FinishGaveUp) == []


@in_virtual_time
async def test_one_error_that_the_store_refuses_is_left_out() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def work() -> None:
        raise ValueError("poison")

    stage.line.lose("settle_jobs", times=None, error=StoreError("bad"), matching=carries(b"poison"))
    async with stage.node():
        job = await work.enqueue()
        with pytest.raises(JobFailed) as caught:
            await job.result(timeout=30)
    assert caught.value.error is None


@in_virtual_time
async def test_an_end_that_cannot_be_written_at_all_is_given_up_and_told() -> None:
    stage = Stage()

    @stage.app.task
    async def work(number: int) -> None: ...

    async with stage.node() as node:
        stage.line.lose("finish_jobs", times=None, error=StoreError("never"))
        job = await work.enqueue(1)
        await stage.until(lambda: stage.told(FinishGaveUp))
        assert stage.told(FinishGaveUp)[0].job_id == job.id
        await stage.until(lambda: node.busy == 0)
        stage.line.heal()
        # The claim, of which the node knows nothing any more, goes back and is run again.
        await job.result(timeout=120)


@in_virtual_time
async def test_trouble_while_a_batch_is_being_split_loses_no_end() -> None:
    stage = Stage()

    @stage.app.task
    async def work(number: int) -> str:
        return f"result {number}."

    stage.line.lose("finish_jobs", times=None, error=StoreError("bad"), matching=carries(b" 3."))
    async with stage.node() as node:
        writing = stage.line.hold("finish_jobs")
        jobs = [await work.enqueue(number) for number in range(9)]
        await asyncio.sleep(1)
        # The whole batch is refused; then the first half gets no answer.
        stage.line.lose("finish_jobs", matching=lambda call: len(call.args[1]) == 4)
        writing.set()
        with pytest.raises(ResultNotStored, match="the store refused it"):
            await jobs[3].result(timeout=30)
        for number, job in enumerate(jobs):
            if number != 3:
                assert await job.result(timeout=30) == f"result {number}."
        await stage.until(lambda: not node._crew.dispatcher.held)


@in_virtual_time
async def test_no_end_is_forgotten_when_asking_about_a_lost_one_fails() -> None:
    stage = Stage()

    @stage.app.task
    async def work(number: int) -> int:
        return number

    async with stage.node() as node:
        stage.line.lose("finish_jobs", reply=True)
        stage.line.lose("ended", times=3)
        jobs = [await work.enqueue(number) for number in range(5)]
        await stage.until(lambda: len(stage.tables.outcome) == 5)
        await asyncio.sleep(30)
        assert not node._crew.dispatcher.held
        assert [await job.result() for job in jobs] == list(range(5))


def test_a_node_that_cannot_write_takes_on_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detent._engine.finish.BACKLOG", 100)

    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task
        async def work() -> None: ...

        async with stage.node(concurrency=10) as node:
            stage.line.lose("finish_jobs", times=None)
            await stage.app.enqueue_many([work.bind() for _ in range(300)])
            await asyncio.sleep(5)
            assert 100 <= len(node._crew.dispatcher.held) <= 120
            stage.line.heal()
            await stage.until(lambda: len(stage.tables.outcome) == 300)

    test()


@in_virtual_time
async def test_a_retry_is_planned_without_waiting_for_a_poll() -> None:
    stage, starts = Stage(wakeups=False), list[float]()

    @stage.app.task(retry=Retry(max_attempts=2, delay=timedelta(seconds=3.3), jitter=False))
    async def flaky() -> None:
        starts.append(stage.now)
        raise OSError

    async with stage.node():
        await flaky.enqueue()
        await stage.until(lambda: len(starts) == 2)
    assert starts[1] - starts[0] == pytest.approx(3.3, abs=0.05)
