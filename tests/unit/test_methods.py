"""If these fail, tasks that are methods get no object, the wrong one, or too many."""

import abc
import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import pytest

from detent import ConfigError, Depends, InvalidArguments, JobContext, JobFailed, Retry
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time
from tests.unit.apps import app_in_memory

ONCE = Retry(max_attempts=1)


async def smtp() -> AsyncIterator[str]:
    yield "smtp"


async def tenant(ctx: JobContext) -> str:
    return ctx.tags[0]


@in_virtual_time
async def test_a_node_has_one_object_for_all_jobs() -> None:
    stage, made = Stage(), list[str]()

    class Mailer:
        def __init__(self, smtp: str = Depends(smtp, scope="node")) -> None:
            made.append(smtp)
            self.smtp = smtp

        @stage.app.task
        async def send(self, to: str) -> str:
            return f"{to} by {self.smtp}"

        @stage.app.task(queue="mail")
        async def watched(self, to: str, *, times: int = 1, ctx: JobContext = Depends()) -> str:
            return f"{to} {ctx.queue} {times}"

        @stage.app.task
        async def plainly(self, ctx: JobContext, to: str) -> str:
            return f"{to} {ctx.attempt}"

        @stage.app.task
        def blocking(self, to: str) -> str:
            return f"{to} by {self.smtp} on a thread"

    assert Mailer.send.name.endswith(".Mailer.send")
    async with stage.node(queues={"default": 5, "mail": 5}):
        jobs = [
            await Mailer.send.enqueue("ada"),
            await Mailer.watched.enqueue("grace", times=2),
            await stage.app.enqueue(Mailer.send.bind("edsger")),
            await Mailer("by hand").send.enqueue("alan"),
            # Right, but checkers would want a context here; with a default they do not.
            await Mailer.plainly.enqueue("barbara"),  # type: ignore[arg-type, call-arg]
        ]
        assert [await job.result(timeout=60) for job in jobs] == [
            "ada by smtp",
            "grace mail 2",
            "edsger by smtp",
            "alan by smtp",
            "barbara 1",
        ]
    assert sorted(made) == ["by hand", "smtp"]
    async with stage.node(queues={"default": 5, "mail": 5}):
        await (await Mailer.send.enqueue("ada")).result(timeout=60)
    assert sorted(made) == ["by hand", "smtp", "smtp"], "another node has another one"


async def test_a_method_on_a_thread() -> None:
    app = app_in_memory()

    class Mailer:
        def __init__(self, smtp: str = Depends(smtp, scope="node")) -> None:
            self.smtp = smtp

        @app.task
        def send(self, to: str) -> str:
            return f"{to} by {self.smtp}"

    async with app, app.node():
        assert await (await Mailer.send.enqueue("ada")).result(timeout=10) == "ada by smtp"


@in_virtual_time
async def test_an_object_that_is_built_from_something_for_a_job_is_for_a_job() -> None:
    stage, made = Stage(), list[Any]()

    class Mailer:
        def __init__(self, tenant: str = Depends(tenant)) -> None:
            made.append(self)
            self.tenant = tenant

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_error: object) -> None:
            made.append("left")

        @stage.app.task
        async def send(self, to: str) -> str:
            return f"{to} of {self.tenant}"

    async with stage.node():
        for name in ("acme", "umbrella"):
            job = await Mailer.send.options(tags=[name]).enqueue("ada")
            assert await job.result(timeout=60) == f"ada of {name}"
    assert made[1::2] == ["left", "left"]
    assert made[0] is not made[2]


async def test_a_direct_call_is_a_call_of_the_method() -> None:
    app = app_in_memory()

    class Mailer:
        def __init__(self, smtp: str) -> None:
            self.smtp = smtp

        @app.task
        async def send(self, to: str, *, log: str = Depends(lambda: "log")) -> str:
            return f"{to} by {self.smtp} {log}"

        @app.task
        def blocking(self, to: str) -> str:
            return f"{to} by {self.smtp}"

    @app.task
    async def watched(to: str, ctx: JobContext = Depends()) -> str:
        return to

    with pytest.raises(ConfigError, match=r"watched.* was called without a job: pass ctx="):
        await watched("ada")
    mailer = Mailer("mine")
    assert await mailer.send("ada") == "ada by mine log"
    assert await mailer.send("ada", log="given") == "ada by mine given"
    assert mailer.blocking("ada") == "ada by mine"
    assert await Mailer.send(mailer, "ada") == "ada by mine log"
    job = await mailer.send.options(queue="other").enqueue("ada")
    assert (await job.info()).queue == "other"
    assert mailer.send.bind("ada").task is Mailer.send
    with pytest.raises(InvalidArguments):
        await mailer.send.enqueue(7)  # type: ignore[arg-type]
    await app.close()


@in_virtual_time
async def test_tests_may_put_another_object_in_its_place() -> None:
    stage = Stage()

    class Mailer:
        host = "real"

        @stage.app.task
        async def send(self) -> str:
            return self.host

    class Fake(Mailer):
        host = "fake"

    async with stage.node():
        assert await (await Mailer.send.enqueue()).result(timeout=60) == "real"
        with stage.app.override(Mailer, Fake):
            assert await (await Mailer.send.enqueue()).result(timeout=60) == "fake"


