"""If these fail, somebody does what he may not, or a job forgets in whose name it runs."""

import asyncio
import contextlib
from typing import Any
from uuid import uuid4

import pytest

from detent import (
    App,
    ConfigError,
    JobContext,
    JobFailed,
    JobNotFound,
    Retry,
    acting_as,
)
from detent.access import target_of
from detent.errors import NotAllowed
from detent.model.access import Action, Target
from detent.model.job import JobFilter
from detent.principal import MAX_PRINCIPAL, current_principal
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time
from tests.unit.apps import app_in_memory

Asked = tuple[str | None, Action, Target]


def rule(app: App, *refused: Action, is_async: bool = False) -> list[Asked]:
    """Let everybody do everything but these, and ada everything; return what was asked."""
    asked: list[Asked] = []

    def decide(principal: str | None, action: Action, target: Target) -> bool:
        asked.append((principal, action, target))
        return principal == "ada" or action not in refused

    async def decide_slowly(principal: str | None, action: Action, target: Target) -> bool:
        await asyncio.sleep(0.1)
        return decide(principal, action, target)

    app.authorize(decide_slowly if is_async else decide)
    return asked


def declare(app: App) -> Any:
    @app.task(name="work", queue="mail", tags=["x"], retry=Retry(max_attempts=3))
    async def work(ctx: JobContext) -> str | None:
        return ctx.principal

    return work


# In whose name


async def test_the_principal_is_kept_known_in_the_job_and_inherited() -> None:
    app = app_in_memory(concurrency=5)

    @app.task(name="child")
    async def child(ctx: JobContext) -> str | None:
        return ctx.principal

    @app.task(name="parent")
    async def parent(ctx: JobContext) -> list[str | None]:
        job = await child.enqueue()
        other = await child.options(principal="bob").enqueue()
        return [ctx.principal, await job.result(60), await other.result(60)]

    @app.task(name="blocking", executor="thread")
    def blocking(ctx: JobContext) -> list[str | None]:
        return [ctx.principal, current_principal()]

    async with app, app.node():
        with acting_as("ada"):
            jobs = [await parent.enqueue(), *await app.enqueue_many([blocking.bind()])]
        nobody = await child.enqueue()
        assert await jobs[0].result(60) == ["ada", "ada", "bob"]
        assert await jobs[1].result(60) == ["ada", "ada"]
        assert await nobody.result(60) is None
        assert [(await job.info()).principal for job in (*jobs, nobody)] == ["ada", "ada", None]
    assert current_principal() is None


@in_virtual_time
async def test_who_acts_is_not_mixed_up_with_others() -> None:
    with acting_as("ada"):
        with acting_as("bob"):
            assert current_principal() == "bob"
        assert current_principal() == "ada"
        with contextlib.suppress(KeyError), acting_as("carl"):
            raise KeyError
        assert current_principal() == "ada"
    assert current_principal() is None


@pytest.mark.parametrize("wrong", ["", "a" * (MAX_PRINCIPAL + 1), "a\n", "a\0", 5, None])
def test_a_principal_that_cannot_be_one_is_refused(wrong: Any) -> None:
    app = App("memory://")
    with (
        pytest.raises(ConfigError, match=r"principal = .*must be 1 to 255 printable"),
        acting_as(wrong),
    ):
        pass
    if wrong is not None:
        with pytest.raises(ConfigError, match="principal"):
            declare(app).options(principal=wrong)


# The rule


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@in_virtual_time
async def test_who_may_not_create_enqueues_nothing(is_async: bool) -> None:
    stage = Stage()
    work = declare(stage.app)
    asked = rule(stage.app, Action.CREATE, is_async=is_async)
    with acting_as("eve"):
        with pytest.raises(
            NotAllowed, match="'eve' is not allowed to create a job of work"
        ) as told:
            await work.enqueue()
        with pytest.raises(NotAllowed):
            await stage.app.enqueue_many([work.bind(), work.bind()])
    assert (told.value.principal, told.value.action) == ("eve", Action.CREATE)
    assert asked[0][2] == Target("work", "mail", tags=("x",), owner="eve")
    with pytest.raises(NotAllowed, match="nobody in particular is not allowed"):
        await work.enqueue()
    assert not await stage.store.list_jobs(JobFilter(), 10)
    with acting_as("ada"):
        job = await work.options(principal="bob").enqueue()
    assert asked[-1][0] == "ada"
    assert asked[-1][2].owner == "bob"
    assert (await job.info()).principal == "bob"


