"""If these fail, the first programs that people run do not do what they say."""

import re
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, run_to_its_end

PRINTED = {
    "processes.py": [
        "2262 primes",
        "got through in attempt 2",
        "took longer than 0.5 s",
    ],
    "custom_notifier.py": ["hello Ada", "hello Grace"],
    "first.py": ["hello Ada", "hello Grace", "hello Edsger", "29 letters"],
    "script.py": [
        "Page(url='https://example.com/0', words=4)",
        "Page(url='https://example.com/1', words=4)",
        "Page(url='https://example.com/2', words=4)",
        "95 primes",
        "Ada, it is time",
        "job ... failed: ValueError: invalid literal for int() with base 10: 'forty-two'",
    ],
}


def test_every_script_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_in_an_empty_folder_and_runs_again(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        done = run_to_its_end(EXAMPLES / name, tmp_path)
        said = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "...", done.stdout)
        assert said.splitlines() == PRINTED[name]
