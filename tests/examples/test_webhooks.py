"""If this fails, the way to tell others of ends that we show does not work."""

import re
from pathlib import Path

from tests.examples.programs import EXAMPLES, run_to_its_end

FOLDER = EXAMPLES / "webhooks"


def test_the_receiver_is_told_as_the_readme_says(tmp_path: Path) -> None:
    done = run_to_its_end(FOLDER / "shop.py", tmp_path)
    (promised,) = re.findall(r"```text\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)
    assert done.stdout == promised
    assert "alert 1: jobs of billing.charge fail for good" in done.stderr
