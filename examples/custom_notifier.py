"""Wake-ups by a carrier of your own: datagrams between the processes of one machine.

    python examples/custom_notifier.py

A carrier is a `Line`: it sends messages, and hears those of others. Coalescing, reconnecting and
telling a node that it hears nothing any more come with `CarriedNotifier`. Losing a message costs
time, never a job: nodes poll as well.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from detent import App
from detent.config import Config, PollingConfig
from detent.notifiers.carried import CarriedNotifier

LONGEST = 1 << 17


class DatagramLine:
    """A socket in a folder in which everybody who listens has one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages to everybody; who is too busy to take them polls sooner or later."""
        for listener in self._folder.glob("*.sock"):
            try:
                for message in messages:
                    self._socket.sendto(message, str(listener))
            except ConnectionRefusedError:
                listener.unlink(missing_ok=True)  # its process was killed
            except OSError:
                continue

    async def hear(self, receive: Callable[[bytes], None], connected: Callable[[], None]) -> None:
        """Call `receive` with every message, once `connected` was called."""
        mine = self._folder / f"{uuid4().hex[:12]}.sock"
        self._socket.bind(str(mine))
        try:
            connected()
            while True:
                receive(await asyncio.get_running_loop().sock_recv(self._socket, LONGEST))
        finally:
            mine.unlink(missing_ok=True)

    async def close(self) -> None:
        """Hang up."""
        self._socket.close()


class DatagramNotifier(CarriedNotifier):
    """Carries wake-ups through a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__(self._open, errors=())

    async def _open(self) -> DatagramLine:
        self._folder.mkdir(exist_ok=True)
        return DatagramLine(self._folder)


# Polls once an hour: what starts at once was woken.
SELDOM = timedelta(hours=1)
config = replace(
    Config.load("sqlite:///custom_notifier.db"),
    polling=PollingConfig(burst=SELDOM, minimum=SELDOM, maximum=SELDOM, deep_idle=SELDOM),
)
app = App(config=config, notifier=DatagramNotifier(Path("wakeups")))


@app.task
async def greet(name: str) -> str:
    return f"hello {name}"


async def main() -> None:
    async with app, app.node():
        for name in ("Ada", "Grace"):
            job = await greet.enqueue(name)
            print(await job.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
