"""If these fail, a job from the command line is not the job that was meant, or nobody says why."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import Result

from detent import App, JobInfo, Priority, State
from detent.cli import enqueue as enqueue_module
from detent.cli.output import warn
from tests.cli.conftest import Detent
from tests.cli.stores import MODULE, Program

Terminal = Callable[[int], None]
Enqueue = Callable[..., Result]

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@pytest.fixture
def program(sqlite_url: str) -> Program:
    return Program(sqlite_url)


@pytest.fixture
def enqueue(detent: Detent, sqlite_url: str, tmp_path: Path) -> Enqueue:
    """Call `detent enqueue shop:app`, with a shop that is imported anew."""
    (tmp_path / "shop.py").write_text(MODULE)

    def call(*arguments: str, **settings: Any) -> Result:
        sys.modules.pop("shop", None)
        return detent("enqueue", "shop:app", *arguments, DETENT_URL=sqlite_url, **settings)

    return call


@pytest.fixture
def ask(detent: Detent, tmp_path: Path) -> Enqueue:
    """Do the same with a store that cannot be reached: what is wrong is seen before."""
    (tmp_path / "shop.py").write_text(MODULE)

    def call(*arguments: str) -> Result:
        sys.modules.pop("shop", None)
        return detent("enqueue", "shop:app", *arguments, DETENT_URL=NOWHERE)

    return call


def stored(program: Program, result: Result) -> JobInfo:
    """Return the job whose id was printed, alone."""
    assert result.exit_code == 0, result.output
    return program.job(UUID(result.stdout.strip()))


def refused(result: Result) -> str:
    """Return the one line of a mistake in the question; nothing was enqueued."""
    assert (result.exit_code, result.stdout) == (2, "")
    line, *_ = result.stderr.splitlines()
    return line.removeprefix("detent: error: ")


# Arguments


@pytest.mark.parametrize(
    "given, args",
    [
        ('{"name": "Ada"}', {"name": "Ada"}),
        ('{"name": "Ada", "times": 2}', {"name": "Ada", "times": 2}),
        ('["Ada"]', {"name": "Ada"}),
        ('["Ada", 2]', {"name": "Ada", "times": 2}),
        (' \n{"name": "Zoë \\u00e9 😀"}\n', {"name": "Zoë é 😀"}),
    ],
)
def test_arguments_come_by_name_or_in_order(
    enqueue: Enqueue, program: Program, given: str, args: dict[str, Any]
) -> None:
    assert json.loads(stored(program, enqueue("hello", given)).args) == args


def test_arguments_come_from_standard_input(enqueue: Enqueue, program: Program) -> None:
    result = enqueue("hello", "-", typed='{"name": "Ada"}\n')
    assert json.loads(stored(program, result).args) == {"name": "Ada"}


def test_arguments_come_from_a_file(enqueue: Enqueue, program: Program, tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"order": {"number": 42}}')
    job = stored(program, enqueue("ship", "@order.json"))
    assert (json.loads(job.args), job.queue) == ({"order": {"number": 42}}, "mail")


@pytest.mark.parametrize(
    "given, problem, spot",
    [
        ('{"name": Ada}', "JSON: Expecting value at line 1, column 10", '{"name": Ada}'),
        ("", "JSON: Expecting value at line 1, column 1", ""),
        ('{"name":\n\t"Ada",\n\t5}', "at line 3, column 2", " 5}"),
        ("[" + "1, " * 99 + "x]", "JSON: Expecting value at line 1, column 299", "1, x]"),
    ],
)
def test_a_slip_in_the_json_is_shown_where_it_is(
    ask: Enqueue, given: str, problem: str, spot: str
) -> None:
    result = ask("hello", given)
    assert problem in refused(result)
    _, line, mark = result.stderr.splitlines()
    assert line.strip().endswith(spot.strip())
    assert mark.strip() == "^"
    wrong = given.splitlines()[-1:] or [""]
    if wrong[0]:
        column = int(problem.rpartition(" ")[2])
        assert line[mark.index("^") :][:1] == wrong[0][column - 1]


@pytest.mark.parametrize(
    "given, problem",
    [
        ("3", "JSON: must be an object or an array of arguments, not 3"),
        ("null", "JSON: must be an object or an array of arguments, not null"),
        ('"Ada"', 'JSON: must be an object or an array of arguments, not "Ada"'),
        ('{"name": "a", "name": "b"}', "JSON: 'name' is given twice"),
        ("[" * 200_000, "JSON: is nested too deep"),
        ("@missing.json", "missing.json: cannot be read: No such file or directory"),
        ("@.", ".: cannot be read: Is a directory"),
        ("@latin.json", "latin.json: is not UTF-8"),
        ('{"name": 1}', "hello(): Expected `str`, got `int` at $.name"),
        ("{}", "hello(): missing a required argument: 'name'"),
        ('{"nmae": "Ada"}', "hello(): missing a required argument: 'name'"),
        ('{"name": "Ada", "ctx": 1}', "hello(): got an unexpected keyword argument 'ctx'"),
        ('["Ada", 1, 2]', "hello(): too many positional arguments"),
        ('{"name": "\\ud800"}', "hello(): a lone surrogate at $.name"),
        ('{"name": "Ada", "times": NaN}', "nan at $.times has no JSON form"),
    ],
)
def test_arguments_that_do_not_fit_are_one_line(
    ask: Enqueue, tmp_path: Path, given: str, problem: str
) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"name": "Zo\xeb"}')
    result = ask("hello", given)
    assert problem in refused(result)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "task, problem",
    [
        ("helo", "no task is named 'helo'; did you mean hello?"),
        ("zzz", "no task is named 'zzz'; the tasks are hello, ship, fail"),
    ],
)
def test_an_unknown_task_is_answered_with_the_known_ones(
    ask: Enqueue, task: str, problem: str
) -> None:
    assert refused(ask(task, "{}")) == problem


# Options


def test_options_are_those_of_the_job(enqueue: Enqueue, program: Program) -> None:
    options = "--queue bulk --priority high --tag a --tag b --timeout 90s --needs gpu --delay 5m"
    job = stored(program, enqueue("hello", '["Ada"]', *options.split()))
    assert (job.queue, job.priority, job.tags) == ("bulk", Priority.HIGH, ("a", "b"))
    assert (job.needs, json.loads(job.options or b"")) == (("gpu",), {"timeout": 90.0})
    assert 299 <= (job.due_at - job.enqueued_at).total_seconds() <= 301


def test_a_time_is_local_unless_it_says_otherwise(
    enqueue: Enqueue, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = stored(program, enqueue("hello", '["Ada"]', "--at", "2999-01-01T12:00+02:00"))
    assert job.due_at.isoformat() == "2999-01-01T10:00:00+00:00"


def test_a_key_leads_to_the_job_that_is_there(enqueue: Enqueue) -> None:
    first = json.loads(enqueue("hello", '["Ada"]', "--key", "once", "--json").stdout)
    second = json.loads(enqueue("hello", '["Ada"]', "--key", "once", "--json").stdout)
    assert (first["created"], second) == (True, {"id": first["id"], "created": False})


def test_a_business_key_that_is_taken_is_a_failure(enqueue: Enqueue, program: Program) -> None:
    first = stored(program, enqueue("hello", '["Ada"]', "--unique", "user-7"))
    result = enqueue("hello", '["Ada"]', "--unique", "user-7")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"detent: error: the key 'user-7' is held by job {first.id}, which has not ended\n"
    )
    same = enqueue("hello", '["Ada"]', "--unique", "user-7", "--on-conflict", "return")
    assert stored(program, same).id == first.id
    new = enqueue("hello", '["Ada"]', "--unique", "user-7", "--on-conflict", "replace")
    assert stored(program, new).id != first.id
    assert program.job(first.id).state is State.CANCELED


@pytest.mark.parametrize(
    "options, problem",
    [
        ("--delay soon", "'soon' must be a duration such as"),
        ("--at tomorrow", "'tomorrow' must be a time such as 2026-08-01T10:00+02:00"),
        ("--delay 5m --at 2999-01-01", "--delay and --at: give one of them, not both"),
        ("--delay 9999d", "must be 0 to 3650 days"),
        ("--priority urgent", "'urgent' is not one of 'lowest', 'low'"),
        ("--queue a+b", "queue 'a+b': must be 1 to 100 of"),
        ("--needs a+b", "needs 'a+b': must be 1 to 100 of"),
        ("--timeout 0s", "timeout = datetime.timedelta(0): must be above 0"),
        ("--on-conflict ignore", "'ignore' is not one of"),
        ("--wait soon", "--wait 'soon' must be a duration such as"),
        ("--key=", "key = '': must be a text that is not empty"),
    ],
)
def test_options_that_cannot_be_are_one_line(ask: Enqueue, options: str, problem: str) -> None:
    result = ask("hello", '["Ada"]', *options.split())
    assert problem in refused(result)
    assert len(result.stderr.splitlines()) == 1


# Waiting


def with_node(program: Program, work: Callable[[], Result]) -> Result:
    """Do something while a node runs the jobs of the shop."""

    async def run(app: App) -> Result:
        space: dict[str, Any] = {"__name__": "shop"}
        exec(MODULE.replace("app = App()", ""), space | {"app": app})
        async with app.node(queues={"default": 2, "mail": 2}):
            return await asyncio.to_thread(work)

    return program.call(run)


def test_waiting_prints_the_result(enqueue: Enqueue, program: Program) -> None:
    result = with_node(program, lambda: enqueue("hello", '["Ada"]', "--wait"))
    assert (result.exit_code, result.stdout) == (0, '"Hello, Ada!"\n')


def test_waiting_prints_a_document(enqueue: Enqueue, program: Program) -> None:
    given = '{"order": {"number": 42}}'
    result = with_node(program, lambda: enqueue("ship", given, "--json", "--wait", "1m"))
    document = json.loads(result.stdout)
    assert (document["state"], document["result"]) == ("succeeded", {"number": 42})


def test_a_job_that_fails_fails_the_command(enqueue: Enqueue, program: Program) -> None:
    result = with_node(program, lambda: enqueue("fail", '["no stock"]', "--wait", "1m"))
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert "failed: Fail: no stock; see: detent jobs show " in line
    result = with_node(program, lambda: enqueue("fail", '["x"]', "--json", "--wait", "1m"))
    assert (result.exit_code, json.loads(result.stdout)["state"]) == (1, "failed")


def test_waiting_ends_and_the_job_goes_on(enqueue: Enqueue, program: Program) -> None:
    result = enqueue("hello", '["Ada"]', "--wait", "10ms")
    assert result.exit_code == 1
    assert "has not ended after 0.01 s, and goes on; see: detent jobs show " in result.stderr
    (job,) = program.call(lambda app: app.jobs.list())
    assert job.state is State.PENDING


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the command ask at once who could run the job; set when it has told that nobody can."""
    told = threading.Event()

    def tell(line: str) -> None:
        warn(line)
        told.set()

    monkeypatch.setattr(enqueue_module, "PATIENCE", 0.0)
    monkeypatch.setattr(enqueue_module, "warn", tell)
    return told


