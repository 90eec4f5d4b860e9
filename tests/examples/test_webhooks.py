"""If this fails, the way to tell others of ends that we show does not work."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.programs import EXAMPLES, PATIENCE

FOLDER = EXAMPLES / "webhooks"


def test_the_receiver_is_told_as_the_readme_says(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [sys.executable, str(FOLDER / "shop.py")],
        cwd=tmp_path,
        env=environ,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (promised,) = re.findall(r"```text\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)
    assert done.stdout == promised
    assert "alert 1: jobs of billing.charge fail for good" in done.stderr
