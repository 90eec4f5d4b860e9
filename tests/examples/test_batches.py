"""If this fails, the batches that we show lose a document, or are no batches."""

import re
from pathlib import Path

from tests.examples.programs import EXAMPLES, run_to_its_end


def test_every_document_has_an_outcome_of_its_own(tmp_path: Path) -> None:
    done = run_to_its_end(EXAMPLES / "batches" / "main.py", tmp_path)
    *said, calls = done.stdout.splitlines()
    assert said == [
        "249 documents, 2878 characters",
        "the unlucky one took 2 attempts",
        "the last one: an empty document",
    ]
    found = re.fullmatch(r"at most 100 documents in a call, 251 in (\d+) calls", calls)
    assert found is not None, calls
    assert int(found[1]) < 20
