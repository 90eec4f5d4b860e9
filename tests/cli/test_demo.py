"""If this fails, the first thing that a newcomer sees does."""

import json
import subprocess
import sys
from pathlib import Path


def test_the_demonstration_loses_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "detent", "demo", "--size", "5", "--json"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    ledger = json.loads(ended.stdout)
    assert ledger["enqueued"] == 490
    assert ledger["dead_lettered"] == ledger["canceled"] == 5
    assert ledger["succeeded"] == 480
    assert ledger["retried"] == 30
    assert ledger["rescued"] > 0, "a node was killed while it held jobs"
    assert ledger["lost"] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_hears_what_happens(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "detent", "demo", "--size", "3"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "3 nodes share demo.db" in ended.stdout
    assert "kill -9" in ended.stdout
    assert "have rescued all" in ended.stdout
    assert "lost           0" in ended.stdout
