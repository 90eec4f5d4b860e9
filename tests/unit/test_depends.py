"""If these fail, tasks get the wrong thing, too many of it, or it is never given back."""

import asyncio
import functools
import sqlite3
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Annotated, Any, Self

import pytest

from detent import (
    ConfigError,
    Depends,
    Fail,
    InvalidArguments,
    JobContext,
    JobFailed,
    Retry,
    Snooze,
    State,
)
from detent.events import HookFailed, JobSnoozed
from detent.spi.executor import Call
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time
from tests.unit.apps import app_in_memory

ONCE = Retry(max_attempts=1)
SOON = Retry(max_attempts=2, delay=timedelta(seconds=1), jitter=False)


class Notes(list[str]):
    """What happened, in order."""

    def provider(self, name: str) -> Callable[..., AsyncIterator[str]]:
        """Return an async provider that notes when its value is made and closed."""

        async def provide() -> AsyncIterator[str]:
            self.append(f"+{name}")
            yield name
            self.append(f"-{name}")

        provide.__qualname__ = name
        return provide


# Kinds of providers


def plain() -> str:
    return "plain"


async def awaited() -> str:
    return "awaited"


def generated() -> Iterator[str]:
    yield "generated"


async def generated_async() -> AsyncIterator[str]:
    yield "generated async"


@contextmanager
def managed() -> Generator[str]:
    yield "managed"


@asynccontextmanager
async def managed_async() -> AsyncGenerator[str]:
    yield "managed async"


class Client:
    """Something that wants to be entered and left."""

    def __init__(self, host: str = "localhost") -> None:
        self.host = host
        self.open = False

    async def __aenter__(self) -> Self:
        self.open = True
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.open = False


class Caller:
    async def __call__(self) -> str:
        return "called"


@pytest.mark.parametrize("scope", ["job", "node", "app"])
@pytest.mark.parametrize(
    "provider, value",
    [
        (plain, "plain"),
        (awaited, "awaited"),
        (generated, "generated"),
        (generated_async, "generated async"),
        (managed, "managed"),
        (managed_async, "managed async"),
        (lambda: "lambda", "lambda"),
        (functools.partial(lambda text: text, text="partial"), "partial"),
        (functools.partial(awaited), "awaited"),
        (functools.partial(generated_async), "generated async"),
        (functools.partial(managed), "managed"),
        (functools.partial(functools.partial(managed_async)), "managed async"),
        (Caller(), "called"),
    ],
)
@in_virtual_time
async def test_whatever_makes_something_is_a_provider(
    provider: Callable[..., Any], value: str, scope: Any
) -> None:
    stage = Stage()

    @stage.app.task
    async def tell(*, said: str = Depends(provider, scope=scope)) -> str:
        return said

    async with stage.node():
        assert await (await tell.enqueue()).result(timeout=60) == value
    await stage.app.close()


@in_virtual_time
async def test_a_class_with_some_of_its_arguments_is_entered_too() -> None:
    stage, clients = Stage(), list[Client]()
    local = functools.partial(Client, "mail.local")

    @stage.app.task
    async def send(*, client: Client = Depends(local)) -> bool:
        clients.append(client)
        return client.open

    async with stage.node():
        assert await (await send.enqueue()).result(timeout=60)
    assert [(client.host, client.open) for client in clients] == [("mail.local", False)]


@in_virtual_time
async def test_a_class_is_made_with_what_it_needs_and_entered() -> None:
    stage, clients = Stage(), list[Client]()

    class Mailer:
        def __init__(self, client: Client = Depends(Client, scope="node")) -> None:
            self.client = client

    @stage.app.task
    async def send(
        to: str,
        mailer: Annotated[Mailer, Depends(Mailer, scope="node")],
        client: Client = Depends(scope="node"),
    ) -> list[bool]:
        clients.append(mailer.client)
        return [mailer.client is client, client.open]

    wrong: Any = send
    async with stage.node():
        assert await (await wrong.enqueue("ada")).result(timeout=60) == [True, True]
    assert not clients[0].open, "left when the node stopped"


# Scopes