class Container:
    """Somebody's own way to make objects."""

    def __init__(self, asynchronous: bool) -> None:
        self.asked: list[type] = []
        self._asynchronous = asynchronous

    def resolve(self, cls: type[Any]) -> Any:
        self.asked.append(cls)
        made = cls("from the container")
        return self._later(made) if self._asynchronous else made

    async def _later(self, made: Any) -> Any:
        await asyncio.sleep(1)
        return made


@pytest.mark.parametrize("scope, count", [("node", 1), ("job", 2)])
@pytest.mark.parametrize("asynchronous", [False, True])
@in_virtual_time
async def test_a_container_of_ones_own_makes_the_objects(
    scope: Any, count: int, asynchronous: bool
) -> None:
    stage, container = Stage(), Container(asynchronous)
    stage.app.resolver(container, scope=scope)

    class Mailer:
        def __init__(self, name: str) -> None:
            self.name = name

        @stage.app.task
        async def send(self, to: str) -> str:
            return f"{to} {self.name}"

    async with stage.node():
        for to in ("ada", "grace"):
            job = await Mailer.send.enqueue(to)
            assert await job.result(timeout=60) == f"{to} from the container"
    assert container.asked == [Mailer] * count


@in_virtual_time
async def test_a_container_that_fails_fails_the_job() -> None:
    stage = Stage()

    class Broken:
        def resolve(self, cls: type[Any]) -> Any:
            raise LookupError(f"nothing for {cls.__name__}")

    stage.app.resolver(Broken())

    class Mailer:
        @stage.app.task(retry=ONCE)
        async def send(self) -> None: ...

    async with stage.node():
        with pytest.raises(JobFailed, match="nothing for Mailer"):
            await (await Mailer.send.enqueue()).result(timeout=60)


@pytest.mark.parametrize(
    "make, shown",
    [(lambda cls: None, "nothing"), (lambda cls: cls, r"<class '.*Reports'>")],
    ids=["nothing", "something else"],
)
def test_a_container_that_makes_something_else_fails_the_job(
    make: Callable[[type], Any], shown: str
) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        class Container:
            def resolve(self, cls: type) -> Any:
                return make(cls)

        class Reports:
            @stage.app.task(retry=ONCE)
            async def write(self) -> str:
                raise AssertionError("on what?")

        stage.app.resolver(Container())
        async with stage.node():
            with pytest.raises(JobFailed, match=rf"the resolver made {shown} of .*Reports"):
                await (await Reports.write.enqueue()).result(timeout=60)

    test()


def test_a_class_method_is_no_task() -> None:
    app = app_in_memory()
    declare: Any = app.task

    class Reports:
        @classmethod
        async def write(cls) -> None: ...

    method = Reports.__dict__["write"]
    for function, words in (
        (method.__func__, "a class method cannot be a task; let it take self"),
        (method, "@app.task: <classmethod.* is not a function"),
        (5, "@app.task: 5 is not a function"),
    ):
        with pytest.raises(ConfigError, match=words):
            declare(function)
    assert len(app.tasks) == 0


@in_virtual_time
async def test_a_task_of_an_abstract_class_is_refused_before_a_node_starts() -> None:
    stage = Stage()

    class Reports(abc.ABC):
        @abc.abstractmethod
        def title(self) -> str: ...

        @stage.app.task
        async def write(self) -> str:
            return self.title()

    class Sales(Reports):
        def title(self) -> str:
            return "sales"

    with pytest.raises(ConfigError, match=r"Reports is abstract, so no node can make one"):
        async with stage.node():
            pass
    with stage.app.override(Reports, Sales):
        async with stage.node():
            assert await (await Reports.write.enqueue()).result(timeout=60) == "sales"


async def test_mistakes_are_told_before_a_node_starts() -> None:
    app = app_in_memory()
    wrong: Any = app
    with pytest.raises(ConfigError, match=r"resolver\(7\): must have a method resolve"):
        wrong.resolver(7)
    with pytest.raises(ConfigError, match="scope='request'"):
        wrong.resolver(Container(False), scope="request")

    class Needy:
        def __init__(self, host: str) -> None: ...

        @app.task
        async def send(self) -> None: ...

    with pytest.raises(ConfigError, match=r"nobody gives host.*Needy\.send → .*Needy"):
        await app.node().start()

    app = app_in_memory()

    class Plain:
        async def send(self) -> None: ...

    app.task(Plain.send)
    with pytest.raises(ConfigError, match="takes self, but is no attribute of a class"):
        await app.node().start()


@in_virtual_time
async def test_a_function_inside_a_class_without_self_is_just_a_function() -> None:
    stage = Stage()

    class Tasks:
        @stage.app.task
        async def double(number: int) -> int:  # noqa: N805  a task, not a method
            return number * 2

    async with stage.node():
        assert await (await Tasks.double.enqueue(4)).result(timeout=60) == 8  # type: ignore[call-arg]
