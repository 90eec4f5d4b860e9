"""If this fails, the encryption that we show hides nothing, or nobody can open it any more."""

import os
import subprocess
import sys
from pathlib import Path

from tests.examples.programs import EXAMPLES, PATIENCE


def test_the_card_is_nowhere_and_its_owner_has_it(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "DETENT" not in key}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "encryption" / "main.py")],
        cwd=tmp_path,
        env=environ,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "nobody in particular is not allowed to create a job of charge",
        "charged 4111-1111-1111-1111 for ada",
        "the card is in the database: False",
        "with both keys: charged 4111-1111-1111-1111 for ada",
        'without keys: "<encrypted with key k1>"',
        "moved: SealBroken",
    ]
