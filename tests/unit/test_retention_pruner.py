"""If these fail, tables grow for ever, or whoever cleans them up stands in everybody's way."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import Conflict, Fail, JobNotFound, State
from detent._engine.maintenance.prune import AIM, FIRST_PAGE, Pruner, page_after
from detent.config import Config, RetentionConfig
from detent.events import Bus, Pruned, StoreRecovered, StoreTrouble
from detent.spi.leadership import Term
from detent.spi.retention import PrunedPage, PruneRequest
from detent.stores.memory import MemoryStore
from detent.testing.conformance.builders import completion, new_job
from detent.testing.conformance.steps import claimed, joined
from detent.testing.simulation.history import listen_to_all
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import VirtualRuntime, in_virtual_time

WHILE = 300.0
INTERVAL = 30.0


def retaining(**settings: Any) -> Stage:
    settings.setdefault("interval", timedelta(seconds=INTERVAL))
    return Stage(Config(retention=RetentionConfig(**settings)))


async def finished(stage: Stage, count: int, queue: str = "default") -> list[UUID]:
    """Bring jobs to their end without a node."""
    jobs = [new_job(queue) for _ in range(count)]
    await stage.store.enqueue_jobs(jobs)
    node = await joined(stage.store, timedelta(days=9))
    while claims := await claimed(stage.store, node, queue):
        await stage.store.finish_jobs(node, [completion(claim) for claim in claims])
    return [job.id for job in jobs]


# ---------------------------------------------------------------- what a user sees


@in_virtual_time
async def test_a_job_stays_for_its_time_and_goes_soon_after() -> None:
    stage = retaining(succeeded="5m", failed="10m")

    @stage.app.task
    async def work(good: bool) -> None:
        if not good:
            raise Fail("no")

    async with stage.node():
        good, bad = await work.enqueue(good=True), await work.enqueue(good=False)
        await asyncio.sleep(WHILE - 1)
        assert (await good.info()).state is State.SUCCEEDED
        await asyncio.sleep(1 + INTERVAL)
        with pytest.raises(JobNotFound):
            await good.info()
        assert (await bad.info()).state is State.FAILED
        await asyncio.sleep(WHILE)
        with pytest.raises(JobNotFound):
            await bad.info()
    told = stage.told(Pruned)
    assert [(event.deleted, event.archived) for event in told] == [(1, 0), (1, 0)]


@in_virtual_time
async def test_an_archived_job_is_still_found_but_not_retried() -> None:
    stage = retaining(succeeded="5m archive", archive_keep="15m")

    @stage.app.task(queue="mail")
    async def work() -> str:
        return "done"

    jobs = stage.app.jobs
    async with stage.node(queues={"mail": 1}):
        job = await work.enqueue()
        await asyncio.sleep(WHILE + 2 * INTERVAL)
        info = await jobs.get(job.id)
        assert info.archived_at is not None
        assert await jobs.list() == []
        assert await jobs.list(archived=True) == [info]
        assert [found async for found in jobs.each(archived=True, queue="mail")] == [info]
        assert await job.result(timeout=1) == "done"
        with pytest.raises(Conflict, match="it is archived"):
            await jobs.retry(job.id)
        assert await jobs.retry_all(state=State.SUCCEEDED, archived=True) == 0
        await asyncio.sleep(3 * WHILE)
        assert await jobs.list(archived=True) == []
    assert [(event.archived, event.dropped) for event in stage.told(Pruned)] == [(1, 0), (0, 1)]


@in_virtual_time
async def test_the_archive_can_be_emptied_by_hand() -> None:
    stage = retaining(succeeded="0s archive", interval="1s")
    ids = await finished(stage, 3)
    async with stage.node():
        await stage.until(lambda: not stage.tables.outcome)
        jobs = stage.app.jobs
        await jobs.delete(ids[0])
        assert await jobs.delete_all(archived=True) == 2
        assert not stage.tables.archive


@in_virtual_time
async def test_expired_keys_go_with_their_jobs() -> None:
    stage = retaining(succeeded="5m")

    @stage.app.task
    async def work() -> None: ...

    async with stage.node():
        await work.options(key="order-1", key_ttl=timedelta(minutes=15)).enqueue()
        await asyncio.sleep(2 * WHILE)
        assert len(stage.tables.job) == 1, "whoever enqueues again is told of this job"
        await asyncio.sleep(WHILE + 2 * INTERVAL)
        assert not stage.tables.job
        assert not stage.tables.keys


# ---------------------------------------------------------------- how it goes about it


@in_virtual_time
async def test_it_rests_at_least_as_long_as_it_works() -> None:
    stage = retaining(succeeded="0s", page=10)
    await finished(stage, 300)
    stage.line.latency = 0.1  # there and back again: a page takes 0.2 s
    runtime = VirtualRuntime("pruner")
    bus = Bus()
    pruner = Pruner(runtime, bus, stage.store, stage.config.retention)
    await pruner.run_once()
    moments = []
    while stage.tables.outcome:
        moments.append(runtime.monotonic())
        rest = await pruner.run_once()
        assert rest >= runtime.monotonic() - moments[-1]
        await asyncio.sleep(rest)
    assert len(moments) > 10


@in_virtual_time
async def test_a_page_that_takes_long_is_followed_by_a_smaller_one() -> None:
    stage = retaining(succeeded="0s")
    await finished(stage, 1_000)
    sizes: list[int] = []
    slow = SlowStore(stage.store, per_job=0.001, sizes=sizes)
    pruner = Pruner(VirtualRuntime("pruner"), Bus(), slow, stage.config.retention)
    while stage.tables.outcome:
        await pruner.run_once()
    assert sizes[0] > 2 * AIM / 0.001
    assert sizes[-1] == pytest.approx(AIM / 0.001, rel=0.2)


class SlowStore(MemoryStore):
    """The store of a stage, where every job that goes takes its time."""

    def __init__(self, store: MemoryStore, per_job: float, sizes: list[int]) -> None:
        super().__init__()
        self._store, self._per_job, self._sizes = store, per_job, sizes

    async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
        page = await self._store.prune_jobs(request)
        await asyncio.sleep(self._per_job * (page.deleted + page.archived))
        if page.deleted:
            self._sizes.append(request.limit)
        return page


@given(
    size=st.integers(1, 10_000),
    took=st.floats(0, 100, allow_nan=False),
    largest=st.integers(1, 10_000),
)
def test_pages_stay_within_their_bounds(size: int, took: float, largest: int) -> None:
    following = page_after(size, took, largest)
    assert 1 <= following <= max(largest, 1)
    assert following <= 2 * size
    if took > AIM:
        assert following <= size
    assert following >= min(size // 2, largest)


@in_virtual_time
async def test_after_trouble_it_goes_on_where_it_was() -> None:
    stage = retaining(succeeded="0s", page=20)
    await finished(stage, 100)
    stage.line.lose("prune_jobs", reply=True, times=1)
    stage.line.lose("prune_jobs", times=2)
    async with stage.node():
        await stage.until(lambda: not stage.tables.outcome, limit=10 * INTERVAL)
        await stage.until(lambda: stage.told(Pruned), limit=INTERVAL)
    told = stage.told(StoreTrouble)
    assert [event.where for event in told if event.where == "pruner"]
    assert [event.where for event in stage.told(StoreRecovered)] == ["pruner"]
    # What went with the lost reply nobody counted.
    assert 60 <= stage.told(Pruned)[0].deleted <= 100


@in_virtual_time
async def test_a_node_that_finds_another_at_work_steps_back() -> None:
    class Busy(MemoryStore):
        asked = 0

        async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
            self.asked += 1
            return PrunedPage(busy=True, after=request.after)

        async def prune_archive(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
            raise AssertionError("the sweep is over")

    store = Busy()
    config = RetentionConfig(interval=timedelta(seconds=INTERVAL))
    pruner = Pruner(VirtualRuntime("pruner"), Bus(), store, config)
    await pruner.run_once()
    await pruner.run_once()  # keys
    assert await pruner.run_once() >= 0.8 * INTERVAL
    assert store.asked == 1


@in_virtual_time
async def test_a_job_that_cannot_go_is_told_of_and_stops_nothing() -> None:
    class Stubborn(MemoryStore):
        async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
            page = await super().prune_jobs(request)
            return page._replace(problem="job 42 could not be pruned: corrupt")

    bus, events = Bus(), list[Any]()
    listen_to_all(bus, events.append)
    pruner = Pruner(VirtualRuntime("pruner"), bus, Stubborn(), RetentionConfig())
    delays = [await pruner.run_once() for _ in range(6)]
    assert events == [StoreTrouble("pruner", "job 42 could not be pruned: corrupt", delays[-1])]


@in_virtual_time
async def test_a_sweep_that_finds_nothing_says_nothing_and_costs_little() -> None:
    stage = retaining()
    await finished(stage, 20)
    async with stage.node():
        await asyncio.sleep(20 * INTERVAL)
    assert stage.told(Pruned) == []
    assert 17 <= stage.line.count("prune_keys") <= 26, "about once an interval"
    assert stage.line.count("prune_jobs") <= 3 * stage.line.count("prune_keys")


@in_virtual_time
async def test_states_that_stay_for_ever_are_not_even_looked_at() -> None:
    stage = retaining(
        succeeded="forever", failed="forever", canceled="forever", archive_keep="forever"
    )
    async with stage.node():
        await asyncio.sleep(3 * INTERVAL)
    assert stage.line.count("prune_keys") >= 2
    assert stage.line.count("prune_jobs") == stage.line.count("prune_archive") == 0


@in_virtual_time
async def test_a_drain_does_not_wait_for_the_sweep() -> None:
    stage = retaining(succeeded="0s", page=1, interval="1s")
    await finished(stage, 500)
    stage.line.latency = 0.1
    async with stage.node() as node:
        await stage.until(lambda: len(stage.tables.outcome) < 499)
        began = stage.now
        await node.drain()
        assert stage.now - began < 5
    assert len(stage.tables.outcome) > 400


@in_virtual_time
async def test_several_nodes_share_the_work_and_count_each_job_once() -> None:
    stage = retaining(succeeded="0s", page=10, interval="2s")
    await finished(stage, 300)
    stage.line.latency = 0.01
    async with stage.node(), stage.node(stage.new_app()), stage.node(stage.new_app()):
        await stage.until(lambda: not stage.tables.outcome)
        await asyncio.sleep(10)
    assert sum(event.deleted for event in stage.told(Pruned)) == 300


def test_the_first_page_is_no_larger_than_the_largest() -> None:
    assert Pruner(VirtualRuntime(), Bus(), MemoryStore(), RetentionConfig(page=7))._size == 7
    assert Pruner(VirtualRuntime(), Bus(), MemoryStore(), RetentionConfig())._size == FIRST_PAGE
