"""If these fail, enqueues are slow, or one caller's trouble becomes everybody's."""

import asyncio
import gc
from collections.abc import Sequence
from uuid import UUID

import pytest

from detent.coalesce import BATCH, HALVING, TRIES, Coalescer
from detent.errors import StoreError, StoreUnavailable
from detent.model.job import NewJob
from detent.spi.notifier import Hint, Wake
from detent.testing.conformance.builders import new_job
from detent.testing.virtual import in_virtual_time


class Inserts:
    """A store's insert that takes a second, and fails when told to."""

    def __init__(self) -> None:
        self.batches: list[list[NewJob]] = []
        self.stored: list[NewJob] = []
        self.told: list[Wake] = []
        self.takes = 1.0
        self.going = 0
        self.most = 0
        self.poison: NewJob | None = None
        self.too_big: dict[UUID, Exception] = {}
        """Jobs that fail whatever they are sent with, and how."""
        self.down = 0
        self.broken: Exception | None = None

    async def __call__(self, jobs: Sequence[NewJob], tell: Sequence[Wake] = ()) -> bool:
        self.batches.append(list(jobs))
        self.told += tell
        self.going += 1
        self.most = max(self.most, self.going)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.going -= 1
        if self.broken is not None:
            raise self.broken
        if self.down:
            self.down -= 1
            raise StoreUnavailable("down")
        for job in jobs:
            if job.id in self.too_big:
                raise self.too_big[job.id]
        if self.poison in jobs:
            raise StoreError("poison")
        self.stored += jobs
        return bool(tell)


@in_virtual_time
async def test_a_lone_caller_goes_straight_through() -> None:
    inserts = Inserts()
    job = new_job()
    await Coalescer(inserts).enqueue([job])
    assert inserts.batches == [[job]]
    assert asyncio.get_running_loop().time() == 1


@in_virtual_time
async def test_those_who_come_meanwhile_share_an_insert() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    jobs = [new_job() for _ in range(50)]
    await asyncio.gather(*(coalescer.enqueue([job]) for job in jobs))
    assert [len(batch) for batch in inserts.batches] == [1, 49]
    assert inserts.stored == jobs, "in the order of the calls"


@in_virtual_time
async def test_everybody_is_answered_after_his_own_commit() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)

    async def caller() -> bool:
        job = new_job()
        await coalescer.enqueue([job])
        return job in inserts.stored

    assert all(await asyncio.gather(*(caller() for _ in range(200))))


@in_virtual_time
async def test_few_inserts_are_on_the_way_at_once_and_none_is_too_big() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    calls = [coalescer.enqueue([new_job() for _ in range(7)]) for _ in range(1000)]
    await asyncio.gather(*calls)
    assert inserts.most == 2
    assert max(len(batch) for batch in inserts.batches) <= BATCH
    assert len(inserts.stored) == 7000


@in_virtual_time
async def test_a_call_bigger_than_a_batch_goes_alone() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    sizes = (1, 5, BATCH + 1, 5)
    await asyncio.gather(*(coalescer.enqueue([new_job()] * size) for size in sizes))
    assert [len(batch) for batch in inserts.batches] == [1, 5, BATCH + 1, 5]


@in_virtual_time
async def test_a_caller_who_gives_up_does_not_take_the_others_with_him() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    first, *others = (asyncio.ensure_future(coalescer.enqueue([new_job()])) for _ in range(5))
    await asyncio.sleep(0.5)
    others[1].cancel()
    await asyncio.gather(first, others[0], *others[2:])
    assert len(inserts.stored) == 5, "his job is stored with theirs"
    with pytest.raises(asyncio.CancelledError):
        await others[1]


