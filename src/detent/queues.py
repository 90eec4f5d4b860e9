"""What people do with queues."""

from detent.config import check_name
from detent.config.readers import MAX_SLOTS
from detent.errors import ConfigError
from detent.model.access import Action, Target
from detent.protection import Protection
from detent.spi.notifier import EVERYONE, Notifier, SignalHint
from detent.spi.store import ControlStore, InspectStore, QueueInfo


class Queues:
    """All queues of a store."""

    def __init__(
        self,
        control: ControlStore,
        inspect: InspectStore,
        notifier: Notifier | None = None,
        protection: Protection | None = None,
    ) -> None:
        self._control = control
        self._inspect = inspect
        self._notifier = notifier
        self._protection = protection or Protection()

    async def list(self) -> list[QueueInfo]:
        """Return the queues that hold live jobs or are paused, by name."""
        return await self._inspect.queues()

    async def pause(self, queue: str) -> None:
        """Let no more jobs of a queue be claimed, on any node; what runs goes on."""
        await self._permit(Action.PAUSE, check_name("queue", queue))
        await self._control.pause_queue(queue)

    async def resume(self, queue: str) -> None:
        """Let the jobs of a queue be claimed again."""
        await self._permit(Action.RESUME, check_name("queue", queue))
        await self._control.resume_queue(queue)

    async def _permit(self, action: Action, queue: str) -> None:
        await self._protection.permit(action, Target(queue=queue))

    async def scale(self, queue: str, slots: int | None) -> None:
        """Let every node that serves a queue run that many of its jobs at once.

        None leaves it to each node's own settings again. Nodes hear of it at once by a wake-up,
        or else with their next heartbeat; what runs goes on.
        """
        if slots is not None and not (type(slots) is int and 0 < slots <= MAX_SLOTS):
            raise ConfigError(f"slots = {slots!r}: must be 1 to {MAX_SLOTS}, or None")
        await self._permit(Action.CONFIGURE, check_name("queue", queue))
        await self._control.scale_queue(queue, slots)
        if self._notifier is not None:
            self._notifier.publish([SignalHint(EVERYONE)])
