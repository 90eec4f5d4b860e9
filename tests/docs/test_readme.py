"""If these fail, somebody who does what the documentation says gets something else."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import asyncpg
import pytest

from detent.config import Config
from detent.testing.postgres import TemporaryPostgres
from tests.cli.parsing import understand
from tests.docs.blocks import EXAMPLES, LIVING, PAGES, ROOT, Block, all_blocks, blocks_of
from tests.docs.story import MODULE, Story

README = ROOT / "README.md"
LANGUAGES = {"python", "sh", "toml", "mermaid", "text", "sql"}
GUARANTEES = (
    "at-least-once execution; at most one valid claim at any moment; exactly one accepted "
    "completion; exactly one job per schedule slot; a committed enqueue is never lost."
)
PATIENCE = 30.0

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def each_block(*languages: str) -> pytest.MarkDecorator:
    """Run a test for every block, but for those that other tests run as files."""
    found = [block for block in all_blocks(*languages) if "file" not in block.marks]
    return pytest.mark.parametrize("block", found, ids=lambda block: block.place)


@pytest.fixture(scope="module")
def module_url(postgres_server: TemporaryPostgres, postgres_template: str) -> Iterator[str]:
    """The URL of a database for all blocks: copying one for each would take most of the time."""
    yield postgres_server.create_database("test_docs", postgres_template)
    postgres_server.drop_database("test_docs")


@pytest.fixture
async def empty_url(module_url: str) -> str:
    """The same, with the schema and nothing in it."""
    connection = await asyncpg.connect(module_url)
    try:
        tables = await connection.fetchval(
            "SELECT string_agg(format('detent.%I', tablename), ', ') FROM pg_tables"
            " WHERE schemaname = 'detent' AND tablename <> 'detent_schema_version'"
        )
        await connection.execute(f"TRUNCATE {tables}")
    finally:
        await connection.close()
    return module_url


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `detent.toml` and no variables of the machine the tests run on."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DETENT_")]:
        if not name.startswith("DETENT_TEST_"):
            monkeypatch.delenv(name)


# Python


@each_block("python")
async def test_python_does_what_it_says(
    block: Block, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_URL", empty_url)
    async with Story() as story:
        monkeypatch.setitem(sys.modules, MODULE, story.module)
        await story.tell(block)


def test_every_file_is_run_by_a_test() -> None:
    files = [block for block in all_blocks("python") if "file" in block.marks]
    stories = {block.marks["story"] for block in files if "story" in block.marks}
    assert stories == {"first", "memory"}


@pytest.mark.parametrize(
    "block",
    [
        block
        for block in all_blocks("python")
        if block.marks.get("file", "").startswith("examples/")
    ],
    ids=lambda block: block.place,
)
def test_what_is_shown_of_an_example_stands_there(block: Block) -> None:
    """The examples are run by tests of their own."""
    assert block.shown.text in (ROOT / block.marks["file"]).read_text()


def files_of(name: str) -> dict[str, Block]:
    blocks = [block for block in all_blocks("python") if block.marks.get("story") == name]
    return {block.marks["file"]: block for block in blocks}


def write(files: dict[str, Block], folder: Path) -> None:
    for name, block in files.items():
        (folder / name).write_text(block.shown.text)


def promised(block: Block) -> list[str]:
    return re.findall(r"print\(.*#\s*(.+)$", block.shown.text, re.MULTILINE)


def said_beside_a_node(environ: Mapping[str, str]) -> list[str]:
    """Run hello.py while a node runs, and return its lines; the node leaves in peace."""
    command = [sys.executable, "-m", "detent", "node", "tasks:app"]
    with subprocess.Popen(command, env=environ) as node:
        try:
            said = subprocess.run(
                [sys.executable, "hello.py"],
                env=environ,
                check=True,
                timeout=PATIENCE,
                capture_output=True,
                text=True,
            )
            node.send_signal(signal.SIGTERM)
            assert node.wait(PATIENCE) == 0
        finally:
            node.kill()
    return said.stdout.splitlines()


def test_the_first_task_runs_in_a_node_of_its_own(empty_postgres_url: str, tmp_path: Path) -> None:
    """The way of a newcomer: migrate, a file with a task, a node, and another program."""
    files = files_of("first")
    write(files, tmp_path)
    environ = os.environ | {"DETENT_URL": empty_postgres_url}
    detent = [sys.executable, "-m", "detent"]
    subprocess.run([*detent, "migrate"], env=environ, check=True, timeout=PATIENCE)
    assert said_beside_a_node(environ) == promised(files["hello.py"])
    assert promised(files["hello.py"]), "the example should print something"


def test_what_init_writes_serves_as_well(tmp_path: Path) -> None:
    """The same way, with nothing but a file: `detent init` instead of the first block."""
    detent = [sys.executable, "-m", "detent"]
    subprocess.run([*detent, "init"], check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
    program = files_of("first")["hello.py"]
    write({"hello.py": program}, tmp_path)
    assert said_beside_a_node(os.environ) == promised(program)


def test_the_first_task_runs_without_a_database(tmp_path: Path) -> None:
    files = files_of("memory")
    write(files, tmp_path)
    (name,) = files
    said = subprocess.run(
        [sys.executable, name], check=True, timeout=PATIENCE, capture_output=True, text=True
    )
    assert said.stdout.splitlines() == promised(files[name])
    assert promised(files[name]), "the example should print something"


# Shell


@each_block("sh")
def test_commands_exist(block: Block) -> None:
    for line in block.shown.text.splitlines():
        words = shlex.split(line, comments=True)
        if words:
            check_command(words, line)


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_commands_of_examples_exist(page: Path) -> None:
    text = "".join(block.shown.text for block in blocks_of(page) if block.language == "sh")
    for line in text.splitlines():
        program, *arguments = shlex.split(line.removesuffix("&"), comments=True) or [""]
        if program == "detent":
            understand(redirected(arguments))


def check_command(words: list[str], line: str) -> None:
    match words:
        case ["detent", "--version"]:
            pass
        case ["detent", *arguments]:
            # Parses as the real command does, values and all, and stops before it runs.
            understand(redirected(arguments))
        case ["make", target, *_]:
            assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ["pip", "install", what]:
            check_extras(what)
        case ["export", setting]:
            name, _, value = setting.partition("=")
            assert Config.load(environ={name: value}) != Config(), f"{name} sets nothing"
        case ["python", name]:
            known = [block.marks.get("file") for block in all_blocks("python")]
            assert name in known or (ROOT / name).is_file()
        case ["git", "clone", *_] | ["cd", _]:
            pass
        case ["NODE=off", "uvicorn", "main:web"]:
            assert "uvicorn" in (ROOT / "tests" / "examples" / "test_fastapi.py").read_text()
        case _:
            pytest.fail(f"nobody has taught this test what to make of: {line}")


def redirected(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index(">")] if ">" in arguments else arguments


def check_extras(what: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.fullmatch(r"(detent|\.)\[([\w,]+)\]", what)
    if what in ("detent", "."):
        return
    assert found, f"pip install {what}"
    assert set(found[2].split(",")) <= set(project["optional-dependencies"])


# Settings


@each_block("toml")
def test_settings_load(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "shown.toml"
    file.write_text(block.shown.text)
    environ = {key: value for key, value in block.marks.items() if key.isupper()}
    assert Config.load(path=file, environ=environ) != Config(), "an example should change something"


# Words


@each_page
def test_every_block_says_its_language(page: Path) -> None:
    if page in LIVING:
        found = [block.place for block in blocks_of(page) if block.language not in LANGUAGES]
        assert not found, f"a block of a language that no test looks at: {found}"


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page}: {target}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that headings get where people read the pages."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


def test_the_guarantees_are_said_in_the_agreed_words() -> None:
    text = " ".join(README.read_text().replace("\n> ", "\n").split())
    assert GUARANTEES in text
    for page in LIVING:
        assert "exactly-once delivery" not in page.read_text().lower(), page


def test_every_page_can_be_found_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        waiting += [(page.parent / target).resolve() for target in targets]
    assert not [str(page) for page in PAGES if page not in seen]
