"""If these fail, a batch loses a job, keeps one that is not its own, or lets jobs wait too long."""

import asyncio
import gc
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from detent import (
    BatchItem,
    ConfigError,
    Depends,
    DetentError,
    Fail,
    InvalidArguments,
    Job,
    JobCanceled,
    JobContext,
    JobFailed,
    Rate,
    Retry,
    State,
)
from detent.config import Config, NodeConfig
from detent.events import (
    ClaimWasLost,
    JobRetrying,
    JobSnoozed,
    JobStarted,
    JobSucceeded,
    StuckThread,
)
from detent.model.access import Action, Target
from detent.model.outcome import Ending, Outcome
from detent.principal import acting_as, current_principal
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time
from tests.unit.apps import app_in_memory

SECOND = timedelta(seconds=1)
ONCE = Retry(max_attempts=1)
STEADY = Retry(max_attempts=3, delay=10 * SECOND, jitter=False)


async def result_of(job: Job[Any]) -> Any:
    return await job.result(timeout=600)


def flat(batches: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for batch in batches for value in batch]


# Gathering


@in_virtual_time
async def test_a_backlog_is_run_in_full_batches_without_waiting() -> None:
    stage, batches = Stage(), list[list[int]]()

    @stage.app.task(batch=100, linger=30)
    async def index(items: list[BatchItem[int]]) -> list[int]:
        batches.append([item.value for item in items])
        return [item.value * 2 for item in items]

    jobs = await stage.app.enqueue_many([index.bind(number) for number in range(300)])
    begun = stage.now
    async with stage.node(queues={"default": 2}):
        results = [await job.result(timeout=60) for job in jobs]
    assert [len(batch) for batch in batches] == [100, 100, 100]
    assert results == [number * 2 for number in range(300)]
    assert sorted(flat(batches)) == list(range(300))
    assert stage.now - begun < 5, "a full batch waits for nobody"
    assert len(stage.told(JobSucceeded)) == len(stage.told(JobStarted)) == 300


@in_virtual_time
async def test_the_first_waits_for_others_as_long_as_it_may_linger() -> None:
    stage, calls = Stage(), list[tuple[float, int]]()

    @stage.app.task(batch=100, linger=5.0)
    async def index(items: list[BatchItem[str]]) -> None:
        calls.append((stage.now, len(items)))

    async with stage.node():
        first = await index.enqueue("a")
        begun = stage.now
        await asyncio.sleep(2)
        second = await index.enqueue("b")
        await first.result(timeout=60)
        await second.result(timeout=60)
    ((at, count),) = calls
    assert count == 2
    assert at - begun == pytest.approx(5, abs=0.2), "counted from the first"


@in_virtual_time
async def test_with_no_linger_a_batch_is_what_came_together() -> None:
    stage, sizes = Stage(), list[int]()

    @stage.app.task(batch=10, linger=0)
    async def index(items: list[BatchItem[int]]) -> None:
        sizes.append(len(items))

    async with stage.node():
        jobs = await stage.app.enqueue_many([index.bind(number) for number in range(3)])
        for job in jobs:
            await job.result(timeout=60)
    assert sum(sizes) == 3


@in_virtual_time
async def test_a_batch_takes_one_slot_and_those_that_gather_none() -> None:
    stage, ordinary = Stage(), list[str]()
    free = asyncio.Event()

    @stage.app.task(batch=50, linger=0.1)
    async def index(items: list[BatchItem[int]]) -> None:
        await free.wait()

    @stage.app.task
    async def single() -> None:
        ordinary.append("ran")

    async with stage.node(queues={"default": 2}) as node:
        jobs = await stage.app.enqueue_many([index.bind(number) for number in range(20)])
        await stage.until(lambda: node.busy == 1)
        assert len(node._crew.dispatcher.held) == 20
        await (await single.enqueue()).result(timeout=60)
        assert node.busy == 1
        assert ordinary == ["ran"]
        # Both slots are taken: what is gathered now waits for one.
        more = await stage.app.enqueue_many([index.bind(number) for number in range(60)])
        await stage.until(lambda: node.busy == 2)
        await asyncio.sleep(30)
        assert node.busy == 2
        assert len(node._crew.dispatcher.held) <= 20 + 50 + 50
        free.set()
        for job in [*jobs, *more]:
            await job.result(timeout=60)
    assert not node._crew.dispatcher.held


