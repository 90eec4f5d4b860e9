"""If these fail, a mistake on the command line is answered with a traceback or with nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from detent import State
from detent.cli import main

Detent = Callable[..., Result]

JOBS = """
from detent import App

app = App("memory://one")
other = App("memory://two")
text = "app"

class Box:
    inner = "not an app"

@app.task(name="hello")
async def hello() -> None: ...
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path) -> None:
    """Write modules that each test imports anew."""
    (tmp_path / "shop_jobs.py").write_text(JOBS)
    (tmp_path / "broken_jobs.py").write_text("import no_such_package")
    (tmp_path / "empty_jobs.py").write_text("")
    for module in ("shop_jobs", "broken_jobs", "empty_jobs"):
        sys.modules.pop(module, None)


def only_line(result: Result) -> str:
    """Return the one line that was said, on stderr."""
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("detent: error: ")
    return line.removeprefix("detent: error: ")


FOUND = "found: shop_jobs:app, shop_jobs:other"


@pytest.mark.parametrize(
    "place, problem",
    [
        ("no_such_jobs:app", "there is no module 'no_such_jobs' here or installed"),
        ("shop_jobs.no:app", f"there is no module 'shop_jobs.no' here or installed; {FOUND}"),
        ("shop_jobs.app", f"there is no module 'shop_jobs.app' here or installed; {FOUND}"),
        ("shop_jobs:hello", f"that is a task, not an App; {FOUND}"),
        ("shop_jobs:ap", "there is no 'ap'; found: shop_jobs:app, shop_jobs:other"),
        ("shop_jobs:Box.outer", "there is no 'outer'; found: shop_jobs:app, shop_jobs:other"),
        ("shop_jobs:Box.inner", "that is a str, not an App; found: shop_jobs:app, shop_jobs:other"),
        ("shop_jobs:text", "that is a str, not an App; found: shop_jobs:app, shop_jobs:other"),
        ("shop_jobs", "the attribute is missing; found: shop_jobs:app, shop_jobs:other"),
        ("empty_jobs:app", "there is no 'app'; the module empty_jobs has no App"),
        ("shop_jobs.py:app", "write it as module:attribute, such as shop_jobs:app"),
        ("shop_jobs.py", "write it as module:attribute, such as shop_jobs:app"),
        ("./shop/jobs:main", "write it as module:attribute, such as shop.jobs:main"),
        (":app", "write it as module:attribute, such as shop.jobs:app"),
    ],
)
def test_a_wrong_app_says_what_was_found(detent: Detent, place: str, problem: str) -> None:
    result = detent("node", place)
    assert only_line(result) == f"APP {place!r}: {problem}"
    assert result.exit_code == 2


def test_what_a_module_raises_itself_is_shown_as_it_is(detent: Detent) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        detent("node", "broken_jobs:app")


STATES = f"{', '.join(repr(str(state)) for state in State)} (see: detent jobs list -h)"