@in_virtual_time
async def test_each_lives_as_long_as_its_scope_says_and_ends_in_reverse_order() -> None:
    stage, notes = Stage(), Notes()

    async def settings() -> AsyncIterator[str]:
        notes.append("+settings")
        yield "settings"
        notes.append("-settings")

    async def pool(settings: str = Depends(settings, scope="app")) -> AsyncIterator[str]:
        notes.append("+pool")
        yield f"pool by {settings}"
        notes.append("-pool")

    async def cache(pool: str = Depends(pool, scope="node")) -> AsyncIterator[str]:
        notes.append("+cache")
        yield "cache"
        notes.append("-cache")

    async def session(
        ctx: JobContext, pool: str = Depends(pool, scope="node")
    ) -> AsyncIterator[str]:
        notes.append(f"+session {ctx.attempt}")
        yield f"session of {pool}"
        notes.append("-session")

    @stage.app.task
    async def work(
        cache: str = Depends(cache, scope="node"),
        session: str = Depends(session),
        again: str = Depends(session),
    ) -> str:
        notes.append("work")
        assert session is again
        return session

    for _ in range(2):
        async with stage.node():
            job = await work.enqueue()
            assert await job.result(timeout=60) == "session of pool by settings"
            await (await work.enqueue()).result(timeout=60)
        assert notes == [
            *(["+settings"] if _ == 0 else []),
            "+pool",
            "+cache",
            *["+session 1", "work", "-session"] * 2,
            "-cache",
            "-pool",
        ]
        notes.clear()
    await stage.app.close()
    assert notes == ["-settings"]


@in_virtual_time
async def test_what_many_jobs_need_at_once_is_made_once() -> None:
    stage, made = Stage(), list[float]()

    async def pool() -> object:
        made.append(stage.now)
        await asyncio.sleep(3)
        return object()

    @stage.app.task
    async def work(pool: object = Depends(pool, scope="node")) -> int:
        return id(pool)

    async with stage.node():
        jobs = await stage.app.enqueue_many([work.bind() for _ in range(20)])
        ids = {await job.result(timeout=60) for job in jobs}
    assert len(ids) == len(made) == 1


@in_virtual_time
async def test_whoever_came_first_may_give_up_without_harm_to_the_others() -> None:
    stage, made = Stage(), list[str]()

    async def pool() -> AsyncIterator[str]:
        with pytest.raises(Exception, match="outside of a job"):
            JobContext.current()
        await asyncio.sleep(10)
        made.append("pool")
        yield "pool"

    @stage.app.task(retry=ONCE)
    async def work(pool: str = Depends(pool, scope="node")) -> str:
        return pool

    async with stage.node():
        hasty = await work.options(timeout=2).enqueue()
        await asyncio.sleep(1)
        patient = await work.enqueue()
        with pytest.raises(JobFailed, match="took longer than 2"):
            await hasty.result(timeout=60)
        assert await patient.result(timeout=60) == "pool"
    assert made == ["pool"]


@in_virtual_time
async def test_what_could_not_be_made_is_tried_again_for_the_next() -> None:
    stage, tries = Stage(), list[int]()

    async def pool() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no route")
        return "pool"

    @stage.app.task(retry=SOON)
    async def work(pool: str = Depends(pool, scope="node")) -> str:
        return pool

    async with stage.node():
        job = await work.enqueue()
        assert await job.result(timeout=60) == "pool"
        assert (await job.info()).attempt == 2
    assert len(tries) == 2


async def test_each_event_loop_has_its_own_of_the_app() -> None:
    app, notes = app_in_memory(), Notes()
    provide = notes.provider("value")

    @app.task
    async def work(value: str = Depends(provide, scope="app")) -> str:
        return value

    async def once() -> None:
        assert await work() == "value"
        await app.close()

    await once()
    await asyncio.to_thread(lambda: asyncio.run(once()))
    assert notes == ["+value", "-value"] * 2


