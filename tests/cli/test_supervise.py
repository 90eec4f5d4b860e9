"""If these fail, the parent of several nodes ends them too soon, or starts something else."""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from socket import gethostname

import pytest

from detent import App
from detent.cli import node
from detent.cli.supervise import (
    KILL_AFTER,
    LIFELINE,
    Supervisor,
    command_of_child,
    take_lifeline,
)
from detent.machine import describe_process
from detent.spi.nodes import NodeIdentity
from detent.testing.conformance.builders import new_id
from tests.cli.conftest import Detent
from tests.overheard import PATIENCE


class Recorded(Supervisor):
    """Keeps none running, and is kept itself."""

    made: list[Supervisor]

    async def run(self) -> None:
        self.made.append(self)


@pytest.mark.parametrize("options, drain", [((), 30.0), (("--drain-timeout", "1h"), 3600.0)])
def test_children_may_drain_for_as_long_as_they_were_told(
    detent: Detent,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: tuple[str, ...],
    drain: float,
) -> None:
    Recorded.made = []
    monkeypatch.setattr(node, "Supervisor", Recorded)
    (tmp_path / "kiosk_jobs.py").write_text('from detent import App\napp = App("memory://")\n')
    result = detent("node", "kiosk_jobs:app", "--processes", "2", *options)
    assert result.exit_code == 0, result.output
    (supervisor,) = Recorded.made
    assert supervisor.patience == drain + KILL_AFTER


@pytest.mark.parametrize(
    "given",
    [
        ["node", "--processes", "3", "a:app", "--name", "web", "--max-jobs", "9"],
        ["node", "--processes=3", "a:app", "--max-jobs", "9", "--name=web"],
    ],
)
def test_a_child_is_one_node_with_the_other_options_of_its_parent(given: list[str]) -> None:
    assert command_of_child(given) == ["node", "a:app", "--max-jobs", "9"]


async def test_a_child_that_was_being_started_when_its_parent_was_told_to_stop_is_told() -> None:
    class Late(Supervisor):
        async def _start(self, name: str, lifeline: int) -> asyncio.subprocess.Process:
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
            self.stop()
            return child

    supervisor = Late(App("memory://"), [], ["web-1"], timedelta(minutes=1))
    async with asyncio.timeout(PATIENCE):
        await supervisor.run()


async def test_a_process_that_cannot_be_started_now_is_started_later() -> None:
    """A machine that has no room for a process has a reason to keep those that are there."""

    class Crowded(Supervisor):
        tries = 0

        async def _start(self, name: str, lifeline: int) -> asyncio.subprocess.Process:
            self.tries += 1
            if self.tries == 1:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            self.stop()
            return await asyncio.create_subprocess_exec(sys.executable, "-c", "")

        async def _rest(self, seconds: float) -> None:
            assert seconds > 0

    supervisor = Crowded(App("memory://"), [], ["web-1"], timedelta(minutes=1))
    async with asyncio.timeout(PATIENCE):
        await supervisor.run()
    assert supervisor.tries == 2


@pytest.mark.parametrize(
    "code, words",
    [(3, "ended with code 3"), (-9, "was killed by SIGKILL"), (-41, "was killed by signal 41")],
)
async def test_a_parent_says_how_its_child_ended(
    caplog: pytest.LogCaptureFixture, code: int, words: str
) -> None:
    class Brief(Supervisor):
        async def _run_one(self, name: str, lifeline: int) -> str | None:
            self.stop()
            return await super()._run_one(name, lifeline)

        async def _start(self, name: str, lifeline: int) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(sys.executable, "-c", "")

        async def _wait(self, child: asyncio.subprocess.Process) -> int:
            await child.wait()
            identity = NodeIdentity(
                new_id(), "web-1", gethostname(), child.pid, "1", {}, info=describe_process()
            )
            await self._app.store.join(identity, timedelta(minutes=1))
            return code

    supervisor = Brief(App("memory://"), [], ["web-1"], timedelta(minutes=1))
    async with asyncio.timeout(PATIENCE):
        await supervisor.run()
    assert f"which {words}" in caplog.text


async def test_a_parent_buries_its_own_child_and_no_stranger_with_the_same_numbers() -> None:
    """Containers that share the name of a host have process ids of their own."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await child.wait()
    own = describe_process() | {"started": "1"}
    app = App("memory://")
    for name, pid, info in (
        ("child", child.pid, own),
        ("stranger", child.pid, own | {"pid_space": "another boot 4026531836"}),
        ("brother", os.getpid(), describe_process()),
    ):
        identity = NodeIdentity(new_id(), name, gethostname(), pid, "1", {}, info=info)
        await app.store.join(identity, timedelta(minutes=1))
    supervisor = Supervisor(app, [], [], timedelta(0))
    await supervisor._bury(child.pid, -9)
    await supervisor._bury(os.getpid(), -9)  # somebody else has the number by now
    states = {node.name: node.state for node in await app.nodes.list()}
    assert states == {"child": "dead", "stranger": "active", "brother": "active"}


def test_what_a_job_starts_does_not_inherit_the_lifeline() -> None:
    environment = {LIFELINE: "7", "HOME": "/"}
    assert take_lifeline(environment) == 7
    assert environment == {"HOME": "/"}
    assert take_lifeline(environment) is None