@pytest.mark.parametrize(
    "words, problem",
    [
        ("node", "Missing argument 'APP' (see: detent node -h)"),
        ("nodde", "detent: there is no command 'nodde'; did you mean node?"),
        (
            "xyzzy",
            f"detent: there is no command 'xyzzy'; the commands are {', '.join(main.parts)}",
        ),
        ("jobs cancle", "detent jobs: there is no command 'cancle'; did you mean cancel?"),
        (
            "queues drop",
            (
                "detent queues: there is no command 'drop'; "
                "the commands are list, pause, resume, limit, scale"
            ),
        ),
        (
            "jobs list --sate failed",
            "there is no option --sate; did you mean --state? (see: detent jobs list -h)",
        ),
        ("jobs --zzz", "there is no option --zzz (see: detent jobs list -h)"),
        ("--verison", "there is no option --verison; did you mean --version? (see: detent -h)"),
        (
            "queues list mail",
            "Got unexpected extra argument (mail) (see: detent queues list -h)",
        ),
        ("jobs list --limit", "Option '--limit' requires an argument"),
        ("jobs list --state ded", f"Invalid value for '--state': 'ded' is not one of {STATES}"),
    ],
)
def test_what_was_mistyped_is_one_line_with_what_was_meant(
    detent: Detent, words: str, problem: str
) -> None:
    result = detent(*words.split())
    assert only_line(result) == problem
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--queues", "mail"], "'mail' has no slots; write it such as mail=20"),
        (["--queues", "a+b=1"], "the queue 'a+b'"),
        (["--queues", ""], "--queues '': must name queues, like mail=20"),
        (["--concurrency", "0"], "must be a whole number from 1 to 100,000"),
        (["--drain-timeout", "soon"], "must be a duration such as"),
        (["--name", "two words"], "without spaces"),
        (["--queues", "mail=1", "--concurrency", "2"], "use --queues"),
    ],
)
def test_options_are_checked_like_settings(
    detent: Detent, arguments: list[str], problem: str
) -> None:
    result = detent("node", "shop_jobs:app", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr


COMMANDS = [
    ["migrate", "--plan"],
    ["bench"],
    ["node", "shop_jobs:app"],
    ["enqueue", "shop_jobs:app", "hello"],
    ["jobs", "list"],
    ["jobs", "cancel", "01890a5d-ac96-774b-bcce-b302099a8057"],
    ["jobs", "retry", "--all", "--yes"],
    ["queues"],
    ["queues", "pause", "mail"],
    ["nodes"],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_kind_of_database_is_a_mistake_in_the_question(
    detent: Detent, command: list[str]
) -> None:
    result = detent(*command, "--url", "oracle://ada:s3cret@db/jobs")
    assert "[store] url = 'oracle://ada:***@db/jobs': " in only_line(result)
    assert result.exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_url_that_is_none_is_refused(detent: Detent, command: list[str]) -> None:
    result = detent(*command, "--url", "localhost")
    assert "must be a URL such as postgresql://host/database" in only_line(result)
    assert result.exit_code == 2


def test_a_mistake_in_the_file_is_one_line(detent: Detent, tmp_path: Path) -> None:
    (tmp_path / "detent.toml").write_text("[node]\nworker_count = 4\n")
    result = detent("migrate", "--sql")
    assert only_line(result) == (
        "detent.toml: [node] worker_count: unknown key; did you mean [node] concurrency?"
    )
    assert result.exit_code == 2


def test_a_mistake_in_the_environment_is_one_line(detent: Detent) -> None:
    result = detent("migrate", "--sql", DETENT_STORE_SCHEMA="Robert'; --")
    assert "(from DETENT_STORE_SCHEMA)" in only_line(result)
    assert result.exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_cannot_be_reached_is_one_line_without_its_password(
    detent: Detent, command: list[str]
) -> None:
    result = detent(*command, "--url", "postgresql://ada:s3cret@127.0.0.1:1/jobs")
    line = only_line(result)
    assert line.startswith("the database cannot be reached: ")
    assert line.endswith("(postgresql://ada:***@127.0.0.1:1/jobs)")
    assert result.exit_code == 1


def test_settings_come_from_the_file_in_the_current_directory(
    detent: Detent, tmp_path: Path
) -> None:
    (tmp_path / "detent.toml").write_text('[store]\nurl = "postgresql://${WHERE:-nowhere}:1/a"\n')
    for command in (["jobs"], ["queues"], ["nodes"], ["migrate", "--check"]):
        assert only_line(detent(*command, WHERE="127.0.0.1")).endswith(
            "(postgresql://127.0.0.1:1/a)"
        )


def test_a_memory_of_another_process_is_not_shown_as_empty(detent: Detent) -> None:
    for command in (["jobs"], ["queues"], ["nodes"]):
        result = detent(*command, "--url", "memory://")
        assert "lives in the memory of one process" in only_line(result)
        assert result.exit_code == 2


def test_looking_makes_no_file(detent: Detent, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    for command in (["jobs"], ["queues"], ["nodes"], ["queues", "pause", "mail"]):
        result = detent(*command)
        assert only_line(result).startswith(f"{tmp_path / 'detent.db'} does not exist: ")
        assert result.exit_code == 1
    assert set(tmp_path.iterdir()) == before
