"""If these fail, what stands around calls is skipped, runs in the wrong order, or lets all pass."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from detent import App, ConfigError, InvalidJob, JobContext, JobFailed, Retry
from detent.tasks import BoundCall
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time
from tests.unit.apps import app_in_memory

ONCE = Retry(max_attempts=1)
Proceed = Callable[[], Awaitable[Any]]


@in_virtual_time
async def test_a_task_has_middleware_of_its_own_inside_that_of_the_app() -> None:
    stage, steps = Stage(), list[str]()

    def noting(name: str) -> Callable[[Any, Proceed], Awaitable[Any]]:
        async def around(ctx: JobContext, proceed: Proceed) -> Any:
            steps.append(f"{name} {ctx.task.rpartition('.')[2]}")
            value = await proceed()
            steps.append(f"{name} got {value}")
            return f"{name}({value})"

        return around

    stage.app.middleware(noting("app 1"))
    stage.app.middleware(noting("app 2"))

    @stage.app.task(middleware=[noting("own 1"), noting("own 2")])
    async def work() -> str:
        steps.append("work")
        return "done"

    @stage.app.task
    async def other() -> str:
        return "other"

    async with stage.node():
        result = await (await work.enqueue()).result(timeout=60)
        assert result == "app 1(app 2(own 1(own 2(done))))"
        assert steps[:5] == ["app 1 work", "app 2 work", "own 1 work", "own 2 work", "work"]
        assert await (await other.enqueue()).result(timeout=60) == "app 1(app 2(other))"


@in_virtual_time
async def test_middleware_of_a_task_alone_may_refuse() -> None:
    stage = Stage()

    async def refuse(ctx: JobContext, proceed: Proceed) -> Any:
        raise PermissionError("not today")

    @stage.app.task(middleware=[refuse], retry=ONCE)
    async def work() -> None:
        raise AssertionError("it ran")

    @stage.app.task
    async def other() -> str:
        return "ran"

    async with stage.node():
        with pytest.raises(JobFailed, match="not today"):
            await (await work.enqueue()).result(timeout=60)
        assert await (await other.enqueue()).result(timeout=60) == "ran"


def test_middleware_must_be_something_to_call() -> None:
    app = app_in_memory()
    declare: Any = app.task

    async def work() -> None: ...

    with pytest.raises(ConfigError, match="middleware = 'tracing': must be async def"):
        declare(middleware=["tracing"])(work)

    async def lonely(ctx: JobContext) -> None: ...

    async def yielding(ctx: JobContext, proceed: Any) -> AsyncIterator[None]:
        yield

    wrong: Any = app
    with pytest.raises(ConfigError, match=r"middleware = .*lonely.*: must be async def"):
        declare(middleware=[lonely])(work)
    for function in (lonely, yielding, 5):
        with pytest.raises(ConfigError, match=r"@app.middleware: function = .*: must be async def"):
            wrong.middleware(function)
    for wrong_one in (work, 5):
        with pytest.raises(ConfigError, match=r"@app.enqueue_middleware: .* def m\(call\), not"):
            wrong.enqueue_middleware(wrong_one)


@in_virtual_time
async def test_middleware_that_cannot_be_awaited_is_named() -> None:
    stage = Stage()

    @stage.app.task(retry=Retry(max_attempts=1))
    async def work() -> None: ...

    def forgetful(ctx: JobContext, proceed: Any) -> None: ...

    wrong: Any = stage.app
    wrong.middleware(forgetful)
    async with stage.node():
        with pytest.raises(JobFailed, match=r"middleware .*forgetful.* must be async def"):
            await (await work.enqueue()).result(timeout=60)


# When a job is enqueued


async def enqueued_in_every_way(app: App, task: Any) -> list[Any]:
    calls = [task.bind(2), task.bind(3)]
    return [
        await task.enqueue(1),
        *await app.enqueue_many(calls),
        await app.enqueue(task.bind(4)),
        await task.options(tags=["own"], params={"a": 1}).enqueue(5),
        await task.options(key="k").enqueue(6),
    ]


async def test_every_call_passes_in_order_and_may_be_changed() -> None:
    app, seen = app_in_memory(), list[tuple[str, Any]]()

    @app.enqueue_middleware
    def stamp(call: BoundCall[Any]) -> BoundCall[Any]:
        seen.append(("stamp", call.args))
        return call.with_options(tags=["stamped"], params={"tenant": "acme"})

    @app.enqueue_middleware
    def route(call: BoundCall[Any]) -> BoundCall[Any]:
        seen.append(("route", call.options.tags))
        return call.with_options(queue="acme")

    @app.task(tags=["declared"])
    async def work(number: int) -> None: ...

    jobs = await enqueued_in_every_way(app, work)
    infos = [await job.info() for job in jobs]
    assert {info.queue for info in infos} == {"acme"}
    assert all({"declared", "stamped"} <= set(info.tags) for info in infos)
    assert "own" in infos[4].tags
    assert infos[4].params == b'{"a":1,"tenant":"acme"}'
    assert [name for name, _ in seen] == ["stamp", "route"] * len(jobs)
    await app.close()


async def test_a_refused_call_stores_nothing() -> None:
    app = app_in_memory()

    @app.task
    async def work(number: int) -> None: ...

    @app.enqueue_middleware
    def only_even(call: BoundCall[Any]) -> BoundCall[Any]:
        if call.args[0] % 2:
            raise InvalidJob(f"{call.args[0]} is odd", path="arguments")
        return call

    with pytest.raises(InvalidJob, match="3 is odd"):
        await app.enqueue_many([work.bind(2), work.bind(3)])
    assert await app.jobs.list() == []
    await work.enqueue(4)
    assert len(await app.jobs.list()) == 1
    await app.close()


async def test_what_middleware_returns_must_be_the_same_call() -> None:
    app = app_in_memory()

    @app.task
    async def work() -> None: ...

    @app.task
    async def other() -> None: ...

    answers: list[Any] = [None, other.bind(), work.bind().with_options(within=object())]

    @app.enqueue_middleware
    def wrong(call: BoundCall[Any]) -> BoundCall[Any]:
        answer: BoundCall[Any] = answers.pop(0)
        return answer

    for words in ("wrong must return a call of", "wrong must return", "cannot change within="):
        with pytest.raises(ConfigError, match=words):
            await work.enqueue()
    await app.close()


def test_options_of_a_call_are_checked_when_they_are_changed() -> None:
    app = app_in_memory()

    @app.task
    async def work() -> None: ...

    for changes, words in (
        ({"delay": 5}, r"options\(delay=5\)"),
        ({"tags": "abc"}, "tags = 'abc': must be a list"),
        ({"colour": "red"}, "with_options.*colour"),
    ):
        with pytest.raises(ConfigError, match=words):
            work.bind().with_options(**changes)


def test_blocking_code_passes_too() -> None:
    app = App("memory://")

    @app.enqueue_middleware
    def stamp(call: BoundCall[Any]) -> BoundCall[Any]:
        return call.with_options(tags=["stamped"])

    @app.task
    async def work() -> None: ...

    job = work.enqueue_sync()
    info = app._call(app.jobs.get(job.id))
    assert info.tags == ("stamped",)
    app._call(app.close())
