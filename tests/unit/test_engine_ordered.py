"""If these fail, "one at a time, in order" is true only while nothing goes wrong."""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, cast

import pytest

from detent import Breaker, ConfigError, JobContext, Rate, Retry, RetryAfter, Snooze
from detent.model.circuit import Phase
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SECOND = timedelta(seconds=1)
SLOWLY = Retry(max_attempts=5, delay=3 * SECOND, backoff="fixed", jitter=False)
ACCOUNTS = ("ada", "bob", "cyd")
JOBS = 6


class Books:
    """What was begun and done for each account, in order."""

    def __init__(self, stage: Stage) -> None:
        self.begun = defaultdict[str, list[int]](list)
        self.done = defaultdict[str, list[int]](list)
        self.at = dict[tuple[str, int], float]()
        self._stage = stage

    def begin(self, account: str, number: int) -> None:
        self.begun[account].append(number)
        self.at.setdefault((account, number), self._stage.now)

    def end(self, account: str, number: int) -> None:
        self.done[account].append(number)

    def check(self) -> None:
        """All is done in order, and nothing began before what came before it was done."""
        for account in ACCOUNTS:
            assert self.done[account] == list(range(JOBS)), account
            assert self.begun[account] == sorted(self.begun[account]), account


async def run_all(stage: Stage, task: Any, *, nodes: int = 2) -> None:
    """Run some jobs of each account on some nodes."""
    jobs = await stage.app.enqueue_many(
        [task.bind(account, number) for number in range(JOBS) for account in ACCOUNTS]
    )
    async with AsyncExitStack() as stack:
        for _ in range(nodes):
            await stack.enter_async_context(stage.node())
        for job in jobs:
            await job.result(timeout=600)


@in_virtual_time
async def test_a_retry_with_a_delay_is_not_overtaken() -> None:
    stage = Stage()
    books = Books(stage)

    @stage.app.task(concurrency=1, concurrency_key=lambda account, **_: account, retry=SLOWLY)
    async def charge(ctx: JobContext, account: str, number: int) -> None:
        books.begin(account, number)
        if number % 2 == 0 and ctx.attempt < 3:
            raise ConnectionError("no answer")
        books.end(account, number)

    began = stage.now
    await run_all(stage, charge)
    books.check()
    # Three of each are tried twice more, three seconds later; what waits for them is not forgotten.
    assert stage.now - began == pytest.approx(3 * 2 * 3, abs=2)


@in_virtual_time
async def test_a_snooze_and_a_retry_after_are_not_overtaken() -> None:
    stage = Stage()
    books = Books(stage)
    tries = defaultdict[tuple[str, int], int](int)

    @stage.app.task(concurrency=1, concurrency_key=lambda account, **_: account)
    async def charge(account: str, number: int) -> None:
        books.begin(account, number)
        tries[account, number] += 1
        if tries[account, number] == 1:
            raise Snooze(2 * SECOND) if number % 2 else RetryAfter(SECOND)
        books.end(account, number)

    await run_all(stage, charge)
    books.check()


@in_virtual_time
async def test_what_an_open_breaker_sends_back_is_not_overtaken() -> None:
    stage = Stage()
    books = Books(stage)
    stage.app.breaker("stripe", Breaker(window=10, minimum=4, wait=5 * SECOND, trials=1))
    down = True

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda account, **_: account,
        breaker="stripe",
        retry=Retry(max_attempts=50, delay=SECOND, backoff="fixed", jitter=False),
    )
    async def charge(account: str, number: int) -> None:
        books.begin(account, number)
        if down:
            raise ConnectionError("no answer")
        books.end(account, number)

    jobs = await stage.app.enqueue_many(
        [charge.bind(account, number) for number in range(JOBS) for account in ACCOUNTS]
    )
    async with stage.node(), stage.node():
        await asyncio.sleep(20)
        (circuit,) = await stage.app.breakers.list()
        assert circuit.phase is Phase.OPEN
        down = False
        for job in jobs:
            await job.result(timeout=600)
    books.check()


@in_virtual_time
async def test_a_rate_keeps_the_order_too() -> None:
    stage = Stage()
    books = Books(stage)

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda account, **_: account,
        rate=Rate(2, burst=1),
        retry=SLOWLY,
    )
    async def charge(ctx: JobContext, account: str, number: int) -> None:
        books.begin(account, number)
        if number == 1 and ctx.attempt == 1:
            raise ConnectionError("no answer")
        books.end(account, number)

    await run_all(stage, charge)
    books.check()