@in_virtual_time
async def test_tasks_and_queues_do_not_mix() -> None:
    stage, calls = Stage(), list[tuple[str, str, list[int]]]()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        calls.append(("index", items[0].ctx.queue, [item.value for item in items]))

    @stage.app.task(batch=10, linger=1)
    async def remove(items: list[BatchItem[int]]) -> None:
        calls.append(("remove", items[0].ctx.queue, [item.value for item in items]))

    async with stage.node(queues={"default": 5, "other": 5}):
        jobs = [await index.enqueue(1), await remove.enqueue(2), await index.enqueue(3)]
        jobs.append(await index.options(queue="other").enqueue(4))
        for job in jobs:
            await job.result(timeout=60)
    assert sorted(calls) == [
        ("index", "default", [1, 3]),
        ("index", "other", [4]),
        ("remove", "default", [2]),
    ]


async def processor_time(batch: int | None) -> float:
    """Return what it took to run some jobs, whatever else the machine was doing."""
    app, done, seen = app_in_memory(), asyncio.Event(), list[int]()

    def count(number: int) -> None:
        seen.append(number)
        if sum(seen) == 1_000:
            done.set()

    async def single(number: int) -> None:
        count(1)

    async def batched(items: list[BatchItem[int]]) -> None:
        count(len(items))

    task: Any = app.task(batch=batch)(batched) if batch else app.task(single)
    async with app:
        await app.enqueue_many([task.bind(number) for number in range(1_000)])
        gc.collect()  # the rubbish of other tests is not of this one's making
        begun = time.process_time()
        async with app.node():
            await asyncio.wait_for(done.wait(), 60)
        return time.process_time() - begun


async def test_a_batch_costs_less_than_its_jobs_one_by_one() -> None:
    alone, together = list[float](), list[float]()
    for _ in range(4):
        alone.append(await processor_time(None))
        together.append(await processor_time(100))
    # The best of each: whatever else happens in this process makes some of them slower.
    assert min(together) < min(alone)


# Outcomes


@in_virtual_time
async def test_every_item_has_an_outcome_of_its_own() -> None:
    stage, seen = Stage(), list[list[tuple[str, int]]]()

    @stage.app.task(batch=10, linger=1, retry=STEADY)
    async def index(items: list[BatchItem[str]]) -> list[str]:
        seen.append([(item.value, item.ctx.attempt) for item in items])
        for item in items:
            match item.value, item.ctx.attempt:
                case "flaky", 1:
                    item.fail(OSError("not yet"))
                case "hopeless", _:
                    item.fail(Fail("never"))
                case "later", 1:
                    item.retry_after(timedelta(seconds=30))
                case "sleepy", 1 if stage.now < first_at + 20:
                    item.snooze(timedelta(seconds=40))
                case "own", _:
                    item.succeed("of its own")
        return [f"{item.value} done" for item in items]

    first_at = stage.now
    async with stage.node():
        names = ("plain", "flaky", "hopeless", "later", "sleepy", "own")
        jobs = {name: await index.enqueue(name) for name in names}
        with pytest.raises(JobFailed, match="never"):
            await jobs["hopeless"].result(timeout=300)
        results = {
            name: await job.result(timeout=300) for name, job in jobs.items() if name != "hopeless"
        }
    assert results == {
        "plain": "plain done",
        "flaky": "flaky done",
        "later": "later done",
        "sleepy": "sleepy done",
        "own": "of its own",
    }
    assert len(seen[0]) == 6
    assert sorted(flat(seen[1:])) == [("flaky", 2), ("later", 2), ("sleepy", 1)]
    assert [event.delay for event in stage.told(JobRetrying)] == [10, 30]
    assert [event.delay for event in stage.told(JobSnoozed)] == [40]