@in_virtual_time
async def test_what_cannot_be_closed_is_told_and_keeps_nobody() -> None:
    stage, notes = Stage(), Notes()

    async def broken() -> AsyncIterator[str]:
        yield "broken"
        raise OSError("cannot close")

    async def endless() -> AsyncIterator[str]:
        yield "endless"
        await asyncio.sleep(1_000)

    for_node, for_app = notes.provider("node"), notes.provider("app")

    @stage.app.task
    async def work(
        for_app: str = Depends(for_app, scope="app"),
        for_node: str = Depends(for_node, scope="node"),
        broken: str = Depends(broken, scope="node"),
        endless: str = Depends(endless, scope="node"),
    ) -> None: ...

    async with stage.node():
        await (await work.enqueue()).result(timeout=60)
        begun = stage.now
    assert stage.now - begun < 60
    told = {event.name.rpartition(".")[2]: event.error for event in stage.told(HookFailed)}
    assert told == {
        "broken": "OSError: cannot close",
        "endless": "TimeoutError: it took longer than 10 s",
    }
    assert notes == ["+app", "+node", "-node"]
    await stage.app.close()
    assert notes[-1] == "-app"


# The end of a job


@pytest.mark.parametrize("how", ["success", "failure", "timeout", "cancel"])
@in_virtual_time
async def test_what_was_made_for_a_job_is_closed_however_it_ends(how: str) -> None:
    stage, notes = Stage(), list[str]()
    begun = asyncio.Event()

    async def session() -> AsyncIterator[str]:
        try:
            yield "session"
        except BaseException as error:
            notes.append(type(error).__name__)
            raise
        finally:
            notes.append("closed")

    @stage.app.task(retry=ONCE, timeout=10)
    async def work(session: str = Depends(session)) -> None:
        begun.set()
        if how == "failure":
            raise ValueError("bad")
        if how != "success":
            await asyncio.Event().wait()

    async with stage.node() as node:
        job = await work.enqueue()
        if how == "cancel":
            await begun.wait()
            await job.cancel()
        await stage.until(lambda: begun.is_set() and not node._crew.dispatcher.held)
    expected = {
        "success": [],
        "failure": ["ValueError"],
        "timeout": ["CancelledError"],
        "cancel": ["CancelledError"],
    }
    assert notes == [*expected[how], "closed"]


@in_virtual_time
async def test_errors_of_providers_are_those_of_the_task() -> None:
    stage = Stage()

    async def wrong_at_the_end() -> AsyncIterator[str]:
        yield "value"
        raise OSError("cannot commit")

    async def never() -> str:
        raise Fail("not for you")

    async def later(ctx: JobContext) -> str:
        if not stage.told(JobSnoozed):
            raise Snooze(timedelta(seconds=5))
        return "now"

    @stage.app.task(retry=ONCE)
    async def at_the_end(value: str = Depends(wrong_at_the_end)) -> str:
        return value

    @stage.app.task
    async def at_the_beginning(value: str = Depends(never)) -> str:
        return value

    @stage.app.task
    async def snoozed(value: str = Depends(later)) -> str:
        return value

    async with stage.node():
        with pytest.raises(JobFailed, match="cannot commit"):
            await (await at_the_end.enqueue()).result(timeout=60)
        with pytest.raises(JobFailed, match="not for you"):
            await (await at_the_beginning.enqueue()).result(timeout=60)
        assert await (await snoozed.enqueue()).result(timeout=60) == "now"


async def lenient() -> AsyncIterator[str]:
    with suppress(ValueError, LookupError):
        yield "session"


def lenient_too() -> Iterator[str]:
    with suppress(ValueError, LookupError):
        yield "session"


def missing(session: str = Depends(lenient_too), again: str = Depends(lenient)) -> str:
    raise LookupError("nothing there")


async def test_a_provider_that_swallows_an_error_makes_no_success_of_it() -> None:
    app = app_in_memory()
    task = app.task(retry=ONCE)

    @task
    async def work(session: str = Depends(lenient)) -> None:
        raise ValueError("bad")

    @task
    def threaded(session: str = Depends(lenient_too)) -> None:
        raise ValueError("bad")

    @task
    async def unmade(missing: str = Depends(missing)) -> None: ...

    @task
    def threaded_unmade(missing: str = Depends(missing)) -> None: ...

    async with app, app.node():
        for raising in (work, threaded):
            with pytest.raises(JobFailed, match="ValueError: bad"):
                await (await raising.enqueue()).result(timeout=60)
        for lacking in (unmade, threaded_unmade):
            with pytest.raises(JobFailed, match="LookupError: nothing there"):
                await (await lacking.enqueue()).result(timeout=60)
    with pytest.raises(ValueError, match="bad"):
        await work()
    with pytest.raises(ValueError, match="bad"):
        threaded()


