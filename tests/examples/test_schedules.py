"""If these fail, overlap or misfire does something else than the examples show."""

from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, run_to_its_end

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
    done = run_to_its_end(FOLDER / name, tmp_path)
    assert done.stdout.splitlines() == PRINTED[name]