@in_virtual_time
async def test_an_error_is_that_of_all_but_those_that_were_decided() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1, retry=ONCE)
    async def index(items: list[BatchItem[int]]) -> None:
        items[0].succeed("saved")
        raise OSError("the index is gone")

    async with stage.node():
        jobs = [await index.enqueue(number) for number in range(3)]
        assert await result_of(jobs[0]) == "saved"
        for job in jobs[1:]:
            with pytest.raises(JobFailed, match="the index is gone"):
                await job.result(timeout=60)


@pytest.mark.parametrize(
    "returned, words",
    [
        ([1], "index() returned 1 results for 2 items"),
        ("ab", "must return None or a list of results, not 'ab'"),
        (7, "must return None or a list of results, not 7"),
    ],
)
@in_virtual_time
async def test_results_that_do_not_fit_fail_all(returned: Any, words: str) -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1, retry=ONCE, name="index")
    async def index(items: list[BatchItem[int]]) -> list[int]:
        return returned  # type: ignore[no-any-return]

    async with stage.node():
        for job in [await index.enqueue(1), await index.enqueue(2)]:
            with pytest.raises(JobFailed) as caught:
                await job.result(timeout=60)
            assert words in str(caught.value)


@in_virtual_time
async def test_results_belong_to_the_items_in_their_places() -> None:
    """Also when the function has sorted its list; when it has emptied it, nobody can know."""
    stage = Stage()

    @stage.app.task(batch=10, linger=1, retry=ONCE)
    async def sorting(items: list[BatchItem[int]]) -> list[int]:
        items.sort(key=lambda item: -item.value)
        return [item.value for item in items]

    @stage.app.task(batch=10, linger=1, retry=ONCE)
    async def emptying(items: list[BatchItem[int]]) -> list[int]:
        return [items.pop().value for _ in range(len(items))]

    async with stage.node():
        jobs = [await sorting.enqueue(number) for number in range(5)]
        assert [await result_of(job) for job in jobs] == list(range(5))
        jobs = [await emptying.enqueue(number) for number in range(5)]
        for job in jobs:
            with pytest.raises(JobFailed, match=r"changed the list .* use item\.succeed\(result\)"):
                await result_of(job)


@in_virtual_time
async def test_arguments_that_no_longer_fit_fail_one_job_only() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1, name="index")
    async def index(items: list[BatchItem[int]]) -> None:
        assert [item.value for item in items] == [1, 2]

    async with stage.node():
        good = await index.enqueue(1)
        other = stage.new_app()

        @other.task(name="index")
        async def older(number: int, more: str) -> None: ...

        bad = await older.enqueue(1, "x")

        @stage.new_app().task(name="index")
        async def single(number: int) -> None: ...

        # A task that was not for batches before: its one argument had a name.
        renamed = await single.enqueue(2)
        await good.result(timeout=60)
        await renamed.result(timeout=60)
        with pytest.raises(JobFailed, match="the arguments no longer fit the task"):
            await bad.result(timeout=60)


@in_virtual_time
async def test_a_result_that_cannot_be_stored_is_one_items_trouble() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1, retry=ONCE, strict_result=True)
    async def index(items: list[BatchItem[int]]) -> list[object]:
        return [item.value if item.value else object() for item in items]

    async with stage.node():
        jobs = [await index.enqueue(number) for number in range(3)]
        assert [await job.result(timeout=60) for job in jobs[1:]] == [1, 2]
        with pytest.raises(JobFailed, match="cannot be stored"):
            await jobs[0].result(timeout=60)


# Stopping


@in_virtual_time
async def test_a_canceled_item_is_ignored_and_the_others_go_on() -> None:
    stage, canceled = Stage(), list[list[bool]]()
    begun, free = asyncio.Event(), asyncio.Event()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> list[int]:
        begun.set()
        await free.wait()
        canceled.append([item.canceled for item in items])
        return [item.value for item in items]

    async with stage.node():
        jobs = [await index.enqueue(number) for number in range(3)]
        await begun.wait()
        await jobs[1].cancel(reason="enough")
        await asyncio.sleep(5)
        free.set()
        assert [await job.result(timeout=60) for job in (jobs[0], jobs[2])] == [0, 2]
        with pytest.raises(JobCanceled, match="enough"):
            await jobs[1].result(timeout=60)
    assert canceled == [[False, True, False]]


