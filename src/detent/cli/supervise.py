"""`detent node --processes N`: several nodes under one parent, which replaces those that die.

The parent runs no jobs. It sees a child die at once, and tells the cluster, so that the child's
jobs need not wait for its lease.
"""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from collections.abc import MutableMapping, Sequence
from datetime import timedelta
from typing import Final

from detent.app import App
from detent.errors import StoreError
from detent.machine import was_process

# The child's end of a pipe that breaks when the parent is gone.
LIFELINE: Final = "DETENT_LIFELINE"
# How a child with a parent ends that was drained by name: nobody is to take its place.
SENT_AWAY: Final = 83
FIRST_PAUSE: Final = 0.5
# A job that kills its process is found out only by a few crashes: see `detent.model.rescue`.
LONGEST_PAUSE: Final = 10.0
# A child that ran this long is not failing again and again.
HEALTHY: Final = 30.0
# Beyond the drain, a child gets this long to end.
KILL_AFTER: Final = 15.0
PARENTS: Final = ("--processes", "--name")

log = logging.getLogger("detent.supervisor")


class Supervisor:
    """Keeps a number of node processes running until told to stop."""

    def __init__(
        self, app: App, command: Sequence[str], names: Sequence[str], drain: timedelta
    ) -> None:
        self.patience = drain.total_seconds() + KILL_AFTER
        """How long a child that was told to end may take."""
        self._app = app
        self._command = command
        self._names = names
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._away: set[str] = set()
        """Who was drained by name, and is not to come back."""
        self._stopping = asyncio.Event()
        self._signals = 0

    async def run(self) -> None:
        """Run until told to stop, and until all children have ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        reading, writing = os.pipe()
        try:
            async with asyncio.TaskGroup() as group:
                for name in self._names:
                    group.create_task(self._keep(name, reading))
        finally:
            os.close(writing)
            os.close(reading)
            await self._app.close()

    def stop(self) -> None:
        """Let the children drain; a second time, without waiting."""
        self._signals += 1
        self._stopping.set()
        for child in self._children.values():
            _tell(child)

    async def _keep(self, name: str, lifeline: int) -> None:
        """Start a child, and another one each time it ends."""
        pause = FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while not (self._stopping.is_set() or name in self._away):
            started = loop.time()
            problem = await self._run_one(name, lifeline)
            if problem is None or loop.time() - started > HEALTHY:
                pause = FIRST_PAUSE
            if problem is not None and not self._stopping.is_set():
                wait = pause * random.uniform(0.8, 1.0)
                log.warning("node %s %s; starting another in %.1f s", name, problem, wait)
                await self._rest(wait)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _run_one(self, name: str, lifeline: int) -> str | None:
        """Start a child and wait for its end; return what went wrong with it, if anything did."""
        try:
            child = self._children[name] = await self._start(name, lifeline)
        except OSError as error:  # too many processes, or no memory: that may pass
            return f"could not be started ({error})"
        if self._stopping.is_set():  # meanwhile, and nobody has told this one
            _tell(child)
        code = await self._wait(child)
        del self._children[name]
        if code == SENT_AWAY:
            self._away.add(name)
            log.info("node %s was drained by name, and is not replaced", name)
        if code in (0, SENT_AWAY):
            return None
        await self._bury(child.pid, code)
        return _how(code)

    async def _start(self, name: str, lifeline: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "detent",
            *self._command,
            "--name",
            name,
            env={**os.environ, LIFELINE: str(lifeline)},
            pass_fds=(lifeline,),
            # Ctrl-C is for the parent, which passes it on once.
            start_new_session=True,
        )

    async def _wait(self, child: asyncio.subprocess.Process) -> int:
        """Return the exit code of a child; one that does not end when told to is killed."""
        ended = asyncio.ensure_future(child.wait())
        told = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((ended, told), return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not ended.done():
            await asyncio.wait((ended,), timeout=self.patience)
            if not ended.done():
                log.error("node process %d did not end; killing it", child.pid)
                child.kill()
        return await ended

    async def _bury(self, pid: int, code: int) -> None:
        """Tell the cluster of a death, and give the jobs back at once."""
        nodes = self._app.nodes
        try:
            dead = [
                node.incarnation
                for node in await nodes.list()
                if node.state != "dead" and was_process(node, pid)
            ]
            if not dead:
                return
            rescued = await nodes.bury(dead, f"its process {_how(code)}")
        except StoreError as error:
            log.warning("could not tell the cluster that process %d ended: %s", pid, error)
        else:
            log.warning("gave back %d jobs of process %d, which %s", rescued, pid, _how(code))

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


def _tell(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    known = [each.name for each in signal.Signals if each == -code]
    return f"was killed by {known[0] if known else f'signal {-code}'}"


def names_for(base: str, count: int) -> list[str]:
    """Return a name for each of several nodes on one machine."""
    return [f"{base}-{number}" for number in range(1, count + 1)]


def command_of_child(arguments: Sequence[str]) -> list[str]:
    """Return the command line of a child: that of the parent, for one node with another name."""
    child: list[str] = []
    skip = False
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        if skip or flag in PARENTS:
            skip = not skip and not equals
            continue
        child.append(argument)
    return child


def take_lifeline(environment: MutableMapping[str, str]) -> int | None:
    """Return the file descriptor that breaks when the parent is gone, if there is a parent.

    What a job starts does not inherit it, and must not take another file for it.
    """
    value = environment.pop(LIFELINE, "")
    return int(value) if value.isdigit() else None