@in_virtual_time
async def test_who_may_not_execute_fails_without_a_retry() -> None:
    stage = Stage()
    work = declare(stage.app)
    asked = rule(stage.app, Action.EXECUTE)
    async with stage.node(queues={"mail": 5}):
        eves = await work.options(principal="eve").enqueue()
        adas = await work.options(principal="ada").enqueue()
        with pytest.raises(JobFailed, match="NotAllowed: 'eve' is not allowed to execute job"):
            await eves.result(60)
        assert await adas.result(60) == "ada"
    assert (await eves.info()).attempt == 1
    executed = [target.id for _, action, target in asked if action is Action.EXECUTE]
    assert sorted(filter(None, executed)) == sorted([eves.id, adas.id])


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "retry", "reschedule", "delete"])
@in_virtual_time
async def test_who_may_not_change_a_job_does_not(verb: str) -> None:
    stage = Stage()
    work = declare(stage.app)
    asked = rule(stage.app, Action(verb))
    job = await work.enqueue()
    before = await stage.app.jobs.get(job.id)
    with acting_as("eve"), pytest.raises(NotAllowed, match=f"'eve' is not allowed to {verb} job"):
        await getattr(stage.app.jobs, verb)(job.id)
    assert asked[-1] == ("eve", Action(verb), target_of(before))
    assert await stage.app.jobs.get(job.id) == before
    with pytest.raises(JobNotFound):
        await getattr(stage.app.jobs, verb)(uuid4())


@in_virtual_time
async def test_many_at_once_are_asked_about_by_their_filter() -> None:
    stage = Stage()
    work = declare(stage.app)
    asked = rule(stage.app, Action.CANCEL, Action.RETRY, Action.DELETE, Action.PAUSE, Action.RESUME)
    job = await work.enqueue()
    jobs, queues = stage.app.jobs, stage.app.queues
    with acting_as("eve"):
        for call in (
            jobs.cancel_all(task="work"),
            jobs.retry_all(task="work"),
            jobs.delete_all(task="work"),
            jobs.purge("mail"),
            queues.pause("mail"),
            queues.resume("mail"),
        ):
            with pytest.raises(NotAllowed, match=r"all jobs that match|the queue mail"):
                await call
    assert asked[1][2].where == JobFilter(task="work")
    assert asked[1][2].task == "work"
    assert (await jobs.get(job.id)).state == "pending"
    with acting_as("ada"):
        assert await jobs.cancel_all(task="work") == 1
        assert await jobs.retry_all(task="work", state="canceled") == 1


@in_virtual_time
async def test_who_may_not_delete_purges_nothing() -> None:
    stage = Stage()
    work = declare(stage.app)
    rule(stage.app, Action.DELETE)
    job = await work.enqueue()
    with acting_as("eve"), pytest.raises(NotAllowed, match="to delete"):
        await stage.app.jobs.purge("mail")
    assert (await stage.app.jobs.get(job.id)).state == "pending", "nothing half done"
    with acting_as("ada"):
        assert await stage.app.jobs.purge("mail") == 1