@in_virtual_time
async def test_when_all_are_canceled_the_call_is() -> None:
    stage, ended = Stage(), list[str]()
    begun = asyncio.Event()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")

    async with stage.node() as node:
        jobs = [await index.enqueue(number) for number in range(2)]
        await begun.wait()
        for job in jobs:
            await job.cancel()
        await stage.until(lambda: not node._crew.dispatcher.held)
        assert [(await job.info()).state for job in jobs] == [State.CANCELED] * 2
    assert ended == ["stopped"]


@in_virtual_time
async def test_one_that_is_canceled_while_it_gathers_is_never_run() -> None:
    stage, seen = Stage(), list[list[int]]()

    @stage.app.task(batch=10, linger=50)
    async def index(items: list[BatchItem[int]]) -> None:
        seen.append([item.value for item in items])

    async with stage.node() as node:
        jobs = [await index.enqueue(number) for number in range(2)]
        await stage.until(lambda: len(node._crew.dispatcher.held) == 2)
        await jobs[0].cancel()
        with pytest.raises(JobCanceled):
            await jobs[0].result(timeout=5)
        await jobs[1].result(timeout=60)
    assert seen == [[1]]


@in_virtual_time
async def test_a_timeout_is_that_of_the_call_but_spares_what_was_decided() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1, timeout=20, retry=ONCE)
    async def index(items: list[BatchItem[int]]) -> None:
        items[0].succeed("in time")
        await asyncio.sleep(300)

    async with stage.node():
        jobs = [await index.enqueue(number) for number in range(2)]
        own = await index.options(timeout=5).enqueue(2)
        with pytest.raises(JobFailed, match="took longer than 5"):
            await own.result(timeout=400)
        assert await result_of(jobs[0]) == "in time"
        with pytest.raises(JobFailed, match="took longer than 20"):
            await jobs[1].result(timeout=400)


@in_virtual_time
async def test_draining_gives_back_what_gathers_at_once() -> None:
    """It has not begun: another node can begin it while this one waits for what runs."""
    stage, seen = Stage(), list[int]()

    @stage.app.task(batch=10, linger=50)
    async def index(items: list[BatchItem[int]]) -> None:
        seen.extend(item.value for item in items)

    @stage.app.task
    async def long() -> None:
        await asyncio.sleep(20)

    async with stage.node() as node:
        await long.enqueue()
        jobs = [await index.enqueue(number) for number in range(3)]
        await stage.until(lambda: len(node._crew.dispatcher.held) == 4)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(0.1)
        infos = [await job.info() for job in jobs]
        assert [(info.state, info.attempt) for info in infos] == [(State.PENDING, 1)] * 3
        await draining
    assert seen == []


@in_virtual_time
async def test_draining_gives_back_what_has_no_slot() -> None:
    stage, free = Stage(), asyncio.Event()

    @stage.app.task(batch=2, linger=0.1)
    async def index(items: list[BatchItem[int]]) -> None:
        await free.wait()

    async with stage.node(queues={"default": 1}) as node:
        jobs = await stage.app.enqueue_many([index.bind(number) for number in range(2)])
        await stage.until(lambda: node.busy == 1)
        more = await index.enqueue(7)
        await asyncio.sleep(5)
        draining = asyncio.ensure_future(node.drain())
        await asyncio.sleep(1)
        assert (await more.info()).state is State.PENDING
        free.set()
        await draining
    assert {(await job.info()).state for job in jobs} == {State.SUCCEEDED}