@in_virtual_time
async def test_what_ended_by_itself_is_made_anew() -> None:
    stage, made = Stage(), list[int]()

    async def fail_after(seconds: float) -> None:
        await asyncio.sleep(seconds)
        raise OSError("the connection is gone")

    async def pool() -> AsyncIterator[int]:
        made.append(len(made) + 1)
        async with asyncio.TaskGroup() as group:
            if len(made) == 1:
                group.create_task(fail_after(10))
            yield made[-1]

    @stage.app.task
    async def work(pool: int = Depends(pool, scope="node")) -> int:
        return pool

    async with stage.node():
        assert await (await work.enqueue()).result(timeout=5) == 1
        await asyncio.sleep(20)
        assert await (await work.enqueue()).result(timeout=5) == 2
        assert await (await work.enqueue()).result(timeout=5) == 2


@pytest.mark.parametrize("stubborn", [False, True])
@in_virtual_time
async def test_what_is_being_made_when_a_node_stops_is_tidied_up(stubborn: bool) -> None:
    stage, notes = Stage(), list[str]()

    async def pool() -> AsyncIterator[str]:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            notes.append("stopped")
            if not stubborn:
                raise
        yield "made after all"
        notes.append("closed")

    @stage.app.task(timeout=1, retry=ONCE)
    async def work(pool: str = Depends(pool, scope="node")) -> None: ...

    async with stage.node():
        with pytest.raises(JobFailed, match="longer than 1"):
            await (await work.enqueue()).result(timeout=60)
    assert notes == (["stopped", "closed"] if stubborn else ["stopped"])


# Threads


async def test_on_a_thread_blocking_providers_run_where_the_job_does() -> None:
    app = app_in_memory()

    async def path() -> str:
        assert threading.current_thread() is threading.main_thread()
        return ":memory:"

    def connection(
        ctx: JobContext, path: str = Depends(path, scope="node")
    ) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(path)
        yield connection
        connection.close()  # SQLite would refuse another thread

    async def name(path: str = Depends(path, scope="node")) -> str:
        return f"name of {path}"

    @app.task
    def work(
        number: int,
        connection: sqlite3.Connection = Depends(connection),
        name: str = Depends(name),
    ) -> list[Any]:
        (found,) = connection.execute("SELECT ? + 1", [number]).fetchone()
        return [found, name, threading.current_thread() is threading.main_thread()]

    async with app, app.node():
        assert await (await work.enqueue(1)).result(timeout=10) == [
            2,
            "name of :memory:",
            False,
        ]


async def test_a_function_that_returns_a_coroutine_is_a_provider_too() -> None:
    app = app_in_memory()

    async def make(name: str) -> str:
        return f"a {name}"

    @app.task(retry=ONCE)
    async def work(
        pool: str = Depends(lambda: make("pool"), scope="node"),
        session: str = Depends(lambda: make("session")),
    ) -> str:
        return f"{session} of {pool}"

    @app.task(retry=ONCE)
    def threaded(value: str = Depends(lambda: make("thing"))) -> str:
        raise AssertionError(value)

    async with app, app.node():
        assert await (await work.enqueue()).result(timeout=60) == "a session of a pool"
        with pytest.raises(JobFailed, match=r"gave a coroutine to a thread: write it as async def"):
            await (await threaded.enqueue()).result(timeout=60)


async def test_what_an_async_provider_needs_is_made_on_the_loop() -> None:
    app = app_in_memory()

    def config() -> str:
        return threading.current_thread().name

    async def session(config: str = Depends(config)) -> str:
        return config

    @app.task
    def work(session: str = Depends(session), config: str = Depends(config)) -> list[str]:
        return [session, config]

    async with app, app.node():
        main = threading.main_thread().name
        assert await (await work.enqueue()).result(timeout=10) == [main, main]


# Overriding


