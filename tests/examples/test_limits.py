"""If these fail, the limits that we show do not hold, or hold up what they should not."""

from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, run_to_its_end

PRINTED = {
    "permits.py": [
        "30 mails sent, at most 3 connections at once",
        "resource:smtp: 2 from now on, code says 3",
    ],
    "serial.py": [
        *(f"order {number}: reserve, charge, pack, ship" for number in range(1, 6)),
        "5 orders at once",
    ],
    "rate.py": ["30 calls, 5 of them at once", "not too fast"],
    "fair.py": [
        "first of all what is critical: tin",
        "then by weight: 3 of gold for 1 of tin",
        "in the end all 251 are done",
    ],
}


@pytest.mark.parametrize("name", PRINTED)
def test_it_says_what_it_should(name: str, tmp_path: Path) -> None:
    done = run_to_its_end(EXAMPLES / "limits" / name, tmp_path)
    assert done.stdout.splitlines() == PRINTED[name]
