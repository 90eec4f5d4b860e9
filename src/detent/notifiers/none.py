"""No wake-ups at all: for those who would rather poll than have anything carry them."""

import asyncio
from collections.abc import Sequence

from detent.spi.notifier import Receive, Silence, Wake


class NoNotifier:
    """The `Notifier` that carries nothing."""

    def publish(self, wakes: Sequence[Wake]) -> None:
        """See `Notifier.publish`."""

    async def listen(self, receive: Receive) -> None:
        """See `Notifier.listen`."""
        receive((Silence('[wakeup] url is "none"'),))
        await asyncio.Event().wait()

    async def flush(self) -> None:
        """See `Notifier.flush`."""

    async def close(self) -> None:
        """See `Notifier.close`."""