@in_virtual_time
async def test_a_test_may_put_something_else_in_its_place() -> None:
    stage, notes = Stage(), Notes()

    async def host() -> str:
        return "real host"

    async def smtp(host: str = Depends(host, scope="node")) -> AsyncIterator[str]:
        notes.append("+smtp")
        yield f"smtp at {host}"
        notes.append("-smtp")

    @stage.app.task
    async def send(smtp: str = Depends(smtp, scope="node")) -> str:
        return smtp

    async def result() -> str:
        return await (await send.enqueue()).result(timeout=60)

    async with stage.node():
        assert await result() == "smtp at real host"
        with stage.app.override(host, lambda: "test host"):
            # What depends on it is another one as well, although the first was kept.
            assert await result() == "smtp at test host"
            assert await send() == "smtp at test host"
            with stage.app.override(smtp, lambda: "fake"):
                assert await result() == "fake"
            assert await result() == "smtp at test host"
        assert await result() == "smtp at real host"
    assert notes.count("+smtp") == notes.count("-smtp")


def test_an_override_must_be_a_provider() -> None:
    app = app_in_memory()
    wrong: Any = app
    with pytest.raises(ConfigError, match=r"replacement=7.*give `lambda: value`"):
        wrong.override(plain, 7)
    with pytest.raises(ConfigError, match="provider='plain'"):
        wrong.override("plain", plain)

    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> int:
            return 7

    with pytest.raises(ConfigError, match=r"override\(provider=.*Unhashable"):
        wrong.override(Unhashable(), plain)


def test_an_override_that_cannot_be_made_is_told_when_it_is_needed() -> None:
    app = app_in_memory()

    @app.task
    def work(value: str = Depends(plain)) -> str:
        return value

    def needs_more(more: int) -> str:
        return str(more)

    with (
        app.override(plain, needs_more),
        pytest.raises(ConfigError, match="nobody gives more"),
    ):
        work()
    assert work() == "plain"


# Callers


@in_virtual_time
async def test_callers_neither_see_nor_give_it() -> None:
    stage = Stage()

    @stage.app.task
    async def send(to: str, *, smtp: str = Depends(plain), times: int = 1) -> str:
        return f"{to} by {smtp}" * times

    with pytest.raises(InvalidArguments, match="unexpected keyword argument 'smtp'"):
        await send.enqueue("ada", smtp="mine")
    async with stage.node():
        job = await send.enqueue("ada", times=2)
        assert await job.result(timeout=60) == "ada by plain" * 2
    assert (await job.info()).args == b'{"to":"ada","times":2}'


async def test_a_direct_call_makes_what_is_not_given_and_closes_it() -> None:
    app, notes = app_in_memory(), Notes()
    session, pool, config = (notes.provider(name) for name in ("session", "pool", "config"))

    @app.task
    async def send(
        to: str,
        session: str = Depends(session),
        pool: str = Depends(pool, scope="node"),
        config: str = Depends(config, scope="app"),
    ) -> str:
        return f"{to} {session} {pool} {config}"

    assert await send("ada", session="mine", pool="mine", config="mine") == "ada mine mine mine"
    assert notes == []
    assert await send("ada", "mine") == "ada mine pool config"
    assert notes == ["+pool", "+config", "-pool"]
    notes.clear()
    assert await send("ada") == "ada session pool config"
    assert notes == ["+session", "+pool", "-session", "-pool"]
    await app.close()
    assert notes[-1] == "-config"


def test_a_direct_call_of_a_blocking_task() -> None:
    app = app_in_memory()

    @app.task
    def work(number: int, value: str = Depends(generated), other: str = Depends(awaited)) -> str:
        return f"{number} {value} {other}"

    assert work(1, other="given") == "1 generated given"
    with pytest.raises(ConfigError, match=r"without other, which awaited can only .* pass other="):
        work(1)


async def test_a_provider_that_needs_a_job_has_none_in_a_direct_call() -> None:
    app = app_in_memory()

    async def tenant(ctx: JobContext) -> str:
        return ctx.tags[0]

    @app.task
    async def inner(tenant: str = Depends(tenant)) -> str:
        return tenant

    @app.task
    async def outer() -> str:
        return await inner()

    with pytest.raises(ConfigError, match=r"tenant\(\) takes a JobContext, and there is no job"):
        await inner()
    async with app, app.node():
        job = await outer.options(tags=["acme"]).enqueue()
        assert await job.result(timeout=10) == "acme"


# Mistakes


def ring_one(two: "Annotated[int, Depends(ring_two)]") -> int:
    return two


def ring_two(three: "Annotated[int, Depends(ring_three)]") -> int:
    return three


def ring_three(one: "Annotated[int, Depends(ring_one)]") -> int:
    return one


def for_a_job(ctx: JobContext) -> int:
    return ctx.attempt


