"""If these fail, an operator changes other jobs than he meant, or is not told what happened."""

import asyncio
import functools
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from click.testing import Result

from detent import App, Fail, State
from detent.cli.jobs import bulk
from tests.cli.conftest import Detent
from tests.cli.stores import Program

Terminal = Callable[[int], None]
Jobs = Callable[..., Result]

HOUR = timedelta(hours=1)


@pytest.fixture
def program(store_url: str) -> Program:
    return Program(store_url)


@pytest.fixture
def jobs(detent: Detent, store_url: str) -> Jobs:
    """Call `detent jobs`."""

    def call(*arguments: object, **settings: str) -> Result:
        return detent("jobs", *map(str, arguments), DETENT_URL=store_url, **settings)

    return call


def listed(result: Result) -> list[UUID]:
    assert result.exit_code == 0, result.output
    return [UUID(line.split("\t")[0]) for line in result.output.splitlines()]


# Listing


def test_filters_narrow_the_list_down(jobs: Jobs, program: Program) -> None:
    (mail,) = program.enqueue("send", queue="mail", tags=["vip"])
    (later,) = program.enqueue("send", delay=HOUR, unique="user-7")
    (paused,) = program.enqueue("report", key="monthly")
    program.call(lambda app: app.jobs.pause(paused))
    assert listed(jobs("list")) == [paused, later, mail]
    assert listed(jobs("list", "--task", "send")) == [later, mail]
    assert listed(jobs("list", "--queue", "mail")) == [mail]
    assert listed(jobs("list", "--tag", "vip")) == [mail]
    assert listed(jobs("list", "--key", "user-7")) == [later]
    assert listed(jobs("list", "--key", "monthly")) == [paused]
    assert listed(jobs("list", "--state", "paused")) == [paused]
    assert listed(jobs("list", "--state", "paused", "--state", "pending", "--task", "send")) == [
        later,
        mail,
    ]
    assert listed(jobs("list", "--since", "1h")) == [paused, later, mail]
    assert listed(jobs("list", "--until", "1h")) == []
    assert listed(jobs("list", "--since", "2999-01-01")) == []
    assert listed(jobs("list", "--until", "2999-01-01T00:00Z", "--task", "report")) == [paused]


def test_pages_go_on_where_the_last_one_ended(jobs: Jobs, program: Program) -> None:
    ids = program.enqueue(count=5)
    first = json.loads(jobs("list", "--limit", "2", "--json").output)
    assert [item["id"] for item in first["items"]] == [str(ids[4]), str(ids[3])]
    assert first["next"] == str(ids[3])
    second = json.loads(jobs("list", "--limit", "9", "--before", first["next"], "--json").output)
    assert [item["id"] for item in second["items"]] == [str(ids[2]), str(ids[1]), str(ids[0])]
    assert second["next"] is None


def test_what_came_since_a_job_is_listed(jobs: Jobs, program: Program) -> None:
    ids = program.enqueue(count=4)
    assert listed(jobs("list", "--after", ids[1])) == [ids[3], ids[2]]
    assert listed(jobs("list", "--after", ids[0], "--before", ids[2])) == [ids[1]]
    assert listed(jobs("list", "--after", ids[3])) == []


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["list", "--state", "dead"], "'dead' is not one of"),
        (["list", "--limit", "0"], "'0' must be a whole number from 1 to 1,000"),
        (["list", "--limit", "1001"], "'1001' must be a whole number from 1 to 1,000"),
        (["list", "--limit", "many"], "'many' must be a whole number from 1 to 1,000"),
        (["list", "--since", "yesterday"], "'yesterday' must be a length of time such as"),
        (["list", "--since", "1h", "--until", "2h"], "--since is later than --until"),
        (["list", "--before", "17"], "'17' is no id of a job"),
        (["list", "--after", "42"], "'42' is no id of a job"),
        (["list", "--after", str(uuid4())], "has no time in it"),
        (["show", "nonsense"], "'nonsense' is no id of a job"),
        (["cancel", "nonsense"], "'nonsense' is no id of a job"),
        (["cancel"], "say which jobs: ids, a filter such as --state pending, or --all"),
        (["retry"], "a filter such as --state failed, or --all"),
        (["delete", str(uuid4()), "--task", "send"], "give ids or filters, not both"),
        (["delete", "--all", "--task", "send"], "--all and a filter do not go together"),
        (["pause", "--state", "failed", "--yes"], "no failed job allows it; --state must be pend"),
        (["cancel", "--state", "pending"], "nobody to ask here; add --yes"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    detent: Detent, arguments: list[str], problem: str
) -> None:
    result = detent("jobs", *arguments, "--url", "postgresql://127.0.0.1:1/nowhere")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("detent: error: ")
    assert problem in line
    assert result.stdout == ""


# One job


def test_an_unknown_job_is_one_line(jobs: Jobs) -> None:
    job_id = uuid4()
    for command in ("show", "cancel", "retry", "pause", "resume", "delete"):
        result = jobs(command, job_id)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"detent: error: no job with the id {job_id}\n"


