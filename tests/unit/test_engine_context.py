"""If these fail, tasks cannot say what they do, do it exactly once, or be watched doing it."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from detent import BatchItem, DetentError, Job, JobContext, JobFailed, Retry, State, acting_as
from detent.config import Config, LimitsConfig
from detent.events import (
    HookFailed,
    JobDied,
    JobStarted,
    JobSucceeded,
    NodeStarted,
    NodeStopped,
    StoreTrouble,
)
from detent.principal import current_principal
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

ONCE = Retry(max_attempts=1)
Proceed = Callable[[], Awaitable[Any]]


@in_virtual_time
async def test_a_task_knows_who_and_where_it_is() -> None:
    stage, seen = Stage(), list[JobContext]()

    @stage.app.task(name="introspect", queue="mail", tags=["a"])
    async def introspect(ctx: JobContext, number: int) -> None:
        await deep_below(ctx)
        seen.append(ctx)

    async def deep_below(expected: JobContext) -> None:
        await asyncio.sleep(1)
        current = JobContext.current()
        assert (current.job_id, current.fence) == (expected.job_id, expected.fence)

    async with stage.node(queues={"mail": 2}) as node:
        with_options = introspect.options(params={"tenant": 7}, tags=["b"])
        jobs = [await with_options.enqueue(number) for number in range(2)]
        for job in jobs:
            await job.result()
        assert [ctx.job_id for ctx in seen] == [job.id for job in jobs]
        for ctx in seen:
            assert (ctx.task, ctx.queue, ctx.attempt, ctx.generation) == (
                "introspect",
                "mail",
                1,
                1,
            )
            assert ctx.node_id == node.identity.incarnation
            assert (ctx.params, ctx.tags) == ({"tenant": 7}, ("a", "b"))
    with pytest.raises(DetentError, match="outside of a job"):
        JobContext.current()


# What it says


def has_outcomes(stage: Stage, number: int) -> bool:
    return len(stage.tables.outcome) == number


@in_virtual_time
async def test_progress_can_be_seen_within_two_seconds() -> None:
    stage = Stage()

    @stage.app.task
    async def long(ctx: JobContext) -> None:
        await ctx.progress(0.25, "a quarter")
        await asyncio.sleep(10)

    async with stage.node():
        job = await long.enqueue()
        await stage.until(lambda: stage.tables.running)
        await asyncio.sleep(2)
        info = await stage.app.jobs.get(job.id)
        assert (info.progress, info.progress_message) == (0.25, "a quarter")
        await job.result()
        assert (await stage.app.jobs.get(job.id)).progress is None


@in_virtual_time
async def test_many_reports_of_progress_are_few_writes() -> None:
    stage = Stage()

    @stage.app.task
    async def chatty(ctx: JobContext) -> None:
        for step in range(1000):
            await ctx.progress(step / 1000)
            await asyncio.sleep(0.01)

    async with stage.node():
        await (await chatty.enqueue()).result()
    assert stage.line.count("save_progress") <= 15


@in_virtual_time
async def test_what_a_job_said_is_kept_even_if_it_ends_at_once() -> None:
    stage = Stage()
    stage.line.latency = 0.01

    @stage.app.task(retry=ONCE)
    async def talk(ctx: JobContext, fails: bool) -> None:
        ctx.log.debug("one")
        ctx.log.info("two \0 \ud800")
        ctx.log.warning("three")
        ctx.log.error("x" * 10_000)
        if fails:
            raise ValueError

    async with stage.node():
        for ended, fails in enumerate((False, True), start=1):
            job = await talk.enqueue(fails)
            await stage.until(functools.partial(has_outcomes, stage, ended))
            lines = await stage.app.jobs.log(job.id)
            assert [line.level for line in lines] == ["debug", "info", "warning", "error"]
            assert [line.message for line in lines[:3]] == ["one", "two \ufffd ?", "three"]
            assert len(lines[3].message) == 8192
            assert {line.attempt for line in lines} == {1}


@in_virtual_time
async def test_a_job_that_never_stops_talking_is_cut_short_and_says_so() -> None:
    stage = Stage(Config(limits=LimitsConfig(max_log_lines=5)))

    @stage.app.task
    async def talk(ctx: JobContext) -> None:
        for number in range(20):
            ctx.log.info(str(number))

    async with stage.node():
        job = await talk.enqueue()
        await job.result()
        lines = await stage.app.jobs.log(job.id)
    assert [line.message for line in lines] == [
        *"01234",
        "further lines are not kept: [limits] max_log_lines = 5",
    ]


@in_virtual_time
async def test_the_end_of_a_job_does_not_overtake_its_lines_in_another_jobs_write() -> None:
    stage = Stage()
    stage.line.latency = 0.05

    @stage.app.task
    async def talk(ctx: JobContext, after: float) -> None:
        await asyncio.sleep(after)
        ctx.log.info("heard")

    async with stage.node():
        # The second ends while the write that the first began is on its way.
        jobs = [await talk.enqueue(after) for after in (1.0, 0.87, 0.76, 0.61)]
        for job in jobs:
            await job.result()
        assert [len(await stage.app.jobs.log(job.id)) for job in jobs] == [1, 1, 1, 1]


@in_virtual_time
async def test_lines_that_could_not_be_written_do_not_cost_the_job() -> None:
    stage = Stage()

    @stage.app.task(retry=ONCE)
    async def talk(ctx: JobContext) -> str:
        ctx.log.info("lost")
        return "done"

    async with stage.node():
        stage.line.lose("append_log", times=None)
        assert await (await talk.enqueue()).result(timeout=10) == "done"
        assert any(event.where == "scribe" for event in stage.told(StoreTrouble))


@in_virtual_time
async def test_what_is_no_text_is_written_as_one() -> None:
    stage = Stage()

    @stage.app.task(retry=ONCE)
    async def talk(ctx: JobContext) -> str:
        ctx.log.error(ValueError("an exception"))
        ctx.log.info(7)
        await ctx.progress(0.5, 7)  # type: ignore[arg-type]
        return "done"

    async with stage.node():
        job = await talk.enqueue()
        assert await job.result(timeout=10) == "done"
        lines = await stage.app.jobs.log(job.id)
    assert [line.message for line in lines] == ["an exception", "7"]


class Broken:
    """Something that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@in_virtual_time
