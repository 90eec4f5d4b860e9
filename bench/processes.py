"""Processes of a run: started in their own group, always ended, and their CPU and memory read."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import psutil

START_TAKES, START_WITHIN = 2.0, 15.0
STILL = 0.02  # CPU seconds in half a second: less is no start any more
STOP_WITHIN = 5.0
QUIET = 0.35  # cores that others may use in what we call a quiet machine
T = TypeVar("T")


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _over_tree(pid: int, read: Callable[[psutil.Process], T]) -> list[T]:
    values = []
    for process in _tree(pid):
        with suppress(psutil.NoSuchProcess):
            values.append(read(process))
    return values


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its children: those alive, and those that were buried."""

    def own(process: psutil.Process) -> float:
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    return sum(_over_tree(pid, own))


def resident_bytes(pid: int) -> int:
    return sum(_over_tree(pid, lambda process: int(process.memory_info().rss)))


def busy_seconds() -> float:
    """CPU time that the whole machine has spent."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - guest)


async def wait_until_quiet(longest: float) -> None:
    """Wait for the others to pause, but not for ever: the noise is reported with each result."""
    end = time.monotonic() + longest
    while time.monotonic() < end:
        before = busy_seconds()
        await asyncio.sleep(0.5)
        if (busy_seconds() - before) / 0.5 <= QUIET:
            return


@dataclass
class Usage:
    """CPU seconds of a block: the server's, the machine's, ours; filled when the block ends."""

    wall: float = 0.0
    server: float = 0.0
    ours: float = 0.0
    busy: float = 0.0

    @property
    def foreign(self) -> float:
        """Cores that neither we nor our server used: the noise."""
        return max(0.0, self.busy - self.server - self.ours) / self.wall if self.wall else 0.0


@contextmanager
def usage(postmaster: int) -> Iterator[Usage]:
    used = Usage()
    start = time.monotonic(), cpu_seconds(postmaster), cpu_seconds(os.getpid()), busy_seconds()
    yield used
    used.wall = time.monotonic() - start[0]
    used.server = cpu_seconds(postmaster) - start[1]
    used.ours = cpu_seconds(os.getpid()) - start[2]
    used.busy = busy_seconds() - start[3]
    if psutil.Process(postmaster).ppid() == os.getpid():
        used.ours -= used.server  # the server is our child: count it once


@dataclass(frozen=True)
class Nodes:
    """The node processes of one run."""

    processes: tuple[asyncio.subprocess.Process, ...]

    @property
    def alive(self) -> bool:
        return any(process.returncode is None for process in self.processes)

    async def started(self) -> None:
        """Wait until the nodes have done what a start does: their CPU time stands still."""
        began, used = time.monotonic(), -1.0
        while self.alive and time.monotonic() - began < START_WITHIN:
            now = self.cpu_seconds()
            if time.monotonic() - began > START_TAKES and now - used < STILL:
                return
            used = now
            await asyncio.sleep(0.5)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def resident_bytes(self) -> int:
        return sum(resident_bytes(process.pid) for process in self.processes)


@asynccontextmanager
async def start_nodes(
    argv: Sequence[str], count: int, environment: dict[str, str], logs: Path
) -> AsyncIterator[Nodes]:
    started: list[asyncio.subprocess.Process] = []
    try:
        for number in range(count):
            with _log(logs, number) as log:
                process = await asyncio.create_subprocess_exec(
                    *argv, stdout=log, stderr=log, env=environment, start_new_session=True
                )
            started.append(process)
        yield Nodes(tuple(started))
    finally:
        await asyncio.gather(*(stop(process) for process in started))


def _log(folder: Path, number: int) -> IO[bytes]:
    return (folder / f"{number}.log").open("wb")


async def stop(process: asyncio.subprocess.Process) -> None:
    """Ask its group to end, then end it: the group is ours, since it is its own session."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_WITHIN)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def output_of(
    argv: Sequence[str], environment: dict[str, str], seconds: float
) -> tuple[int, str, str]:
    """Run a command to its end: exit code, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        out, error = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        return 124, "", f"no answer within {seconds:.0f} s"
    finally:
        await stop(process)
    return process.returncode or 0, out.decode(), error.decode(errors="replace")
