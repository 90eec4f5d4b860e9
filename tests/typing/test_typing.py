"""If these fail, editors and type checkers tell our users what is not so.

The samples in `right/` and `wrong/` are read by mypy and by pyright's engine (basedpyright), both
strict. `# error: ...` marks every line that must be refused, and no other may be. The comment
behind a `reveal_type(...)` is what both must infer.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT = sorted((HERE / "right").glob("*.py"))
WRONG = sorted((HERE / "wrong").glob("*.py"))
SAMPLES = [*RIGHT, *WRONG]
# Each checker is run once, by the first test that asks it; it reads the whole package, and on a
# machine that others use that may take minutes.
PATIENCE = 240.0
pytestmark = pytest.mark.timeout(300)

Place = tuple[str, int]


@dataclass
class Findings:
    """What a checker said about the samples, by file and line."""

    errors: dict[Place, list[str]] = field(default_factory=dict)
    revealed: dict[Place, str] = field(default_factory=dict)

    def error(self, place: Place, message: str) -> None:
        self.errors.setdefault(place, []).append(message)


@cache
def mypy() -> Findings:
    # A cache of its own: with other options, `make check` could not use this one.
    cache_folder = ROOT / ".mypy_cache" / "samples"
    options = [f"--config-file={HERE / 'mypy.ini'}", f"--cache-dir={cache_folder}"]
    said, problem, _ = api.run([*options, *map(str, SAMPLES)])
    assert not problem, problem
    found = Findings()
    for line in said.splitlines():
        path, number, kind, message = (part.strip() for part in line.split(":", 3))
        if kind == "error":
            found.error((place(path), int(number)), message)
        elif revealed := re.fullmatch(r'Revealed type is "(.*)"', message):
            found.revealed[place(path), int(number)] = plain(revealed[1])
    return found


@cache
def pyright() -> Findings:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(HERE)]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == len(SAMPLES), said
    found = Findings()
    for diagnostic in said["generalDiagnostics"]:
        where = (place(diagnostic["file"]), diagnostic["range"]["start"]["line"] + 1)
        message = diagnostic["message"]
        if revealed := re.fullmatch(r'Type of ".*" is "(.*?)"', message):
            found.revealed[where] = plain(revealed[1])
        else:
            found.error(where, message)
    return found


CHECKERS = {"mypy": mypy, "pyright": pyright}
each_checker = pytest.mark.parametrize("checker", CHECKERS)


def place(path: str) -> str:
    return Path(path).relative_to(HERE).as_posix()


def plain(type_: str) -> str:
    """Return a type as both checkers would write it."""
    type_ = re.sub(r"\b(?:\w+\.)+(?=\w)", "", type_)
    type_ = re.sub(r"^def \(", "(", type_)
    type_ = type_.replace("*Any, **Any", "...")
    return re.sub(r"\[\(|, \(|\)[],]", lambda found: found[0].translate(BRACKETS), type_)


#: mypy puts the parameters that stand for a ParamSpec into brackets, pyright into parentheses.
BRACKETS = str.maketrans("()", "[]")


def marked(samples: list[Path], mark: str) -> dict[Place, str]:
    return {
        (place(str(path)), number): found[1]
        for path in samples
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := re.search(mark, line))
    }


def report(checker: str, places: set[Place]) -> str:
    said = CHECKERS[checker]().errors
    return "\n".join(f"{file}:{line}: {said.get((file, line))}" for file, line in sorted(places))


@each_checker
def test_right_code_passes(checker: str) -> None:
    found = {where for where in CHECKERS[checker]().errors if where[0].startswith("right/")}
    assert not found, report(checker, found)


@each_checker
def test_every_mistake_is_found_and_nothing_else_is_one(checker: str) -> None:
    expected = set(marked(WRONG, r"# error: (.+)$"))
    found = {where for where in CHECKERS[checker]().errors if where[0].startswith("wrong/")}
    assert found - expected == set(), report(checker, found - expected)
    assert expected - found == set(), f"{checker} sees no error there"
    assert len(expected) > 60, "most of the samples are gone"


@each_checker
def test_the_same_is_inferred(checker: str) -> None:
    expected = marked(SAMPLES, r"reveal_type\(.*\)  # (.+)$")
    assert CHECKERS[checker]().revealed == expected
    assert len(expected) > 40, "most of the samples are gone"