@in_virtual_time
async def test_who_may_not_configure_changes_nothing_in_the_cluster() -> None:
    stage = Stage()
    stage.app.breaker("stripe")
    asked = rule(stage.app, Action.CONFIGURE)
    breakers, queues, nodes = stage.app.breakers, stage.app.queues, stage.app.nodes
    async with stage.node():
        (node,) = await nodes.list()
        before = await breakers.list()
        with acting_as("eve"):
            for call, words in (
                (breakers.open("stripe"), "the breaker stripe"),
                (breakers.reset("stripe"), "the breaker stripe"),
                (queues.scale("mail", 2), "the queue mail"),
                (nodes.drain(node.name), f"the node {node.name}"),
                (nodes.forget(node.name), f"the node {node.name}"),
                (stage.app.locks.force_release("import"), "the lock import"),
                (stage.app.leaders.try_acquire("maintenance"), "the leader maintenance"),
                (stage.app.leaders.try_acquire("daemon:prices"), "the leader daemon:prices"),
                (stage.app.outbox.retry(), r"the outbox \*"),
                (stage.app.outbox.discard(sink="billing"), "the outbox billing"),
                (stage.app.alerts.ack(1, "eve"), "the alert 1"),
            ):
                with pytest.raises(NotAllowed, match=f"'eve' is not allowed to configure {words}"):
                    await call
            own = await stage.app.leaders.try_acquire("reports")
            assert own is not None, "a role of one's own is like a lock: nobody is asked"
            assert await own.release()
        targets = [target for _, _, target in asked]
        assert targets[0] == Target(kind="breaker", name="stripe")
        assert targets[4] == Target(kind="node", name=node.name, id=node.incarnation)
        assert await breakers.list() == before
        assert (await nodes.get(node.name)).state == node.state
        with acting_as("ada"):
            assert (await breakers.open("stripe")).phase == "open"


@in_virtual_time
async def test_errors_of_jobs_are_not_read_by_way_of_the_outbox_or_of_alerts() -> None:
    stage = Stage()
    rule(stage.app, Action.READ)
    with acting_as("eve"):
        for call, words in (
            (stage.app.outbox.list(), r"the outbox \*"),
            (stage.app.outbox.list(sink="billing"), "the outbox billing"),
            (stage.app.alerts.list(task="mail.send"), r"the alert \*"),
            (stage.app.alerts.get(1), "the alert 1"),
        ):
            with pytest.raises(NotAllowed, match=f"'eve' is not allowed to read {words}"):
                await call
    with acting_as("ada"):
        assert not await stage.app.outbox.list()
        assert not await stage.app.alerts.list()


@in_virtual_time
async def test_reading_shows_only_what_may_be_read() -> None:
    stage = Stage()
    work = declare(stage.app)

    @stage.app.authorize
    def own_jobs(principal: str | None, action: Action, target: Target) -> bool:
        return action is not Action.READ or principal == target.owner

    for number in range(30):
        await work.options(principal="ada" if number % 3 else "bob").enqueue()
    jobs = stage.app.jobs
    with acting_as("bob"):
        assert len(await jobs.list(limit=4)) == 4
        listed = await jobs.list(limit=100)
        assert len(listed) == 10
        assert {job.principal for job in listed} == {"bob"}
        assert [job.id async for job in jobs.each()] == [job.id for job in listed]
        page = await jobs.list(limit=4, before=listed[3].id)
        assert page == listed[4:8]
        assert (await jobs.get(listed[0].id)).id == listed[0].id
    with acting_as("ada"):
        for call in (jobs.get, jobs.attempts, jobs.log, jobs.result):
            with pytest.raises(NotAllowed, match="'ada' is not allowed to read job"):
                await call(listed[0].id)


@in_virtual_time
async def test_a_rule_that_forgets_to_answer_says_no_and_one_that_raises_is_heard() -> None:
    stage = Stage()
    work = declare(stage.app)
    stage.app.authorize(lambda _principal, _action, _target: None)  # type: ignore[type-var]
    with pytest.raises(NotAllowed):
        await work.enqueue()
    with pytest.raises(ConfigError, match="there can be only one"):
        rule(stage.app)
    other = stage.new_app()

    @other.authorize
    def broken(principal: str | None, action: Action, target: Target) -> bool:
        raise LookupError("no directory")

    with pytest.raises(LookupError, match="no directory"):
        await declare(other).enqueue()


def test_the_rule_holds_for_blocking_callers_too() -> None:
    app = App("memory://")
    work = declare(app)
    rule(app, Action.CREATE, is_async=True)
    with acting_as("eve"), pytest.raises(NotAllowed, match="'eve'"):
        work.enqueue_sync()
    with acting_as("ada"):
        job = work.enqueue_sync()
    assert app._loop_thread.call(job.info()).principal == "ada"
    app._loop_thread.call(app.close())


@pytest.mark.parametrize("wrong", [None, 5, "x", lambda principal, action: True])
@in_virtual_time
async def test_what_is_no_rule_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"app.authorize\(.*\): must be a function"):
        Stage().app.authorize(wrong)
