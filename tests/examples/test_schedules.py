"""If these fail, overlap or misfire does something else than the examples show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, PATIENCE

FOLDER = EXAMPLES / "schedules"
PRINTED = {
    "misfire.py": [
        "away from 01:01 to 06:32",
        "skip: fired 01:00; left out 02:00 03:00 04:00 05:00 06:00",
        "fire_once: fired 01:00 06:00; left out 02:00 03:00 04:00 05:00",
        "catch_up(3): fired 01:00 04:00 05:00 06:00; left out 02:00 03:00",
    ],
    "overlap.py": [
        "allow: 4 slots; skipped 0, ended 4, canceled 0; at most 2 at a time",
        "skip: 4 slots; skipped 2, ended 2, canceled 0; at most 1 at a time",
        "queue: 4 slots; skipped 0, ended 4, canceled 0; at most 1 at a time",
        "replace: 4 slots; skipped 0, ended 1, canceled 3; at most 1 at a time",
    ],
}


def test_every_program_is_run() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_became_of_the_slots(name: str, tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        cwd=tmp_path,
        env=environ,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PRINTED[name]