def for_a_node(job: int = Depends(for_a_job)) -> int:
    return job


def watched_pool(ctx: JobContext) -> int:
    return ctx.attempt


def needy(host: str) -> str:
    return host


def test_what_cannot_be_made_is_refused_where_the_task_is_declared() -> None:  # noqa: C901  samples
    app = app_in_memory()

    async def in_a_ring(value: int = Depends(ring_one)) -> None: ...
    async def too_long(value: int = Depends(for_a_node, scope="node")) -> None: ...
    async def watched(value: int = Depends(watched_pool, scope="app")) -> None: ...
    async def in_doubt(value: int = Depends(for_a_job, scope="app")) -> None: ...
    async def with_needy(value: str = Depends(needy)) -> None: ...
    async def twice(value: Annotated[str, Depends(plain)] = Depends(plain)) -> None: ...
    async def unclear(value: "int | str" = Depends()) -> None: ...
    async def positional(value: str = Depends(plain), /) -> None: ...
    async def spread(value: str = Depends(plain), *rest: int) -> None: ...
    async def by_job(value: str = Depends(plain)) -> None: ...
    async def by_node(value: str = Depends(plain, scope="node")) -> None: ...

    ring = r"ring_one \(job\) → ring_two \(job\) → ring_three \(job\) → ring_one \(job\)"
    for function, words in (
        (in_a_ring, f"circle: .*in_a_ring → {ring}"),
        (in_doubt, r"only a job-scoped .* JobContext"),
        (too_long, r"lives longer .*too_long → for_a_node \(node\) → for_a_job \(job\)"),
        (watched, r"only a job-scoped .* JobContext: .*watched → watched_pool \(app\)"),
        (with_needy, r"needy\(\): nobody gives host, which has neither .*with_needy → needy"),
        (twice, r"value has more than one Depends"),
        (unclear, r"value = Depends\(\) needs a provider"),
        (positional, r"value is injected by name and cannot be positional only"),
        (spread, r"put a `\*` before value, which is injected"),
    ):
        with pytest.raises(ConfigError, match=words):
            app.task(function)

    async def changed_his_mind(value: int = Depends(for_a_job, scope="job")) -> None: ...

    app.task(changed_his_mind)  # what was refused before has left nothing behind
    app.task(by_job)
    with pytest.raises(ConfigError, match=r"plain is job-scoped for .*by_job and node-scoped for"):
        app.task(by_node)
    assert len(app.tasks) == 2
    with pytest.raises(ConfigError, match=r"daemon .*by_job: Depends\(\.\.\.\) is for tasks"):
        app.daemon(by_job)


def test_a_wrong_marker_is_refused_where_it_stands() -> None:
    wrong: Any = Depends
    with pytest.raises(ConfigError, match=r"Depends\(7\): must be given a function or a class"):
        wrong(7)
    with pytest.raises(ConfigError, match=r"scope='request'.*: must be app, node, job"):
        wrong(plain, scope="request")


@in_virtual_time
async def test_tasks_without_dependencies_are_called_as_ever() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    assert work.is_plain
    async with stage.node() as node:
        job = await work.enqueue()
        await job.result(timeout=60)
        assert node._parts.lifetime is not None
        assert not node._parts.lifetime._kept
    assert (await job.info()).state is State.SUCCEEDED


# Executors of one's own


class Elsewhere:
    """Calls the function as it is, or makes what it needs itself."""

    def __init__(self, furnishes: bool) -> None:
        self.furnishes = furnishes

    async def run(self, call: Call) -> Any:
        if not self.furnishes:
            return await call.function(*call.args, **call.kwargs)
        return await call.function(*call.args, **call.kwargs, value="made elsewhere")

    async def close(self) -> None: ...


@pytest.mark.parametrize("furnishes, value", [(False, "plain"), (True, "made elsewhere")])
@in_virtual_time
async def test_an_executor_of_ones_own_gets_it_or_makes_it(furnishes: bool, value: str) -> None:
    stage = Stage()
    stage.app.executor("elsewhere", Elsewhere(furnishes))

    @stage.app.task(executor="elsewhere")
    async def work(*, value: str = Depends(plain)) -> str:
        return value

    async with stage.node():
        assert await (await work.enqueue()).result(timeout=60) == value
