"""What people do with queues."""

from detent.config import check_name
from detent.spi.store import ControlStore, InspectStore, QueueInfo


class Queues:
    """All queues of a store."""

    def __init__(self, control: ControlStore, inspect: InspectStore) -> None:
        self._control = control
        self._inspect = inspect

    async def list(self) -> list[QueueInfo]:
        """Return the queues that hold live jobs or are paused, by name."""
        return await self._inspect.queues()

    async def pause(self, queue: str) -> None:
        """Let no more jobs of a queue be claimed, on any node; what runs goes on."""
        await self._control.pause_queue(check_name("queue", queue))

    async def resume(self, queue: str) -> None:
        """Let the jobs of a queue be claimed again."""
        await self._control.resume_queue(check_name("queue", queue))
