"""What the tests of the command share: a way to call it in this process, in a directory apart."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli import main

Detent = Callable[..., Result]


@pytest.fixture
def detent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Detent:
    """Call `detent` with some arguments, in an empty directory and without any variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DETENT_URL", raising=False)

    def call(*arguments: str, **environ: str) -> Result:
        return CliRunner(env=environ).invoke(
            main, arguments, prog_name="detent", terminal_width=80, catch_exceptions=False
        )

    return call
