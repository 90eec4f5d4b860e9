"""If this fails, the first thing that a newcomer sees does."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from detent.cli.demo import story


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


class Quick:
    """A store, nodes and an audience: what the dead held is done between two glances."""

    def __init__(self) -> None:
        self.queues = self
        self.said: list[str] = []
        self._left = [5, 0]
        self._held = [{UUID(int=1)}, set[UUID]()]

    async def list(self) -> Any:
        return [SimpleNamespace(pending=self._left.pop(0), running=0)]

    async def kill_one(self) -> Any:
        return SimpleNamespace(pid=7, name="node-2"), {UUID(int=1)}

    async def claims(self, _node: object) -> set[UUID]:
        return self._held.pop(0)

    def tell(self, line: str) -> None:
        self.said.append(line)

    def advance(self, done: int, total: int) -> None: ...


async def test_a_rescue_is_told_of_that_was_over_when_all_was_over() -> None:
    quick: Any = Quick()
    assert await story._run(quick, quick, quick, 10) == {UUID(int=1)}
    killed, rescued = quick.said
    assert killed.startswith("kill -9 7: node-2 is gone")
    assert rescued.startswith("the other two have rescued all 1 after")