@in_virtual_time
async def test_a_lone_caller_who_gives_up_leaves_the_way_free() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    first, second = (asyncio.ensure_future(coalescer.enqueue([new_job()])) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    await coalescer.enqueue([new_job()])
    assert len(inserts.stored) == 3, "the insert of the first goes on without its caller"


@in_virtual_time
async def test_closing_waits_for_the_insert_of_a_caller_who_gave_up() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    caller = asyncio.ensure_future(coalescer.enqueue([new_job()]))
    await asyncio.sleep(0.5)
    caller.cancel()
    await coalescer.flushed()
    assert len(inserts.stored) == 1


@in_virtual_time
@pytest.mark.parametrize("others", [0, 3])
async def test_an_error_for_a_caller_who_gave_up_is_no_mishap_of_the_loop(others: int) -> None:
    """Whether the caller gives up before the error comes, with it, or after it."""
    mishaps: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: mishaps.append(about))
    for moment in (0.5, 1.0, 2.0):
        await _give_up_after(moment, 1 + others)
    gc.collect()
    assert mishaps == []


async def _give_up_after(moment: float, callers: int) -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    calls = [asyncio.ensure_future(coalescer.enqueue([new_job()])) for _ in range(callers)]
    inserts.broken = StoreError("refused")
    await asyncio.sleep(moment)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    await coalescer.flushed()
    # Those who did not give up in time have got the error.
    assert all(call.cancelled() or call.exception() is inserts.broken for call in calls)


@in_virtual_time
async def test_only_the_guilty_one_is_refused() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    jobs = [new_job() for _ in range(30)]
    inserts.poison = jobs[17]
    answers = await asyncio.gather(
        *(coalescer.enqueue([job]) for job in jobs), return_exceptions=True
    )
    assert [number for number, answer in enumerate(answers) if answer is not None] == [17]
    assert isinstance(answers[17], StoreError)
    assert len(inserts.stored) == 29
    assert len({job.id for job in inserts.stored}) == 29


@in_virtual_time
async def test_a_store_that_was_away_gets_the_same_jobs_again() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    inserts.down = TRIES - 1
    job = new_job()
    await coalescer.enqueue([job])
    assert inserts.batches == [[job]] * TRIES


@in_virtual_time
async def test_a_store_that_stays_away_is_told_to_all_who_wait() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    inserts.down = 1000
    calls = (coalescer.enqueue([new_job()]) for _ in range(5))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 5
    inserts.down = 0
    await coalescer.enqueue([new_job()])


@in_virtual_time
@pytest.mark.parametrize(
    "error", [StoreUnavailable("the disk is full"), StoreError("no"), ValueError("a bug")], ids=repr
)
async def test_only_the_caller_whose_job_fails_again_and_again_is_told(error: Exception) -> None:
    """Such as one that does not fit on the disk, or on which the connection breaks."""
    inserts = Inserts()
    inserts.takes = 0.01
    coalescer = Coalescer(inserts)
    jobs = [new_job() for _ in range(200)]
    guilty = [17, 18, 150]
    inserts.too_big = {jobs[number].id: error for number in guilty}
    answers = await asyncio.gather(
        *(coalescer.enqueue([job]) for job in jobs), return_exceptions=True
    )
    assert [number for number, answer in enumerate(answers) if answer is not None] == guilty
    for number in guilty:
        assert isinstance(answers[number], StoreError)
        assert str(error) in str(answers[number])
    assert sorted(job.id for job in inserts.stored) == sorted(
        job.id for number, job in enumerate(jobs) if number not in guilty
    )


@in_virtual_time
async def test_a_batch_is_sent_whole_again_before_it_is_halved() -> None:
    """A connection that broke once is no reason to send many small inserts."""
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    first = asyncio.ensure_future(coalescer.enqueue([new_job()]))
    await asyncio.sleep(0.5)
    others = [asyncio.ensure_future(coalescer.enqueue([new_job()])) for _ in range(8)]
    await first
    inserts.down = 1
    await asyncio.gather(*others)
    assert [len(batch) for batch in inserts.batches] == [1, 8, 8]


@in_virtual_time
@pytest.mark.parametrize("takes", [0.0, 0.05, 10.0])
async def test_a_store_that_is_away_is_told_in_bounded_time(takes: float) -> None:
    """Halving on and on would try each of a thousand callers by itself."""
    inserts = Inserts()
    inserts.takes = takes
    coalescer = Coalescer(inserts)
    inserts.down = 1_000_000
    calls = (coalescer.enqueue([new_job()]) for _ in range(1_001))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    assert asyncio.get_running_loop().time() < TRIES * takes + HALVING + 1