async def test_the_log_takes_what_the_standard_logger_takes() -> None:
    stage = Stage()

    @stage.app.task(retry=ONCE)
    async def talk(ctx: JobContext) -> str:
        log = ctx.log
        log.info("user %s of %d", 42, 7)
        log.info("user %(name)s", {"name": "ada"}, extra={"request": 1}, stacklevel=2)
        log.info("100 %")
        try:
            raise ValueError("why")
        except ValueError as error:
            log.exception("it failed %s", "again")
            log.warning("seen", exc_info=error)
        log.debug("here", stack_info=True)
        log.critical("bad")
        log.log(logging.WARNING, "level %s", "two")
        return "done"

    async with stage.node():
        job = await talk.enqueue()
        assert await job.result(timeout=10) == "done"
        lines = await stage.app.jobs.log(job.id)
    texts = [line.message for line in lines]
    assert texts[:3] == ["user 42 of 7", "user ada", "100 %"]
    assert texts[3].startswith("it failed again\nTraceback")
    assert texts[3].endswith("ValueError: why")
    assert texts[4].startswith("seen\nTraceback")
    assert texts[5].startswith("here\nStack (most recent call last):")
    assert "in talk" in texts[5].splitlines()[-2]
    assert texts[6:] == ["bad", "level two"]
    levels = [line.level for line in lines]
    assert levels == ["info"] * 3 + ["error", "warning", "debug", "error", "warning"]


@in_virtual_time
async def test_no_log_line_fails_a_job() -> None:
    stage = Stage()

    @stage.app.task(retry=ONCE)
    async def talk(ctx: JobContext) -> str:
        ctx.log.info("%d users", "many")
        ctx.log.info("two %s", "or", "three")  # noqa: PLE1205  the mistake that is meant
        ctx.log.info(Broken())
        ctx.log.info("%s", Broken())
        ctx.log.info("known", colour="red")
        ctx.log.exception("nothing is being handled")  # noqa: LOG004  the same
        ctx.log.log("high", "odd")  # type: ignore[arg-type]
        return "done"

    async with stage.node():
        job = await talk.enqueue()
        assert await job.result(timeout=10) == "done"
        texts = [line.message for line in await stage.app.jobs.log(job.id)]
    assert texts[0] == "(cannot be formatted: TypeError) '%d users', 'many'"
    assert texts[2] == (
        "(cannot be formatted: RuntimeError) <Broken, whose repr raised RuntimeError>"
    )
    assert texts[4] == "known\n(unknown options of this line: colour)"
    assert texts[5:] == ["nothing is being handled", "odd"]