@in_virtual_time
async def test_a_drain_that_cannot_wait_gives_the_batch_back_uncharged() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        if len(items) == 2:
            await asyncio.Event().wait()

    async with stage.node(drain_timeout=timedelta(seconds=2)) as node:
        jobs = [await index.enqueue(number) for number in range(2)]
        await stage.until(lambda: node.busy == 1)
    infos = [await job.info() for job in jobs]
    assert [(info.state, info.attempt) for info in infos] == [(State.PENDING, 1)] * 2


@in_virtual_time
async def test_a_lost_lease_drops_all_and_nothing_is_written_twice() -> None:
    stage, runs = Stage(), list[list[int]]()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> list[int]:
        runs.append([item.value for item in items])
        if len(runs) == 1:
            await asyncio.Event().wait()
        return [item.ctx.fence for item in items]

    async with stage.node() as node:
        jobs = [await index.enqueue(number) for number in range(3)]
        waiting = await index.options(delay=timedelta(seconds=2)).enqueue(3)
        await stage.until(lambda: node.busy == 1)
        old = node.identity.incarnation
        await stage.store.declare_dead([old], "for the test")
        await stage.until(lambda: node.identity.incarnation != old, 120)
        fences = [await job.result(timeout=300) for job in [*jobs, waiting]]
    assert runs[0] == [0, 1, 2]
    assert sorted(flat(runs[1:])) == [0, 1, 2, 3]
    assert all(fence > 1 for fence in fences[:3])


@in_virtual_time
async def test_an_item_whose_claim_was_lost_is_refused_on_its_own() -> None:
    stage, free = Stage(), asyncio.Event()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> list[int]:
        if len(items) == 3:
            await free.wait()
        return [item.ctx.fence for item in items]

    async with stage.node() as node:
        jobs = [await index.enqueue(number) for number in range(3)]
        await stage.until(lambda: node.busy == 1)
        lost = node._crew.dispatcher.held[jobs[1].id].claim
        await stage.store.release_claims(node.identity.incarnation, [(lost.id, lost.fence)])
        free.set()
        results = [await job.result(timeout=300) for job in jobs]
    assert results[1] > lost.fence, "it ran again under another claim"
    assert [event.job_id for event in stage.told(ClaimWasLost)] == [jobs[1].id]


@in_virtual_time
async def test_a_store_that_cannot_load_arguments_charges_nothing() -> None:
    stage = Stage(Config(node=NodeConfig(inline_args=10)))

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[str]]) -> list[int]:
        return [len(item.value) for item in items]

    stage.line.lose("load_args", times=1)
    async with stage.node():
        jobs = [await index.enqueue("x" * 100), await index.enqueue("y" * 200)]
        assert [await job.result(timeout=60) for job in jobs] == [100, 200]
        assert {(await job.info()).attempt for job in jobs} == {1}


# Around the call


@in_virtual_time
async def test_limits_count_the_jobs_of_a_batch_and_not_the_call() -> None:
    stage = Stage()
    together = dict[str, list[list[int]]](all=[], keyed=[])
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def work(name: str, items: list[BatchItem[int]]) -> None:
        together[name].append([item.value for item in items])
        keys = [f"{name}:{item.value % 3 if name == 'keyed' else ''}" for item in items]
        running.update(keys)
        most.update({key: max(0, running[key] - most[key]) for key in keys})
        await asyncio.sleep(1)
        running.subtract(keys)

    @stage.app.task(batch=10, linger=0.1, concurrency=4)
    async def limited(items: list[BatchItem[int]]) -> None:
        await work("all", items)

    @stage.app.task(batch=10, linger=0.1, concurrency=1, concurrency_key=lambda item: item % 3)
    async def keyed(items: list[BatchItem[int]]) -> None:
        await work("keyed", items)

    async with stage.node():
        calls = [task.bind(number) for number in range(12) for task in (limited, keyed)]
        for job in await stage.app.enqueue_many(calls):
            await result_of(job)
    assert sorted(flat(together["all"])) == sorted(flat(together["keyed"])) == list(range(12))
    assert most == {"all:": 4, "keyed:0": 1, "keyed:1": 1, "keyed:2": 1}
    for key in range(3):
        ran = [value for value in flat(together["keyed"]) if value % 3 == key]
        assert ran == sorted(ran), "one after the other, in the order of their enqueues"
    assert max(map(len, together["all"])) == 4, "and as many as are allowed go together"
    assert max(map(len, together["keyed"])) == 3