@in_virtual_time
async def test_nobody_is_left_waiting_when_an_insert_breaks() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    first = asyncio.ensure_future(coalescer.enqueue([new_job()]))
    await asyncio.sleep(0)
    inserts.broken = ZeroDivisionError("a bug in the store")
    calls = [coalescer.enqueue([new_job() for _ in range(BATCH)]) for _ in range(4)]
    answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    assert [type(answer) for answer in answers] == [StoreError] * 4
    with pytest.raises(ZeroDivisionError):
        await first


@in_virtual_time
async def test_closing_waits_for_what_is_on_its_way() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    calls = [asyncio.ensure_future(coalescer.enqueue([new_job()])) for _ in range(5)]
    await asyncio.sleep(0.1)
    await coalescer.flushed()
    assert len(inserts.stored) == 5
    await asyncio.gather(*calls)


@in_virtual_time
async def test_callers_with_large_arguments_share_inserts_of_a_bounded_size() -> None:
    inserts = Inserts()
    coalescer = Coalescer(inserts)
    large = [new_job(args=bytes(1_000_000)) for _ in range(30)]
    await asyncio.gather(*(coalescer.enqueue([job]) for job in large))
    assert [len(batch) for batch in inserts.batches] == [1, 4, 4, 4, 4, 4, 4, 4, 1]
    huge = [new_job()._replace(params=bytes(5_000_000)) for _ in range(2)]
    inserts.batches.clear()
    await asyncio.gather(*(coalescer.enqueue([job]) for job in huge))
    assert [len(batch) for batch in inserts.batches] == [1, 1], "one that is too large goes alone"


# Commits that wake the nodes


class Rare:
    """A process that enqueues now and then."""

    def __init__(self) -> None:
        self.inserts = Inserts()
        self.inserts.takes = 0.001
        self.untold = 0
        self.coalescer = Coalescer(self.inserts, self._stored, lambda _jobs: [Hint("mail")])

    def _stored(self, _jobs: Sequence[NewJob], told: bool) -> None:
        self.untold += not told

    async def enqueue(self, *, after: float) -> bool:
        """Enqueue one job after so long; return whether its commit woke the nodes."""
        await asyncio.sleep(after)
        before = len(self.inserts.told), self.untold
        await self.coalescer.enqueue([new_job()])
        told = len(self.inserts.told) > before[0]
        assert told == (self.untold == before[1]), "nodes are woken once, one way or the other"
        return told


@in_virtual_time
async def test_a_rare_enqueue_wakes_the_nodes_by_its_own_commit() -> None:
    rare = Rare()
    assert not await rare.enqueue(after=1), "how quick commits are is not known yet"
    assert [await rare.enqueue(after=0.1) for _ in range(5)] == [True] * 5
    assert [await rare.enqueue(after=0.001) for _ in range(5)] == [False] * 5
    assert await rare.enqueue(after=0.1)


@in_virtual_time
async def test_a_commit_that_is_slow_wakes_no_node_for_a_while() -> None:
    rare = Rare()
    await rare.enqueue(after=1)
    rare.inserts.takes = 0.03
    assert await rare.enqueue(after=1)
    assert not await rare.enqueue(after=1), "it stood in a queue"
    rare.inserts.takes = 0.001
    assert [await rare.enqueue(after=1) for _ in range(3)] == [False] * 3
    assert await rare.enqueue(after=20)


@in_virtual_time
async def test_enqueues_that_share_a_commit_are_told_of_afterwards() -> None:
    rare = Rare()
    await rare.enqueue(after=1)
    await asyncio.sleep(1)
    await asyncio.gather(*(rare.coalescer.enqueue([new_job()]) for _ in range(10)))
    assert len(rare.inserts.told) == 1, "the first one was alone"