@pytest.mark.parametrize(
    "options, missed, command",
    [
        ("", "serves the queue default", "detent node shop:app"),
        ("--queue bulk", "serves the queue bulk", "detent node shop:app --queues bulk=10"),
        (
            "--needs gpu",
            "serves the queue default and has gpu",
            "detent node shop:app --capabilities gpu",
        ),
    ],
)
def test_who_waits_for_a_node_that_is_not_there_is_told_once(
    *,
    enqueue: Enqueue,
    program: Program,
    told: threading.Event,
    options: str,
    missed: str,
    command: str,
) -> None:
    async def run(app: App) -> Result:
        space: dict[str, Any] = {"__name__": "shop"}
        exec(MODULE.replace("app = App()", ""), space | {"app": app})
        # Serves another queue, and is none of those that could run the job.
        async with app.node(queues={"other": 1}):
            call = asyncio.to_thread(enqueue, "hello", '["Ada"]', *options.split(), "--wait")
            work = asyncio.create_task(call)
            assert await asyncio.to_thread(told.wait, 60)
        async with app.node(queues={"default": 1, "bulk": 1}, capabilities=["gpu"]):
            return await work

    result = program.call(run)
    assert (result.exit_code, result.stdout) == (0, '"Hello, Ada!"\n'), "it waits on"
    line = f"detent: no active node {missed}; the job waits for one: {command}\n"
    assert result.stderr == line


