"""If these fail, a task behaves differently in a child process than on a thread.

The children are real. They are slow to start, so these tests share two of them.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from detent import App, JobCanceled, JobContext, State
from detent._engine.attempt import Attempt
from detent.config import LimitsConfig
from detent.errors import ConfigError, ResultNotStored
from detent.events import JobRetrying, ResultDropped
from detent.firings import fired_job, firing_of
from detent.model.schedule import Schedule
from tests.unit.process_node import Station, station
from tests.unit.process_tasks import (
    ONCE,
    PATIENCE,
    Point,
    fail_with,
    nothing,
    unknown_to_children,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = LimitsConfig(max_result=10_000, max_log_line=100)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node() -> AsyncIterator[Station]:
    async with station(2, LIMITS) as shared:
        yield shared


# ---------------------------------------------------------------- arguments and results


async def test_it_runs_in_another_process_which_stays_for_the_next_job(node: Station) -> None:
    first = await node.result("pid")
    assert first != os.getpid()
    assert await node.result("pid") == first


async def test_arguments_arrive_as_their_types_and_the_result_comes_back(node: Station) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    result = await node.result("echo", Point(41, moment), [1, 2, 3])
    assert result == {
        "next": {"x": 42, "at": "2030-01-01T00:00:00Z"},
        "type": "Point",
        "sum": 6,
    }
    assert await node.result("nothing") is None


async def test_payloads_larger_than_any_buffer_pass_both_ways(node: Station) -> None:
    assert await node.result("size_of", "x" * 900_000) == 900_000


async def test_a_result_that_is_too_large_or_has_no_json_form_is_dropped(node: Station) -> None:
    told: list[ResultDropped] = []
    node.app.on(ResultDropped, told.append)
    assert await node.result("text_of", 4_000) == "é" * 4_000
    with pytest.raises(ResultNotStored, match="12,002 bytes, more than the limit"):
        await node.result("text_of", 6_000)
    with pytest.raises(ResultNotStored, match="object"):
        await node.result("unstorable")
    assert "12,002 bytes, more than the limit of 10,000" in told[0].problem
    assert "object" in told[1].problem
    error = await node.failure("strict")
    assert "the result cannot be stored" in error["message"]


async def test_async_functions_run_there_too(node: Station) -> None:
    job = await node.enqueue("add_async", 1, 2)
    total, job_id, pid = await job.result(timeout=PATIENCE)
    assert (total, job_id) == (3, str(job.id))
    assert pid != os.getpid()


async def test_middleware_sees_the_value_and_may_replace_it() -> None:
    seen: list[Any] = []

    async def double(ctx: JobContext, proceed: Any) -> Any:
        seen.append(await proceed())
        return seen[-1] * 2

    async with station() as own:
        own.app._middleware.append(double)
    async with own.app.node():
        assert await own.result("size_of", "four") == 8
    assert seen == [4]


# ---------------------------------------------------------------- the context


async def test_the_context_is_there_with_all_that_it_says(node: Station) -> None:
    job = await node.enqueue(
        "introspect", 7, timeout=30, params={"tenant": "acme"}, tags=["urgent", "big"]
    )
    told = await job.result(timeout=PATIENCE)
    assert told["job_id"] == str(job.id)
    assert (told["task"], told["queue"], told["number"]) == ("introspect", "default", 7)
    assert (told["attempt"], told["generation"]) == (1, 1)
    assert told["node_id"] == str(node.node.id)
    assert (told["params"], told["tags"]) == ({"tenant": "acme"}, ["urgent", "big"])
    assert (told["schedule"], told["slot"]) == (None, None)
    assert told["canceled"] is False
    left = datetime.fromisoformat(told["deadline"]) - datetime.fromisoformat(told["now"])
    assert timedelta(seconds=20) < left <= timedelta(seconds=30)
    lines = await node.app.jobs.log(job.id)
    assert [(line.level, line.attempt) for line in lines] == [("info", 1), ("error", 1)]
    assert lines[0].message == "from a child"
    assert len(lines[1].message) == 100, "cut to the limit"


async def test_a_job_of_a_schedule_knows_its_slot(node: Station) -> None:
    job = node.app.client.prepare(node.app.tasks.get("introspect").bind(7)).job
    schedule = Schedule(name="nightly", trigger=b"{}", firing=firing_of(job))
    slot = datetime(2030, 3, 31, 1, 30, 0, 250, tzinfo=UTC)
    await node.app.store.enqueue_jobs([fired_job(schedule, slot, job.id)])
    told = await node.app.jobs.result(job.id, timeout=PATIENCE)
    assert told["schedule"] == "nightly"
    assert datetime.fromisoformat(told["slot"]) == slot


async def test_progress_told_without_a_pause_does_not_flood_the_node(
    node: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []
    monkeypatch.setattr(Attempt, "save_progress", lambda _, fraction, __: heard.append(fraction))
    assert await node.result("progress_often", 50_000) == 50_000
    assert heard[-1] == 0.99998, "the last word counts"
    assert len(heard) < 1_000


async def test_a_child_shows_that_it_goes_on_and_does_not_flood_the_node(
    node: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[UUID] = []
    monkeypatch.setattr(Attempt, "heartbeat", lambda attempt: heard.append(attempt.job_id))
    job = await node.enqueue("beat_often", 50_000)
    assert await job.result(timeout=PATIENCE) == 50_000
    assert set(heard) == {job.id}
    assert len(heard) < 1_000


async def test_progress_that_was_held_back_is_told_while_the_task_is_silent(
    node: Station, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    job = await node.enqueue("hold_back", str(until))
    while (await job.info()).progress_message != "held back":  # noqa: ASYNC110  a process
        await asyncio.sleep(0.005)
    until.touch()
    await job.result(timeout=PATIENCE)


@pytest.mark.parametrize("name", ["transact", "set_result"])
async def test_a_child_never_opens_the_store(node: Station, name: str) -> None:
    error = await node.failure(name)
    assert error["type"] == "ConfigError"
    assert "not there in a child process" in error["message"]
    assert name in error["message"]
    assert "asyncpg" not in await node.result("modules")


async def test_what_a_job_sets_for_itself_the_next_does_not_find(node: Station) -> None:
    assert [await node.result("leak") for _ in range(3)] == ["clean"] * 3


# ---------------------------------------------------------------- exceptions


@pytest.mark.parametrize(
    "kind,type_,message",
    [
        ("value", "ValueError", "bad value"),
        ("own", "OwnError", "code 7: seven"),
        ("exit", "SystemExit", "3"),
        ("interrupt", "KeyboardInterrupt", ""),
        ("stop", "StopIteration", ""),
        ("cancelled", "CancelledError", ""),
        ("speechless", "Speechless", "<its message could not be read: RuntimeError>"),
        ("surrogate", "ValueError", "a ? and a \ufffd"),
        ("fail", "Fail", "no use"),
        ("hopeless", "Hopeless", "no hope"),
    ],
)
async def test_what_it_raises_is_stored_with_its_type_message_and_traceback(
    node: Station, kind: str, type_: str, message: str
) -> None:
    error = await node.failure("fail_with", kind)
    assert (error["type"], error["message"]) == (type_, message)
    assert "process_tasks.py" in error["traceback"]
    assert "IndexError: pop from empty list" in error["traceback"], "the cause too"


async def test_a_failed_attempt_is_retried_by_the_policy(node: Station) -> None:
    told: list[JobRetrying] = []
    node.app.on(JobRetrying, told.append)
    job = await node.enqueue("fail_with_retries", "own")
    with pytest.raises(Exception, match="OwnError: code 7"):
        await job.result(timeout=PATIENCE)
    assert (await job.info()).attempt == 3
    assert told[0].error == "OwnError: code 7: seven"


@pytest.mark.parametrize("kind", ["value", "unicode"])
async def test_classes_that_are_never_retried_are_known_by_their_instances(
    node: Station, kind: str
) -> None:
    job = await node.enqueue("fail_never", kind)
    with pytest.raises(Exception, match="value"):
        await job.result(timeout=PATIENCE)
    assert (await job.info()).attempt == 1


@pytest.mark.parametrize("kind", ["error", "retry_after"])
async def test_a_cause_that_is_never_retried_counts_too(node: Station, kind: str) -> None:
    job = await node.enqueue("caused_never", kind)
    with pytest.raises(Exception, match=r"wrapped|retried after"):
        await job.result(timeout=PATIENCE)
    assert (await job.info()).attempt == 1


@pytest.mark.parametrize("kind,attempts", [("own", 3), ("fail", 1), ("retry_after", 3)])
async def test_what_the_task_says_about_retries_is_heard(
    node: Station, kind: str, attempts: int
) -> None:
    job = await node.enqueue("fail_with_retries", kind)
    with pytest.raises(Exception, match=r"seven|no use|not yet"):
        await job.result(timeout=PATIENCE)
    assert (await job.info()).attempt == attempts


async def test_a_policy_of_the_jobs_own_keeps_the_classes_of_the_task(node: Station) -> None:
    policy = node.app.tasks.get("fail_with_retries").options_declared.retry
    job = await node.enqueue("fail_never", "value", retry=policy)
    with pytest.raises(Exception, match="bad value"):
        await job.result(timeout=PATIENCE)
    assert (await job.info()).attempt == 1


async def test_a_snooze_is_no_attempt(node: Station, tmp_path: Path) -> None:
    assert await node.result("snooze_first", str(tmp_path / "marker")) == 1


async def test_a_job_may_cancel_itself(node: Station) -> None:
    job = await node.enqueue("fail_with", "canceled")
    with pytest.raises(JobCanceled, match="by itself"):
        await job.result(timeout=PATIENCE)
    assert (await job.info()).state is State.CANCELED


# ---------------------------------------------------------------- the world around


async def test_what_it_prints_goes_to_the_errors_of_the_node(
    node: Station, capfd: pytest.CaptureFixture[str]
) -> None:
    # A child of this test's own: the shared ones were born with another stderr.
    async with station() as own:
        await own.result("say", "something printed")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "something printed\nsomething printed again\n"


async def test_signals_to_everybody_are_left_to_the_node(node: Station) -> None:
    assert await node.result("signaled") == "0", "and programs that it starts are as usual"


async def test_it_inherits_nothing_but_its_own_line(node: Station, tmp_path: Path) -> None:
    secret = (tmp_path / "secret").open("w")
    with secret:
        os.set_inheritable(secret.fileno(), True)
        async with station() as own:
            names = await own.result("open_descriptors")
    kinds = sorted({name.partition(":")[0] for name in names if not name.startswith("/")})
    assert len([name for name in names if name.startswith("socket:")]) == 1
    assert str(tmp_path / "secret") not in names, kinds


async def test_a_task_that_children_do_not_find_fails_and_says_so(node: Station) -> None:
    node.app.task(name="ghost", executor="process")(unknown_to_children)
    job = await node.app.tasks.get("ghost").options(retry=ONCE).enqueue(1)
    with pytest.raises(Exception, match="cannot be loaded in a child process: no task is named"):
        await job.result(timeout=PATIENCE)
    assert await node.result("pid"), "and the child is as good as before"


# ---------------------------------------------------------------- declaring


async def test_a_task_that_no_child_could_import_is_refused() -> None:
    app = App("memory://")

    def local() -> None: ...

    with pytest.raises(ConfigError, match=r"local: .*inside a function"):
        app.task(executor="process")(local)
    with pytest.raises(ConfigError, match="inside a function"):
        app.task(executor="process", name="short")(lambda: None)
    app.task(executor="process")(nothing)
    app.task(executor="process", name="other")(fail_with)
