"""If these fail, the limits that we show do not hold, or hold up what they should not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, PATIENCE

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
}


@pytest.mark.parametrize("name", PRINTED)
def test_it_says_what_it_should(name: str, tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "limits" / name)],
        cwd=tmp_path,
        env=environ,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PRINTED[name]