def test_a_job_goes_where_the_verbs_lead(jobs: Jobs, program: Program) -> None:
    (job,) = program.enqueue()
    for verb, said, state in (
        ("pause", "paused", State.PAUSED),
        ("resume", "pending", State.PENDING),
        ("cancel", "canceled", State.CANCELED),
        ("retry", "pending", State.PENDING),
        ("cancel", "canceled", State.CANCELED),
    ):
        result = jobs(verb, job)
        assert (result.exit_code, result.output) == (0, f"{job}\t{said}\n")
        assert program.job(job).state is state
    assert jobs("delete", job).output == f"{job}\tdeleted\n"
    assert jobs("show", job).exit_code == 1


def test_a_reason_is_kept(jobs: Jobs, program: Program) -> None:
    one, two = program.enqueue(count=2)
    jobs("cancel", one, "--reason", "too late")
    jobs("cancel", "--state", "pending", "--yes", "--reason", "all of it")
    assert [program.job(job).reason for job in (one, two)] == ["too late", "all of it"]


def test_waiting_for_a_cancel_ends_with_the_job(jobs: Jobs, program: Program) -> None:
    began = threading.Event()

    async def endless() -> str:
        began.set()
        await asyncio.sleep(3600)
        return "never"

    async def work(app: App) -> list[Result]:
        task = app.task(name="endless")(endless)
        async with app.node():
            job = await task.enqueue()
            await asyncio.to_thread(began.wait)
            command = functools.partial(jobs, "cancel", job.id, "--wait")
            return [await asyncio.to_thread(command)]

    (result,) = program.call(work)
    assert (result.exit_code, result.stdout.split("\t")[1]) == (0, "canceled\n")


def test_waiting_for_a_cancel_needs_ids(jobs: Jobs) -> None:
    result = jobs("cancel", "--all", "--wait")
    assert (result.exit_code, "--wait needs the ids" in result.stderr) == (2, True)


def test_each_job_that_does_not_allow_it_is_a_line(jobs: Jobs, program: Program) -> None:
    good, ended = program.enqueue(count=2)
    jobs("cancel", ended)
    unknown = uuid4()
    result = jobs("cancel", good, ended, unknown, good)
    assert result.exit_code == 1
    assert result.stdout == f"{good}\tcanceled\n"
    conflict, missing = result.stderr.splitlines()
    assert conflict.startswith(f"detent: error: cannot cancel job {ended}: it is canceled")
    assert missing == f"detent: error: no job with the id {unknown}"
    assert program.job(good).state is State.CANCELED


def test_a_mistyped_id_changes_nothing(jobs: Jobs, program: Program) -> None:
    (job,) = program.enqueue()
    result = jobs("cancel", job, "nonsense")
    assert result.exit_code == 2
    assert program.job(job).state is State.PENDING


def test_programs_are_told_which_and_why_not(jobs: Jobs, program: Program) -> None:
    (job,) = program.enqueue()
    unknown = uuid4()
    result = jobs("pause", job, unknown, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "changed": 1,
        "jobs": [{"id": str(job), "state": "paused"}],
        "failed": [{"id": str(unknown), "error": f"no job with the id {unknown}"}],
    }


def test_a_job_whose_key_is_taken_says_by_whom(jobs: Jobs, program: Program) -> None:
    (old,) = program.enqueue(unique="user-7")
    jobs("cancel", old)
    (new,) = program.enqueue(unique="user-7")
    result = jobs("retry", old)
    assert result.exit_code == 1
    assert result.stderr == (
        f"detent: error: the key 'user-7' is held by job {new}, which has not ended\n"
    )


# Many jobs


@pytest.mark.parametrize(
    "verb, before, after",
    [
        ("cancel", State.PENDING, State.CANCELED),
        ("pause", State.PENDING, State.PAUSED),
        ("resume", State.PAUSED, State.PENDING),
        ("retry", State.CANCELED, State.PENDING),
    ],
)
def test_all_that_match_are_changed_and_no_other(
    jobs: Jobs, program: Program, verb: str, before: State, after: State
) -> None:
    meant, other = program.enqueue("send", 3), program.enqueue("report", 2)
    if before is State.PAUSED:
        jobs("pause", *meant, *other)
    elif before is State.CANCELED:
        jobs("cancel", *meant, *other)
    result = jobs(verb, "--task", "send", "--state", before, "--yes")
    assert result.exit_code == 0, result.output
    done = {"cancel": "asked to stop or canceled", "retry": "retried"}.get(verb, f"{verb}d")
    assert result.output == f"3 jobs {done}\n"
    assert program.states(meant) == [after] * 3
    assert program.states(other) == [before] * 2


def test_ended_jobs_are_deleted_and_living_ones_are_not(jobs: Jobs, program: Program) -> None:
    gone, kept = program.enqueue(count=3), program.enqueue(count=2)
    jobs("cancel", *gone)
    result = jobs("delete", "--all", "--yes", "--json")
    assert json.loads(result.output)["changed"] == 3
    assert listed(jobs("list")) == kept[::-1]