@in_virtual_time
async def test_a_key_waits_until_its_job_has_failed_for_good_or_was_canceled() -> None:
    stage = Stage()
    books = Books(stage)

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda account, **_: account,
        retry=Retry(max_attempts=2, delay=30 * SECOND, backoff="fixed", jitter=False),
    )
    async def charge(account: str, number: int) -> None:
        books.begin(account, number)
        if number < 2:
            raise ConnectionError("no answer")
        books.end(account, number)

    jobs = [await charge.enqueue("ada", number) for number in range(3)]
    async with stage.node():
        await stage.until(lambda: books.begun["ada"] == [0])
        failed = await stage.until(lambda: books.begun["ada"] == [0, 0, 1])
        assert failed == pytest.approx(30, abs=2)
        assert books.done["ada"] == []
        await jobs[1].cancel()
        await jobs[2].result(timeout=60)
        assert stage.now - failed < 10, "long before the job that was canceled would have come"
    assert books.begun["ada"] == [0, 0, 1, 2]


@in_virtual_time
async def test_other_keys_and_other_tasks_are_not_held_up() -> None:
    stage = Stage()
    books = Books(stage)

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda account, **_: account,
        retry=Retry(max_attempts=2, delay=60 * SECOND, backoff="fixed", jitter=False),
    )
    async def charge(ctx: JobContext, account: str, number: int) -> None:
        books.begin(account, number)
        if account == "ada" and ctx.attempt == 1:
            raise ConnectionError("no answer")

    await charge.enqueue("ada", 0)
    async with stage.node():
        await stage.until(lambda: books.begun["ada"] == [0])
        began = stage.now
        for number in range(20):
            await (await charge.enqueue("bob", number)).result(timeout=60)
        assert stage.now - began < 5


@in_virtual_time
async def test_what_waits_behind_a_retry_costs_next_to_nothing() -> None:
    stage = Stage()

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda account: account,
        retry=Retry(max_attempts=2, delay=600 * SECOND, backoff="fixed", jitter=False),
    )
    async def charge(account: str) -> None:
        raise ConnectionError("no answer")

    await charge.enqueue("ada")
    async with stage.node():
        await stage.until(lambda: stage.tables.holds)
        for _ in range(50):
            await charge.enqueue("ada")
        await asyncio.sleep(10)
        before = stage.line.count("claim_gated")
        for _ in range(50):
            await charge.enqueue("ada")
        await asyncio.sleep(60)
        assert stage.line.count("claim_gated") - before < 40


@in_virtual_time
async def test_who_wants_no_order_says_so() -> None:
    stage = Stage()
    books = Books(stage)

    @stage.app.task(
        concurrency=1, concurrency_key=lambda account, **_: account, ordered=False, retry=SLOWLY
    )
    async def charge(ctx: JobContext, account: str, number: int) -> None:
        books.begin(account, number)
        if number == 0 and ctx.attempt == 1:
            raise ConnectionError("no answer")
        books.end(account, number)

    await run_all(stage, charge)
    assert books.done["ada"] == [*range(1, JOBS), 0]


def test_an_order_needs_a_limit_of_one() -> None:
    stage = Stage()
    for concurrency in (None, 2):
        with pytest.raises(ConfigError, match=r"ordered = True with concurrency = (None|2)"):
            stage.app.task(concurrency=concurrency, ordered=True)(sleepy)
    with pytest.raises(ConfigError, match="ordered = 1: must be True or False"):
        stage.app.task(concurrency=1, ordered=cast("bool", 1))(sleepy)
    for ordered in (None, True):
        task = stage.app.task(concurrency=1, ordered=ordered, name=f"ordered {ordered}")(sleepy)
        limits = task.options_declared.limits
        assert limits is not None
        assert [limit.ordered for limit in limits.definitions()] == [ordered is True]


async def sleepy() -> None: ...


@in_virtual_time
async def test_an_operator_who_sets_the_limit_keeps_the_order() -> None:
    stage = Stage()

    @stage.app.task(name="charge", concurrency=1, concurrency_key=lambda account: account)
    async def charge(account: str) -> None: ...

    async with stage.node():
        limits = stage.app.limits
        await (await charge.enqueue("ada")).result(timeout=10)
        await limits.set("task:charge#", concurrency=3)
        info = await limits.get("task:charge#")
        assert info is not None
        assert not info.limit.ordered
        await limits.set("task:charge#", concurrency=1)
        info = await limits.get("task:charge#")
        assert info is not None
        assert info.limit.ordered