def test_who_waits_for_a_node_that_is_there_is_told_nothing(
    enqueue: Enqueue, program: Program, told: threading.Event
) -> None:
    result = with_node(program, lambda: enqueue("hello", '["Ada"]', "--wait"))
    assert (result.stdout, result.stderr) == ('"Hello, Ada!"\n', "")
    assert not told.is_set()


# Around it


def test_people_are_told_what_to_do_next(
    enqueue: Enqueue, program: Program, terminal: Terminal
) -> None:
    terminal(100)
    result = enqueue("hello", '["Ada"]', "--key", "once")
    (job,) = program.call(lambda app: app.jobs.list())
    assert result.stdout == f"Enqueued {job.id} (hello).\n\nnext  detent jobs show {job.id}\n"
    result = enqueue("hello", '["Ada"]', "--key", "once")
    assert result.stdout.startswith(f"A job with this key is already there: {job.id} (hello).\n")


def test_the_memory_of_another_process_is_refused(ask: Enqueue) -> None:
    assert "lives in the memory of one process" in refused(
        ask("hello", '["Ada"]', "--url", "memory://")
    )


def test_the_options_beat_the_apps_settings(ask: Enqueue, postgres_url: str) -> None:
    result = ask("hello", '["Ada"]')
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr
    assert ask("hello", '["Ada"]', "--url", postgres_url).exit_code == 0
    result = ask("hello", '["Ada"]', "--url", postgres_url, "--schema", "elsewhere")
    assert result.exit_code == 1
    assert "detent migrate" in result.stderr