@pytest.mark.parametrize("fraction", [50, "half", float("nan")])
def test_progress_outside_of_0_to_1_is_a_mistake_of_the_task(fraction: Any) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task(retry=ONCE)
        async def odd(ctx: JobContext) -> None:
            await ctx.progress(fraction)

        async with stage.node():
            with pytest.raises(JobFailed, match=f"{fraction!r}.: must be a number from 0 to 1"):
                await (await odd.enqueue()).result()

    test()


# Exactly once


@in_virtual_time
async def test_effect_and_completion_are_committed_together() -> None:
    stage, effects = Stage(), list[str]()

    @stage.app.task
    async def pay(ctx: JobContext, amount: int) -> str:
        async with ctx.transaction() as connection:
            connection.on_commit(lambda: effects.append(f"paid {amount}"))
            ctx.set_result("paid")
            assert effects == []
        return "what it returns afterwards no longer counts"

    async with stage.node():
        job = await pay.enqueue(5)
        assert await job.result() == "paid"
        assert effects == ["paid 5"]
        assert stage.line.count("finish_jobs") == 0
        (event,) = stage.told(JobSucceeded)
        assert event.job_id == job.id


@in_virtual_time
async def test_an_error_inside_the_transaction_undoes_it() -> None:
    stage, effects = Stage(), list[int]()

    @stage.app.task(retry=Retry(max_attempts=2))
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.on_commit(lambda: effects.append(ctx.attempt))
            if ctx.attempt == 1:
                raise OSError("in the middle")

    async with stage.node():
        job = await pay.enqueue()
        await job.result(timeout=60)
    assert effects == [2]
    assert (await stage.app.jobs.get(job.id)).attempt == 2


@in_virtual_time
async def test_one_attempt_has_one_transaction() -> None:
    """A second one would wait for the first, for as long as a database has patience."""
    stage, said = Stage(), list[str]()

    async def try_again(ctx: JobContext) -> None:
        try:
            async with ctx.transaction():
                pytest.fail("it was let in")
        except DetentError as error:
            said.append(str(error))

    @stage.app.task(retry=ONCE)
    async def work(ctx: JobContext) -> str:
        with pytest.raises(ZeroDivisionError):
            async with ctx.transaction():
                raise ZeroDivisionError
        async with ctx.transaction():
            await try_again(ctx)
            ctx.set_result("done")
        await try_again(ctx)
        return "no longer counts"

    async with stage.node():
        job = await work.enqueue()
        assert await job.result(timeout=60) == "done"
        await stage.until(lambda: len(said) == 2)
    assert said == [
        f"ctx.transaction() of job {job.id} is open: use its connection",
        f"ctx.transaction() has ended job {job.id} already",
    ]


@in_virtual_time
async def test_an_error_after_the_transaction_no_longer_counts() -> None:
    stage = Stage()

    @stage.app.task(retry=ONCE)
    async def pay(ctx: JobContext) -> str:
        async with ctx.transaction():
            ctx.set_result("paid")
        raise RuntimeError("too late")

    async with stage.node():
        assert await (await pay.enqueue()).result(timeout=10) == "paid"
    assert stage.told(JobDied) == []


@in_virtual_time
async def test_a_commit_whose_reply_was_lost_has_its_effect_once() -> None:
    stage, effects = Stage(), list[int]()

    @stage.app.task
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.on_commit(lambda: effects.append(1))

    async with stage.node():
        stage.line.lose("_commit", reply=True)
        job = await pay.enqueue()
        await job.result(timeout=60)
        await asyncio.sleep(60)
    assert effects == [1]
    assert (await stage.app.jobs.get(job.id)).state is State.SUCCEEDED


