"""If these fail, what can be no task, call or id is taken for one, and comes to nothing."""

import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from detent import App, ConfigError, InvalidArguments


def numbers() -> Iterator[int]:
    yield 1


async def async_numbers() -> AsyncIterator[int]:
    yield 1


async def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.mark.parametrize("function", [numbers, async_numbers])
def test_a_generator_is_no_task(app: App, function: Callable[..., Any]) -> None:
    """Calling one runs nothing, so that its jobs would succeed without having done anything."""
    with pytest.raises(ConfigError, match=r"numbers\(\): yields, .* return"):
        app.task(function)
    with pytest.raises(ConfigError, match=r"numbers\(\): yields, .* return"):
        app.task(batch=10)(function)
    with pytest.raises(ConfigError, match=r"numbers\(\): yields, .* return"):
        app.schedule("@daily")(function)


def test_a_lambda_must_be_given_a_name(app: App) -> None:
    with pytest.raises(ConfigError, match=r"<lambda> .* has no name .*; write name="):
        app.task(lambda: None)
    assert app.task(name="nothing")(lambda: None).name == "nothing"


def test_what_can_be_called_need_not_be_a_function(app: App) -> None:
    with pytest.raises(ConfigError, match=r"@app.task: functools.partial.* is not a function"):
        app.task(functools.partial(double, 3))


@pytest.mark.parametrize("name", ["", "two\nlines", "nul\0", "x" * 256, 5])
def test_a_name_can_be_stored_and_read(app: App, name: Any) -> None:
    with pytest.raises(ConfigError, match=r"^task .*: must be 1 to 255 printable characters"):
        app.task(name=name)(double)


async def test_many_calls_may_come_from_a_generator(app: App) -> None:
    task = app.task(double)
    async with app, app.node():
        jobs = await app.enqueue_many(task.bind(number) for number in range(3))
        assert [await job.result(timeout=10) for job in jobs] == [0, 2, 4]
        assert len(await app.jobs.list()) == 3


async def test_a_context_without_its_type_is_an_argument(app: App) -> None:
    send = app.task(name="send")(lambda ctx, to: None)
    with pytest.raises(InvalidArguments, match=r"'ctx'; for the context write ctx: JobContext$"):
        await send.enqueue(to="ada")


@pytest.mark.parametrize("what", ["task", "called", "text"])
async def test_only_calls_can_be_enqueued(app: App, what: str) -> None:
    task = app.task(name="double")(lambda number: 2 * number)
    call: Any = {"task": task, "called": task(1), "text": "double"}[what]
    async with app:
        with pytest.raises(ConfigError, match=r"enqueue\(.*\): must be a call, such as .*bind"):
            await app.enqueue(call)
        with pytest.raises(ConfigError, match=r"enqueue\(.*\): must be a call, such as .*bind"):
            await app.enqueue_many([task.bind(1), call])
        assert not await app.jobs.list()


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
async def test_the_text_of_an_id_is_no_id(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it depends on the store whether the job is not found, or waited for without an end."""
    monkeypatch.chdir(tmp_path)
    app = App(url)
    task = app.task(double)
    async with app:
        job = await task.enqueue(1)
        text: Any = str(job.id)
        jobs = app.jobs
        for ask in (jobs.get, jobs.result, jobs.log, jobs.attempts, jobs.cancel, jobs.delete):
            with pytest.raises(ConfigError, match=rf"^job_id = '{text}': must be a UUID"):
                await ask(text)
        with pytest.raises(ConfigError, match=r"^before = .*: must be a UUID"):
            await jobs.list(before=text)


@pytest.mark.parametrize("field", ["task", "queue", "tag", "key"])
async def test_what_no_job_can_have_is_refused_as_a_filter(app: App, field: str) -> None:
    """Else it depends on the store whether nothing is found, or the database refuses."""
    async with app:
        jobs = app.jobs
        for value in ("a\0b", "a\ud800", 7, double):
            filters: Any = {field: value}
            problem = rf"^{field} = {re.escape(repr(value))}: must be a text"
            for ask in (jobs.list, jobs.cancel_all, jobs.retry_all, jobs.delete_all):
                with pytest.raises(ConfigError, match=problem):
                    await ask(**filters)
            if field == "queue":
                with pytest.raises(ConfigError, match=problem):
                    await jobs.purge(**filters)


def test_only_calls_can_be_enqueued_by_blocking_code(app: App) -> None:
    task: Any = app.task(double)
    with pytest.raises(ConfigError, match=r"must be a call, such as .*bind"):
        app.enqueue_sync(task)
    with pytest.raises(ConfigError, match=r"must be a call, such as .*bind"):
        app.enqueue_many_sync([task])