@in_virtual_time
async def test_under_a_rate_batches_are_as_full_as_it_lets_them_be() -> None:
    stage, sizes = Stage(), []

    @stage.app.task(name="index", batch=50, linger=0.05, rate=Rate(1_000, burst=100))
    async def index(items: list[BatchItem[int]]) -> None:
        sizes.append(len(items))

    jobs = await stage.app.enqueue_many([index.bind(number) for number in range(200)])
    async with stage.app.node(concurrency=2):
        for job in jobs:
            await job.result(timeout=10)
    assert sizes[:2] == [50, 50], sizes
    assert len(sizes) <= 8, sizes


@in_virtual_time
async def test_dependencies_and_middleware_stand_around_the_call_once() -> None:
    stage, steps = Stage(), list[str]()

    def session() -> Iterator[str]:
        steps.append("open")
        yield "session"
        steps.append("close")

    async def around(ctx: JobContext, proceed: Any) -> Any:
        steps.append("before")
        value = await proceed()
        steps.append("after")
        return value

    @stage.app.task(batch=10, linger=1, middleware=[around])
    async def index(items: list[BatchItem[int]], session: str = Depends(session)) -> list[str]:
        steps.append(f"{session} for {len(items)}")
        return [session for _ in items]

    async with stage.node():
        jobs = [await index.enqueue(number) for number in range(3)]
        assert {await job.result(timeout=60) for job in jobs} == {"session"}
    assert steps == ["before", "open", "session for 3", "close", "after"]


@in_virtual_time
async def test_items_have_contexts_of_their_own() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        for item in items:
            message = f"number {item.value}"
            item.ctx.log.info(message)
            await item.ctx.progress(0.5)
        with pytest.raises(DetentError, match="outside of a job"):
            JobContext.current()

    async with stage.node():
        jobs = [await index.options(tags=[f"t{number}"]).enqueue(number) for number in range(2)]
        for job in jobs:
            await job.result(timeout=60)
    for number, job in enumerate(jobs):
        lines = await stage.app.jobs.log(job.id)
        assert [line.message for line in lines] == [f"number {number}"]


@in_virtual_time
async def test_guards_are_asked_and_told_about_each_item() -> None:
    stage, told = Stage(), list[tuple[int, str]]()

    class Even:
        """Lets only every second job pass, and wants to know how it went."""

        async def admit(self, attempt: Any, task: Any) -> Outcome | None:
            if int(attempt.tags()[0]) % 2:
                return Outcome(Ending.FAILED, PermissionError("odd"), retryable=False)
            return None

        def ended(self, attempt: Any, outcome: Outcome) -> None:
            told.append((int(attempt.tags()[0]), str(outcome.ending)))

    stage.app._guard_makers.append(lambda _config: Even())

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        items[1].fail(Fail("the second"))

    async with stage.node():
        jobs = [await index.options(tags=[str(number)]).enqueue(number) for number in range(4)]
        await jobs[0].result(timeout=60)
        for number, words in ((1, "odd"), (2, "the second"), (3, "odd")):
            with pytest.raises(JobFailed, match=words):
                await jobs[number].result(timeout=60)
    assert sorted(told) == [(0, "succeeded"), (2, "failed")]


@in_virtual_time
async def test_a_node_counts_jobs_and_not_calls() -> None:
    stage = Stage()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None: ...

    async with stage.node() as node:
        jobs = [await index.enqueue(number) for number in range(7)]
        for job in jobs:
            await job.result(timeout=60)
        assert node._crew.dispatcher.ended == 7


