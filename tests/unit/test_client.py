"""If these fail, mistakes are stored instead of refused, or somebody pays for another's."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from detent import (
    App,
    ConfigError,
    DetentError,
    InvalidArguments,
    InvalidJob,
    JobContext,
    KeyTaken,
    PayloadTooLarge,
    Retry,
    State,
    StoreError,
    StoreUnavailable,
    Task,
    UnknownTask,
    WrongThread,
)
from detent.errors import KeyMismatch
from detent.spi.notifier import Hint, Wake, token_of
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time
from tests.unit.apps import app_in_memory

SECOND = timedelta(seconds=1)
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  the mistake that is meant


def declare(app: App) -> Task[..., Any]:
    """Return a task that takes all kinds of arguments."""

    async def send(to: str, copies: int = 1, body: Any = None) -> str:
        return to

    task: Task[..., Any] = app.task(name="send")(send)
    return task


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


# Refused at once, with a word about where

BAD_ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "missing": ((), {}, "to"),
    "too many": (("a", 1, None, "more"), {}, "too many"),
    "unknown name": (("a",), {"cc": "b"}, "cc"),
    "twice": (("a",), {"to": "b"}, "to"),
    "wrong type": ((5,), {}, "$.to"),
    "wrong type inside": (("a", "three"), {}, "$.copies"),
    "an object": (("a",), {"body": object()}, "$.body"),
    "a function": (("a",), {"body": {"call": print}}, "$.body.call"),
    "NUL": (("a\0b",), {}, "$.to"),
    "NUL in a key": (("a",), {"body": {"\0": 1}}, "$.body"),
    "lone surrogate": (("a",), {"body": ["\ud800"]}, "$.body[0]"),
    "NaN": (("a",), {"body": {"x": [1.0, float("nan")]}}, "$.body.x[1]"),
    "infinity": (("a",), {"body": float("inf")}, "$.body"),
    "too deep": (("a",), {"body": nested(101)}, "more than 100 deep"),
    "a circle": (("a",), {"body": circle()}, "more than 100 deep"),
    "huge number": (("a",), {"body": 10**5000}, "digits"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_refused_and_nothing_is_stored(name: str) -> None:
    args, kwargs, where = BAD_ARGUMENTS[name]

    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        task = declare(stage.app)
        with pytest.raises(InvalidArguments) as caught:
            await task.enqueue(*args, **kwargs)
        assert where in f"{caught.value} {caught.value.path}"
        assert "send" in str(caught.value), "the task is named"
        assert stage.tables.job == {}
        assert stage.line.calls == [], "the store was not even asked"

    test()


BAD_OPTIONS: dict[str, tuple[dict[str, Any], type[DetentError], str]] = {
    "long key": ({"key": "x" * 256}, InvalidJob, "255"),
    "empty key": ({"key": ""}, InvalidJob, "not empty"),
    "key of another type": ({"unique": 5}, InvalidJob, "must be a text"),
    "key with a line break": ({"unique": "a\nb"}, InvalidJob, "unprintable"),
    "key with a NUL": ({"key": "a\0"}, InvalidJob, "unprintable"),
    "key with a surrogate": ({"key": "\ud800"}, InvalidJob, "unprintable"),
    "too many tags": ({"tags": [str(n) for n in range(51)]}, InvalidJob, "50"),
    "long tag": ({"tags": ["x" * 256]}, InvalidJob, "255"),
    "empty tag": ({"tags": ["a", ""]}, InvalidJob, "tags"),
    "params": ({"params": {"a": float("nan")}}, InvalidArguments, "$.a"),
    "big params": ({"params": {"a": "x" * (1 << 20)}}, PayloadTooLarge, "params"),
    "naive time": ({"at": NAIVE}, ConfigError, "time zone"),
    "negative delay": ({"delay": -SECOND}, ConfigError, "delay"),
    "delay and time": ({"delay": SECOND, "at": START}, ConfigError, "not both"),
    "priority": ({"priority": 5}, ConfigError, "CRITICAL 4"),
    "queue": ({"queue": "no such+queue"}, ConfigError, "queue"),
    "needs": ({"needs": ["a b"]}, ConfigError, "needs"),
    "timeout": ({"timeout": 0}, ConfigError, "above 0"),
    "on_conflict": ({"unique": "a", "on_conflict": "ignore"}, ConfigError, "replace"),
    "back-off function": ({"retry": Retry(backoff=lambda n: SECOND)}, ConfigError, "stored"),
    "never": ({"retry": Retry(never=(OSError,))}, ConfigError, "stored"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_refused_and_nothing_is_stored(name: str) -> None:
    options, kind, words = BAD_OPTIONS[name]

    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        task = declare(stage.app)
        with pytest.raises(kind) as caught:
            await task.options(**options).enqueue("ada")
        assert words in str(caught.value)
        assert stage.line.calls == []

    test()


@in_virtual_time
async def test_the_limits_themselves_are_allowed() -> None:
    stage = Stage()
    task = declare(stage.app)
    await task.options(key="x" * 255, unique="ü" * 255).enqueue("a", body=nested(97))
    await task.options(tags=[str(number) for number in range(50)]).enqueue("a")
    size = len(stage.app.client.prepare(task.bind("a", body="")).job.args)
    await task.enqueue("a", body="x" * ((1 << 20) - size))
    with pytest.raises(PayloadTooLarge) as caught:
        await task.enqueue("a", body="x" * ((1 << 20) - size + 1))
    assert (caught.value.size, caught.value.limit) == ((1 << 20) + 1, 1 << 20)
    assert len(stage.tables.job) == 3


@in_virtual_time
async def test_an_unknown_task_names_the_nearest() -> None:
    stage = Stage()
    declare(stage.app)
    with pytest.raises(UnknownTask, match="did you mean 'send'"):
        stage.app.tasks.get("sent")
    with pytest.raises(UnknownTask):
        stage.app.tasks.get("nothing like it")


@in_virtual_time
async def test_a_bad_call_does_not_harm_the_others_of_its_batch() -> None:
    stage = Stage()
    task = declare(stage.app)
    stage.line.latency = 0.01
    calls = [task.enqueue("a", body=object() if number == 5 else None) for number in range(10)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers].count(InvalidArguments) == 1
    assert len(stage.tables.job) == 9


@in_virtual_time
async def test_enqueue_many_stores_all_or_nothing_of_what_cannot_be_right() -> None:
    stage = Stage()
    task = declare(stage.app)
    good, bad = task.bind("a"), task.bind(5)
    with pytest.raises(InvalidArguments):
        await stage.app.enqueue_many([good] * 2000 + [bad])
    alone = (task.options(key="a"), task.options(unique="a"), task.options(within=object()))
    for each in alone:
        with pytest.raises(ConfigError, match="call 1 has"):
            await stage.app.enqueue_many([good, each.bind("a")])
    assert stage.tables.job == {}
    jobs = await stage.app.enqueue_many([good] * 2500)
    assert list(stage.tables.job) == [job.id for job in jobs]
    assert stage.line.count("enqueue_jobs") == 3, "a thousand a commit"


# What is stored


@in_virtual_time
async def test_options_end_up_in_the_job() -> None:
    stage = Stage()
    task = declare(stage.app)
    at = datetime(2031, 5, 1, tzinfo=UTC)
    job = await task.options(
        queue="mail", priority=4, at=at, tags=["b", "a", "b"], params={"x": 1}, needs=["gpu", "a"]
    ).enqueue("ada", body={"hi": None})
    info = await stage.app.jobs.get(job.id)
    assert (info.task, info.queue, info.priority, info.due_at) == ("send", "mail", 4, at)
    assert (info.tags, info.needs, info.params) == (("b", "a"), ("a", "gpu"), b'{"x":1}')
    assert info.args == b'{"to":"ada","body":{"hi":null}}'
    assert (info.state, info.attempt, info.generation) == (State.PENDING, 1, 1)


@in_virtual_time
async def test_keys_lead_to_the_job_that_holds_them() -> None:
    stage = Stage()
    task = declare(stage.app)
    first = await task.options(key="order-1").enqueue("a")
    again = await task.options(key="order-1").enqueue("a")
    assert (first.created, again.created, again.id) == (True, False, first.id)
    held = await task.options(unique="user-1").enqueue("a")
    with pytest.raises(KeyTaken) as caught:
        await task.options(unique="user-1").enqueue("b")
    assert (caught.value.key, caught.value.job_id) == ("user-1", held.id)
    same = await task.options(unique="user-1", on_conflict="return").enqueue("b")
    assert (same.created, same.id) == (False, held.id)
    other = await task.options(unique="user-1", on_conflict="replace").enqueue("b")
    assert other.created
    assert (await stage.app.jobs.get(held.id)).state is State.CANCELED


@in_virtual_time
async def test_an_enqueue_within_a_transaction_appears_with_its_commit() -> None:
    stage = Stage()
    task = declare(stage.app)
    async with stage.store.begin() as connection:
        job = await task.options(within=connection).enqueue("a")
        many = await stage.app.enqueue_many([task.bind("b"), task.bind("c")], within=connection)
        assert stage.tables.job == {}
    assert list(stage.tables.job) == [job.id, *(each.id for each in many)]


# Trouble


@in_virtual_time
async def test_a_lost_reply_stores_nothing_twice() -> None:
    stage = Stage()
    task = declare(stage.app)
    stage.line.lose("enqueue_jobs", reply=True, times=2)
    stage.line.lose("enqueue_jobs", times=1)
    job = await task.enqueue("a")
    assert list(stage.tables.job) == [job.id]
    sent = [call.args[0] for call in stage.line.calls]
    assert sent == [sent[0]] * 4, "the same id each time"
    stage.line.lose("enqueue_jobs", reply=True, times=2)
    await stage.app.enqueue_many([task.bind("b")] * 5)
    assert len(stage.tables.job) == 6


@in_virtual_time
async def test_a_lost_reply_to_a_keyed_enqueue_is_no_taken_key() -> None:
    stage = Stage()
    task = declare(stage.app)
    stage.line.lose("enqueue_keyed", reply=True)
    job = await task.options(unique="user-1").enqueue("a")
    assert job.created
    assert list(stage.tables.job) == [job.id]


@in_virtual_time
async def test_a_store_that_stays_away_is_said_to_be() -> None:
    stage = Stage()
    task = declare(stage.app)
    stage.line.lose(None, times=None)
    for key in (None, "user-1"):
        with pytest.raises(StoreUnavailable):
            await task.options(unique=key).enqueue("a")
    assert stage.now < 5, "soon enough for the one who waits"


class Notifications:
    """A notifier that only listens to what it is told."""

    def __init__(self) -> None:
        self.published: list[Wake] = []

    def publish(self, wakes: Any) -> None:
        self.published += wakes

    async def listen(self, receive: Callable[[Any], None]) -> None: ...

    async def flush(self) -> None: ...

    async def close(self) -> None: ...


@in_virtual_time
async def test_nodes_are_told_of_new_jobs_after_they_are_stored() -> None:
    stage, told = Stage(), Notifications()
    stage.app._notifier = told
    task = declare(stage.app)
    lone = await task.enqueue("a")
    assert told.published == [Hint("default", token=token_of(lone.id))]
    late, early = START + 9 * SECOND, START + 3 * SECOND
    calls = [task.options(queue="mail", at=at).bind("a") for at in (late, early, late)]
    jobs = await stage.app.enqueue_many([*calls, task.bind("b"), task.bind("c")])
    places = zip((late, early, late), jobs[:3], strict=True)
    positions = [Hint("mail", 2, at, job.id) for at, job in places]
    assert told.published[1:] == [Hint("default"), *positions]
    told.published.clear()
    stage.line.lose("enqueue_jobs", error=StoreError("refused"))
    with pytest.raises(StoreError):
        await task.enqueue("a")
    await task.options(key="k").enqueue("a")
    await task.options(key="k").enqueue("a")
    assert len(told.published) == 1, "for what was stored, and for nothing else"


# Blocking code, other loops


def test_blocking_code_enqueues_from_any_thread() -> None:
    app = app_in_memory()
    task = declare(app)
    jobs = [task.enqueue_sync("here"), task.options(queue="mail").enqueue_sync("here")]
    thread = threading.Thread(target=lambda: jobs.append(task.enqueue_sync("there")))
    thread.start()
    thread.join(10)
    with pytest.raises(InvalidArguments):
        task.enqueue_sync(5)
    found = asyncio.run(app.jobs.list())
    assert sorted(info.id for info in found) == sorted(job.id for job in jobs)


async def test_a_blocking_call_on_a_running_loop_is_refused() -> None:
    app = app_in_memory()
    task = declare(app)
    with pytest.raises(WrongThread, match="awaitable form"):
        task.enqueue_sync("a")
    job = await asyncio.to_thread(task.enqueue_sync, "a")
    assert [info.id for info in await app.jobs.list()] == [job.id]


def test_one_app_serves_several_loops_in_a_row() -> None:
    app = app_in_memory()

    @app.task
    async def echo(ctx: JobContext, number: int) -> int:
        return number

    async def once(number: int) -> int:
        async with app, app.node():
            jobs = await asyncio.gather(*(echo.enqueue(number) for _ in range(5)))
            return sum([await job.result(timeout=10) for job in jobs])

    assert [asyncio.run(once(number)) for number in range(3)] == [0, 5, 10]


# Whose keys they are


@in_virtual_time
async def test_a_key_of_one_task_does_not_swallow_the_job_of_another() -> None:
    app = app_in_memory()

    @app.task(name="mail")
    async def mail(order: int) -> None: ...

    @app.task(name="report")
    async def report(order: int) -> None: ...

    async with app:
        sent = await mail.options(key="order-42").enqueue(42)
        told = await report.options(key="order-42").enqueue(42)
        assert told.created
        assert told.id != sent.id
        assert (await told.info()).task == "report"
        held = await mail.options(unique="user-7").enqueue(7)
        assert (await report.options(unique="user-7").enqueue(7)).id != held.id


@in_virtual_time
async def test_a_key_with_other_arguments_is_refused() -> None:
    app = app_in_memory()
    send = declare(app)
    async with app:
        first = await send.options(key="order-42").enqueue("ada", body={"a": 1, "b": {3, 1}})
        same = await send.options(key="order-42").enqueue(
            to="ada", copies=1, body={"b": {1, 3}, "a": 1}
        )
        assert (same.id, same.created) == (first.id, False), "it says the same in other words"
        with pytest.raises(KeyMismatch) as refused:
            await send.options(key="order-42").enqueue("bob")
        assert (refused.value.key, refused.value.job_id) == ("order-42", first.id)
        assert refused.value.task == "send"
        given = await send.options(key="order-42", on_key_mismatch="return").enqueue("bob")
        assert (given.id, given.created) == (first.id, False)
        assert [job.id for job in await app.jobs.list()] == [first.id]
    with pytest.raises(ConfigError, match="on_key_mismatch='ignore'"):
        send.options(key="order-42", on_key_mismatch="ignore")  # type: ignore[arg-type]


@in_virtual_time
async def test_a_key_is_compared_although_a_default_has_no_json_form() -> None:
    app = app_in_memory()
    nothing = object()

    @app.task
    async def search(word: str, place: Any = nothing) -> None: ...

    async with app:
        first = await search.options(key="1").enqueue("ada")
        assert (await search.options(key="1").enqueue("ada")).id == first.id
        with pytest.raises(KeyMismatch):
            await search.options(key="1").enqueue("bob")
