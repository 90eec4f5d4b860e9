"""The nodes of the demonstration: real processes, one of which will be killed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final
from uuid import UUID

from detent.app import App
from detent.cli.command import Failed
from detent.spi.nodes import NodeInfo

# Shorter than anybody would choose in earnest, so that one need not wait for the rescue.
LEASE: Final = {"DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s", "DETENT_CLUSTER_LEASE": "3s"}
PATIENCE: Final = 30.0


class Cluster:
    """Several nodes on one store."""

    def __init__(self, app: App, url: str, folder: Path, count: int) -> None:
        self._app = app
        self._url = url
        self._folder = folder
        self._names = [f"node-{number}" for number in range(1, count + 1)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self) -> None:
        """Start the nodes, and return when all of them work."""
        for name in self._names:
            self._processes[name] = self._start(name)
        ends_at = asyncio.get_running_loop().time() + PATIENCE
        while len(await self.active()) < len(self._names):
            await asyncio.sleep(0.05)
            ended = [name for name, each in self._processes.items() if each.poll() is not None]
            if ended or asyncio.get_running_loop().time() > ends_at:
                words = (self._folder / f"{(ended or self._names)[0]}.log").read_text()
                raise Failed("a node of the demonstration did not start", words[-2000:])

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        command = ["node", "detent.cli.demo.tasks:app", "--name", name, "--concurrency", "20"]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "detent", *command],
                env={**os.environ, "DETENT_URL": self._url, **LEASE},
                cwd=self._folder,
                stdout=log,
                stderr=log,
                # Ctrl-C is for us; we tell them.
                start_new_session=True,
            )

    async def active(self) -> list[NodeInfo]:
        """Return the nodes that live."""
        nodes = [node for node in await self._app.nodes.list() if node.state == "active"]
        return sorted(nodes, key=lambda node: node.name)

    async def kill_one(self) -> tuple[NodeInfo, set[UUID]]:
        """Kill the busiest node with -9; return it and the jobs that it held."""
        nodes = await self.active()
        held = [len(await self.claims(node)) for node in nodes]
        victim = nodes[held.index(max(held))]
        os.kill(victim.pid, signal.SIGKILL)
        self._processes.pop(victim.name).wait()
        return victim, await self.claims(victim)

    async def claims(self, node: NodeInfo) -> set[UUID]:
        """Return the jobs that a node holds."""
        return {job_id for job_id, _ in await self._app.store.claims_of(node.incarnation)}

    def stop(self) -> None:
        """End the nodes, politely at first."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