@in_virtual_time
async def test_what_a_call_enqueues_is_in_the_name_of_all_its_jobs() -> None:
    stage, names = Stage(), list[str | None]()

    @stage.app.task(batch=10, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        names.append(current_principal())

    async with stage.node():
        with acting_as("ada"):
            jobs = [await index.enqueue(number) for number in range(2)]
        for job in jobs:
            await job.result(timeout=60)
        with acting_as("ada"):
            jobs = [await index.enqueue(1)]
        jobs.append(await index.enqueue(2))
        for job in jobs:
            await job.result(timeout=60)
    assert names == ["ada", None]


async def test_a_batch_on_a_thread() -> None:
    app = app_in_memory()
    names = list[str]()

    @app.task(batch=10, linger=0.01)
    def index(items: list[BatchItem[int]]) -> list[int]:
        names.append(threading.current_thread().name)
        items[0].fail(Fail("the first"))
        return [item.value for item in items]

    async with app, app.node():
        jobs = await app.enqueue_many([index.bind(number) for number in range(3)])
        results = await asyncio.gather(
            *(job.result(timeout=10) for job in jobs), return_exceptions=True
        )
    failures = [result for result in results if isinstance(result, JobFailed)]
    assert len(failures) == len(names)
    assert all("detent-job" in name for name in names)


async def test_a_stuck_thread_keeps_the_slot_of_its_batch() -> None:
    app = app_in_memory(concurrency=1, drain_timeout=timedelta(0))
    free, told = threading.Event(), asyncio.Event()
    app.on(StuckThread, lambda event: told.set())

    @app.task(batch=2, linger=0.01, timeout=0.05, retry=ONCE)
    def index(items: list[BatchItem[int]]) -> None:
        assert free.wait(10)

    @app.task
    async def single() -> str:
        return "ran"

    async with app, app.node() as node:
        jobs = await app.enqueue_many([index.bind(number) for number in range(2)])
        for job in jobs:
            with pytest.raises(JobFailed, match="took longer"):
                await job.result(timeout=10)
        await asyncio.wait_for(told.wait(), 10)
        waiting = await single.enqueue()
        assert node._node is not None
        assert node._node.busy == 1
        free.set()
        assert await waiting.result(timeout=10) == "ran"


@in_virtual_time
async def test_a_method_may_be_a_batch_task() -> None:
    stage = Stage()

    class Index:
        def __init__(self) -> None:
            self.count = 0

        @stage.app.task(batch=10, linger=1)
        async def add(self, items: list[BatchItem[str]]) -> list[int]:
            self.count += len(items)
            return [self.count for _ in items]

    async with stage.node():
        jobs = [await Index.add.enqueue("a"), await Index.add.enqueue("b")]
        assert [await job.result(timeout=60) for job in jobs] == [2, 2]


# Declaring, and by hand


def test_what_cannot_be_a_batch_is_refused_where_it_is_declared() -> None:
    app = app_in_memory()

    async def index(items: list[BatchItem[int]]) -> None: ...
    async def bare(items: list[int]) -> None: ...
    async def single(item: int) -> None: ...
    async def two(items: list[BatchItem[int]], more: int) -> None: ...
    async def with_context(ctx: JobContext, items: list[BatchItem[int]]) -> None: ...
    def tenant(ctx: JobContext) -> str:
        return str(ctx.job_id)

    async def dependent(items: list[BatchItem[int]], tenant: str = Depends(tenant)) -> None: ...

    declare: Any = app.task
    for options, function, words in (
        ({"batch": 0}, index, "batch = 0: must be from 1 to 1,000"),
        ({"batch": 1_001}, index, "batch = 1001"),
        ({"batch": "10"}, index, "batch = '10'"),
        ({"batch": True}, index, "batch = True: must be from 1 to 1,000"),
        ({"batch": 2, "linger": -1}, index, "linger = -1: must be from 0 to 0:01:00"),
        ({"batch": 2, "linger": 61}, index, "linger = 61: must be from 0 to 0:01:00"),
        ({"batch": 2, "linger": math.nan}, index, "linger = nan: must be a duration"),
        ({"batch": 2, "linger": True}, index, "linger = True: must be a duration"),
        ({"linger": 1}, single, "linger = 0:00:01: only a batch waits for others; give batch="),
        ({"batch": 2, "linger": "1x"}, index, "linger = '1x': must be a duration"),
        ({"batch": 2, "executor": "process"}, process_index, "executor = 'process': does not fit"),
        ({"batch": 2}, bare, r"must be a list\[BatchItem"),
        ({"batch": 2}, two, r"takes one list\[BatchItem\[\.\.\.\]\], not items, more"),
        ({"batch": 2}, with_context, "not ctx, items"),
        ({"batch": 2}, dependent, "tenant.* takes a JobContext, but a call of .* for many jobs"),
    ):
        with pytest.raises(ConfigError, match=words):
            declare(**options)(function)
    assert len(app.tasks) == 0


def process_index(items: list[BatchItem[int]]) -> None: ...


async def test_callers_pass_one_value_that_is_checked() -> None:
    app = app_in_memory()

    @app.task(batch=10)
    async def index(items: list[BatchItem[int]]) -> list[int]:
        return [item.value for item in items]

    wrong: Any = index
    for call in (lambda: wrong.enqueue("x"), lambda: wrong.enqueue(1, 2), wrong.enqueue):
        with pytest.raises(InvalidArguments):
            await call()
    items = [BatchItem(1), BatchItem(2)]
    assert await index(items) == [1, 2]
    items[0].snooze(SECOND)
    assert items[0].decided
    assert not items[1].decided
    assert not items[0].canceled
    with pytest.raises(DetentError, match="made by hand has no job"):
        _ = items[0].job_id
    with pytest.raises(TypeError, match="must be given an exception"):
        items[0].fail("bad")  # type: ignore[arg-type]
    await app.close()


# Before the call


def slow_to_judge(stage: Stage) -> tuple[asyncio.Event, asyncio.Event]:
    """Let a rule think about jobs tagged `slow`; return when it does so, and until when."""
    asked, answer = asyncio.Event(), asyncio.Event()

    @stage.app.authorize
    async def may(_principal: str | None, action: Action, target: Target) -> bool:
        if action is Action.EXECUTE and target.tags == ("slow",):
            asked.set()
            await answer.wait()
        return True

    return asked, answer


@in_virtual_time
async def test_no_time_runs_while_others_of_the_batch_are_being_admitted() -> None:
    stage = Stage()
    asked, answer = slow_to_judge(stage)

    @stage.app.task(batch=2, linger=1, timeout=timedelta(seconds=5), retry=ONCE)
    async def index(items: list[BatchItem[int]]) -> list[int]:
        await asyncio.sleep(1)
        return [item.value for item in items]

    jobs = [await index.enqueue(1), await index.options(tags=["slow"]).enqueue(2)]
    async with stage.node():
        await asked.wait()
        await asyncio.sleep(20)
        assert not stage.told(JobStarted)
        answer.set()
        assert [await result_of(job) for job in jobs] == [1, 2]


@pytest.mark.parametrize("canceled", [[0], [0, 1]], ids=["one", "all"])
@in_virtual_time
async def test_one_that_is_canceled_while_others_are_admitted_is_taken_out(
    canceled: list[int],
) -> None:
    stage, given = Stage(), list[list[int]]()
    asked, answer = slow_to_judge(stage)

    @stage.app.task(batch=2, linger=1)
    async def index(items: list[BatchItem[int]]) -> None:
        given.append([item.value for item in items])

    jobs = [await index.enqueue(1), await index.options(tags=["slow"]).enqueue(2)]
    async with stage.node():
        await asked.wait()
        for number in canceled:
            await jobs[number].cancel()
            with pytest.raises(TimeoutError):
                # The node hears of it, and there is nothing yet that could end.
                await stage.until(lambda: stage.told(JobSucceeded), limit=1)
        answer.set()
        for number, job in enumerate(jobs):
            if number in canceled:
                with pytest.raises(JobCanceled):
                    await result_of(job)
            else:
                await result_of(job)
    assert given == ([[2]] if len(canceled) == 1 else [])
