"""If this fails, the breaker that we show does not stop calls, or does not let them go again."""

import os
import subprocess
import sys
from pathlib import Path

from tests.examples.programs import EXAMPLES, PATIENCE


def test_the_calls_stop_and_go_on(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "breakers" / "main.py")],
        cwd=tmp_path,
        env=environ,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "open: 5 of 5 calls failed (ConnectionError)",
        "half-open: 0 calls since, now 2 trials",
        "closed: all trials passed",
        "45 invoices waited; attempts charged for it: 0",
        "the first 5 were charged in attempt 2",
        "the breaker is closed",
    ]
