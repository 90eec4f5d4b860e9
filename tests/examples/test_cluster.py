"""If these fail, the ways to run a cluster that we show do not work."""

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, PATIENCE

README = (EXAMPLES / "cluster" / "README.md").read_text()
SECTIONS = {
    title: re.findall(r"```sh\n(.*?)```", text, re.S)
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", README, re.M | re.S)
}


class Shell:
    """Runs the commands of a section, in a folder with the tasks and a store of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        inherited = {key: value for key, value in os.environ.items() if "DETENT" not in key}
        self._environ = {**inherited, "DETENT_URL": f"sqlite:///{folder / 'cluster.db'}"}
        self._nodes: dict[str, subprocess.Popen[str]] = {}
        (folder / "tasks.py").write_text((EXAMPLES / "cluster" / "tasks.py").read_text())

    def run(self, line: str) -> str:
        background = line.endswith("&")
        words = line.rstrip("& ").split()
        command = {"detent": [sys.executable, "-m", "detent"], "python": [sys.executable]}
        words = [*command[words[0]], *words[1:]]
        if background:
            name = words[words.index("--name") + 1]
            node = self._nodes[name] = subprocess.Popen(
                words, cwd=self._folder, env=self._environ, stderr=subprocess.PIPE, text=True
            )
            assert node.stderr is not None
            # It says a few lines in its whole life, which the pipe has room for.
            said = list(itertools.takewhile(lambda line: "started" not in line, node.stderr))
            assert node.poll() is None, said
            return ""
        done = subprocess.run(
            words,
            cwd=self._folder,
            env=self._environ,
            timeout=PATIENCE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ended(self, name: str) -> int:
        return self._nodes[name].wait(PATIENCE)

    def close(self) -> None:
        for node in self._nodes.values():
            node.send_signal(signal.SIGTERM)
        for node in self._nodes.values():
            node.communicate(timeout=PATIENCE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.mark.parametrize("title", SECTIONS)
def test_a_cluster_does_its_work(title: str, shell: Shell) -> None:
    (block,) = SECTIONS[title]
    lines = [line for line in block.splitlines() if line and not line.startswith("#")]
    said = [shell.run(line) for line in lines]
    assert "30 jobs done" in "".join(said)
    if title == "Blue and green":
        assert shell.ended("blue") == 0
        assert "blue" not in shell.run("detent nodes")