def test_only_failed_jobs_are_retried_unless_others_are_named(jobs: Jobs, program: Program) -> None:
    failed = program.fail(count=2)
    canceled = program.enqueue(count=2)
    jobs("cancel", *canceled)
    assert jobs("retry", "--all", "--yes").output == "2 jobs retried\n"
    assert program.states([*failed, *canceled]) == [State.PENDING] * 2 + [State.CANCELED] * 2


def test_each_job_is_retried_once_although_it_fails_again(
    jobs: Jobs, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is at work meanwhile: what has failed again matches again."""
    monkeypatch.setattr(bulk, "PAGE", 2)
    ids = program.fail(count=5)

    async def retry(app: App) -> Result:
        @app.task(name="hello")
        async def broken(number: int) -> None:
            raise Fail("no")

        async with app.node():
            result = await asyncio.to_thread(jobs, "retry", "--all", "--yes")
            for job in ids:
                await asyncio.gather(app.jobs.result(job, 30), return_exceptions=True)
            return result

    assert program.call(retry).output == "5 jobs retried\n"
    assert [program.job(job).generation for job in ids] == [2] * 5


def test_many_pages_are_changed(
    jobs: Jobs, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE", 2)
    ids = program.enqueue(count=7)
    assert jobs("cancel", "--all", "--yes").output == "7 jobs asked to stop or canceled\n"
    assert jobs("retry", "--state", "canceled", "--yes").output == "7 jobs retried\n"
    assert program.states(ids) == [State.PENDING] * 7


@pytest.mark.parametrize(
    "answer, done", [("y\n", True), ("yes\n", True), ("n\n", False), ("", False)]
)
def test_people_are_asked_first(
    detent: Detent, program: Program, terminal: Terminal, answer: str, done: bool
) -> None:
    terminal(100)
    ids = program.enqueue("send", 3)
    program.enqueue("report")
    result = detent(
        "jobs", "cancel", "--task", "send", "--url", program.url, typed=answer, TERM="dumb"
    )
    assert "Cancel 3 jobs (--state pending" in result.stderr
    assert "--task send)? [y/N]" in result.stderr
    assert program.states(ids) == [State.CANCELED if done else State.PENDING] * 3
    assert result.exit_code == (0 if done else 1)
    if done:
        assert "3 jobs asked to stop or canceled" in result.stdout
    else:
        assert "detent: error: nothing was changed" in result.stderr


def test_people_are_not_asked_about_nothing(
    detent: Detent, program: Program, terminal: Terminal
) -> None:
    terminal(100)
    result = detent("jobs", "cancel", "--all", "--url", program.url, typed="")
    assert (result.exit_code, result.output) == (0, "0 jobs asked to stop or canceled\n")


def test_nobody_counts_a_whole_backlog(
    detent: Detent, program: Program, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE", 2)
    monkeypatch.setattr(bulk, "COUNTED", 4)
    terminal(100)
    program.enqueue(count=7)
    result = detent("jobs", "cancel", "--all", "--url", program.url, typed="y\n", TERM="dumb")
    assert "Cancel 4 or more jobs" in result.stderr
    assert "7 jobs asked" in result.stdout


# A running job


def test_a_running_job_is_asked_to_stop(jobs: Jobs, program: Program) -> None:
    (job,) = program.enqueue()

    async def hold(app: App) -> Result:
        started = asyncio.Event()

        @app.task(name="hello")
        async def waits(number: int) -> None:
            started.set()
            await asyncio.Event().wait()

        async with app.node():
            await asyncio.wait_for(started.wait(), 30)
            result = await asyncio.to_thread(jobs, "cancel", job)
            await asyncio.gather(app.jobs.result(job, 30), return_exceptions=True)
            return result

    result = program.call(hold)
    assert result.output == f"{job}\tasked to stop\n"
    assert program.job(job).state is State.CANCELED


# A job that nobody runs


def test_what_a_job_waits_for_is_told_as_far_as_it_is_known(jobs: Jobs, program: Program) -> None:
    (drawn,) = program.enqueue("draw", needs=["gpu"])

    def told(job: UUID) -> str:
        return str(json.loads(jobs("show", job, "--json").output)["waits_for"])

    async def look(app: App) -> list[str]:
        started = asyncio.Event()

        @app.task(name="charge", concurrency=1)
        async def charge(number: int) -> None:
            started.set()
            await asyncio.Event().wait()

        async def later(number: int) -> None: ...

        free = await app.task(name="later", needs=["tape"])(later).enqueue(1)
        async with app.node(capabilities=["tape"], queues={"other": 1}):
            answers = [await asyncio.to_thread(told, drawn)]
        async with app.node(capabilities=["tape"], concurrency=1):
            await free.result(timeout=30)
            first, second = [await charge.enqueue(number) for number in (1, 2)]
            await asyncio.wait_for(started.wait(), 30)
            answers += [await asyncio.to_thread(told, job) for job in (drawn, second.id)]
            await asyncio.gather(first.cancel(), second.cancel())
        return answers

    assert program.call(look) == [
        "for a node: none that runs takes the queue default",
        "for a node: none that takes the queue default offers gpu",
        "for a free slot on a node, or for a limit: detent limits",
    ]
