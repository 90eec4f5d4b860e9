"""A database and nodes at work on it, watched by their effects: what the measurements share."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

from detent import App
from detent.errors import StoreError
from tests.chaos.nodes import ROOT
from tests.chaos.tasks import BEGIN, FOLDER, HOST, Effect, EffectFiles, chaos
from tests.node_process import NodeProcess

TASKS: Final = "tests.chaos.tasks:app"
BATCH: Final = 5_000
_numbers = count(1)


def short_lease(seconds: float) -> dict[str, str]:
    """Return the environment of a node with this lease."""
    return {
        "DETENT_CLUSTER_LEASE": f"{seconds}s",
        "DETENT_CLUSTER_HEARTBEAT_INTERVAL": f"{seconds / 3}s",
    }


class Scene:
    """Nodes on one database; each writes its effects to a folder of this scene."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.app = App(url)
        self.nodes: list[NodeProcess] = []
        self.acknowledged: list[UUID] = []
        self._task = self.app.task(name="chaos")(chaos.function)
        self._folder = folder
        self._files = EffectFiles(folder)

    def start(self, *options: str, alone: bool = False, **environ: str) -> NodeProcess:
        """Start a node; `alone` is on a machine that the others cannot see."""
        host = {HOST: f"host-{next(_numbers)}"} if alone else {}
        environ = {**environ, **host, FOLDER: str(self._folder)}
        self.nodes.append(NodeProcess(TASKS, self.url, *options, cwd=ROOT, **environ))
        return self.nodes[-1]

    async def enqueue(self, jobs: int, seconds: float) -> None:
        """Enqueue jobs that last so long."""
        for start in range(0, jobs, BATCH):
            calls = [self._task.bind(seconds) for _ in range(min(BATCH, jobs - start))]
            enqueued = await self.app.enqueue_many(calls)
            self.acknowledged += [job.id for job in enqueued]

    @asynccontextmanager
    async def load(self, rate: float, seconds: float) -> AsyncIterator[None]:
        """Keep so many jobs a second coming, whatever the database is doing."""
        feeding = asyncio.create_task(self._feed(int(rate), seconds))
        try:
            yield
        finally:
            feeding.cancel()
            # It may be in the middle of an enqueue that nobody will be told of.
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed(self, rate: int, seconds: float) -> None:
        while True:
            done = sum(effect.what == BEGIN for effect in self.effects())
            # Enough for a few seconds, so that the nodes never wait for us.
            if len(self.acknowledged) - done < 5 * rate:
                with suppress(StoreError):
                    await self.enqueue(rate, seconds)
            await asyncio.sleep(0.2)

    def effects(self) -> list[Effect]:
        """Return all effects so far, in order of time."""
        return self._files.read()

    def running(self, pid: int) -> dict[str, Effect]:
        """Return what a process has begun and not ended, by job."""
        held: dict[str, Effect] = {}
        for effect in self.effects():
            if effect.pid == pid and effect.what == BEGIN:
                held[str(effect.job)] = effect
            elif effect.pid == pid:
                held.pop(str(effect.job), None)
        return held

    async def until(
        self, holds: Callable[[], object], what: str, patience: float = 60.0, pause: float = 0.05
    ) -> None:
        """Wait until something is so."""
        ends_at = time.monotonic() + patience
        while not holds():
            if time.monotonic() > ends_at:
                said = "\n".join(node.said()[-2000:] for node in self.nodes)
                raise AssertionError(f"waited {patience} s for {what}; the nodes said:\n{said}")
            await asyncio.sleep(pause)

    async def until_busy(self, node: NodeProcess, slots: int) -> None:
        """Wait until a node runs so many jobs."""
        await self.until(lambda: len(self.running(node.pid)) >= slots, f"{slots} running jobs")

    async def kill(self, pid: int) -> list[float]:
        """Kill a process, and return how long each job that it ran waited for its next run."""
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        await self.until(lambda: not lives(pid), "the end of a process", pause=0.001)
        # What it had begun and not ended by now, it will never end.
        held = self.running(pid)
        found: dict[str, float] = {}

        def again() -> bool:
            for effect in self.effects():
                job = str(effect.job)
                begun = effect.what == BEGIN and effect.at > killed and effect.pid != pid
                if begun and job in held and job not in found:
                    found[job] = effect.at - killed
            return len(found) == len(held)

        await self.until(again, f"{len(held)} jobs to run again")
        return sorted(found.values())

    async def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.close()
        await self.app.close()


def lives(pid: int) -> bool:
    """Tell whether a process is there, and not only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
