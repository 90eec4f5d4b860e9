"""If this fails, the batches that we show lose a document, or are no batches."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.programs import EXAMPLES, PATIENCE


def test_every_document_has_an_outcome_of_its_own(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "batches" / "main.py")],
        cwd=tmp_path,
        env=environ,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *said, calls = done.stdout.splitlines()
    assert said == [
        "249 documents, 2878 characters",
        "the unlucky one took 2 attempts",
        "the last one: an empty document",
    ]
    found = re.fullmatch(r"at most 100 documents in a call, 251 in (\d+) calls", calls)
    assert found is not None, calls
    assert int(found[1]) < 20