@in_virtual_time
async def test_a_lost_claim_has_no_effect() -> None:
    stage, effects = Stage(), list[int]()

    @stage.app.task
    async def pay(ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            connection.on_commit(lambda: effects.append(ctx.fence))
            await asyncio.sleep(5)

    async with stage.node() as node:
        job = await pay.enqueue()
        await stage.until(lambda: stage.tables.running)
        node_id = node.identity.incarnation
        claims = await stage.store.claims_of(node_id)
        await stage.store.release_claims(node_id, claims)
        await job.result(timeout=60)
    assert len(effects) == 1
    assert effects[0] > claims[0][1]


# Around it


@in_virtual_time
async def test_middleware_wraps_in_the_order_of_its_declaration() -> None:
    stage, told = Stage(), list[str]()

    @stage.app.middleware
    async def outer(ctx: JobContext, proceed: Proceed) -> Any:
        told.append(f"outer {ctx.task}")
        value = await proceed()
        told.append(f"outer {value}")
        return f"<{value}>"

    @stage.app.middleware
    async def inner(ctx: JobContext, proceed: Proceed) -> Any:
        told.append("inner")
        return f"[{await proceed()}]"

    @stage.app.task(name="greet")
    async def greet(name: str) -> str:
        told.append("task")
        return name

    async with stage.node():
        assert await (await greet.enqueue("Ada")).result() == "<[Ada]>"
    assert told == ["outer greet", "inner", "task", "outer [Ada]"]


@in_virtual_time
async def test_middleware_may_refuse_and_its_errors_are_failures() -> None:
    stage, ran = Stage(), list[int]()

    @stage.app.middleware
    async def guard(ctx: JobContext, proceed: Proceed) -> Any:
        raise PermissionError("not here")

    @stage.app.task(retry=ONCE)
    async def task() -> None:
        ran.append(1)

    async with stage.node():
        with pytest.raises(JobFailed, match="not here"):
            await (await task.enqueue()).result()
    assert ran == []


@in_virtual_time
async def test_events_tell_the_story_in_order() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(2)

    async with stage.node():
        job = await work.enqueue()
        await job.result()
    kinds = [type(event) for event in stage.events]
    assert kinds.index(NodeStarted) < kinds.index(JobStarted) < kinds.index(JobSucceeded)
    assert kinds[-1] is NodeStopped
    (succeeded,) = stage.told(JobSucceeded)
    assert succeeded.duration == pytest.approx(2, abs=0.01)


@in_virtual_time
async def test_a_listener_that_fails_harms_nothing() -> None:
    stage = Stage()

    def broken(event: Any) -> None:
        raise ZeroDivisionError

    for kind in (NodeStarted, JobStarted, JobSucceeded, NodeStopped, HookFailed):
        stage.app.on(kind, broken)

    @stage.app.task
    async def work() -> int:
        return 1

    async with stage.node():
        assert await (await work.enqueue()).result() == 1
    assert len(stage.told(HookFailed)) == 4


@in_virtual_time
async def test_nothing_of_one_job_gets_into_the_next() -> None:
    """One that ends makes room for the next, which begins in its place but not in its name."""
    stage, seen = Stage(), list[tuple[str, str | None]]()
    said = ContextVar("said", default="nothing")

    @stage.app.task
    async def work(number: int) -> None:
        seen.append((said.get(), current_principal()))
        said.set("something")
        await asyncio.sleep(0.001)

    @stage.app.task(batch=2, linger=0)
    async def together(items: list[BatchItem[int]]) -> None:
        assert said.get() == "nothing"
        with pytest.raises(DetentError, match="outside of a job"):
            JobContext.current()

    jobs: list[Job[Any]] = []
    for number in range(100):
        with acting_as("ada"):
            jobs.append(await work.enqueue(number))
        jobs.append(await work.enqueue(number))
        jobs.append(await together.enqueue(number))
    with acting_as("whoever starts the node"):
        async with stage.node(concurrency=1):
            for job in jobs:
                await job.result(timeout=60)
    assert {word for word, _ in seen} == {"nothing"}
    assert sorted(seen, key=str) == sorted([("nothing", "ada"), ("nothing", None)] * 100, key=str)


@in_virtual_time
async def test_what_is_set_at_the_start_of_a_node_is_there_in_its_jobs() -> None:
    stage, seen = Stage(), list[str]()
    pool = ContextVar("pool", default="none")

    @stage.app.on_start
    async def connect() -> None:
        pool.set("open")

    @stage.app.task
    async def work() -> None:
        seen.append(pool.get())

    async with stage.node():
        await (await work.enqueue()).result(timeout=60)
    assert seen == ["open"]
