"""The outbox as people see it: which events wait for a sink, and which it would not take."""

from collections.abc import Sequence
from typing import Final

from detent.errors import ConfigError
from detent.spi.outbox import EventInfo, OutboxStore

PAGE: Final = 500
MOST: Final = 10_000


class Outbox:
    """All events that have not been delivered."""

    def __init__(self, store: OutboxStore) -> None:
        self._store = store

    async def list(
        self, *, sink: str | None = None, undeliverable: bool | None = None, limit: int = 100
    ) -> Sequence[EventInfo]:
        """Return events that wait, the oldest first: of one sink, or only the undeliverable."""
        if not 1 <= limit <= MOST:
            raise ConfigError(f"limit = {limit!r}: must be 1 to {MOST}")
        return await self._store.list_events(sink=sink, parked=undeliverable, limit=limit)

    async def retry(self, *ids: int, sink: str | None = None) -> int:
        """Let undeliverable events be tried again as if they were new; return how many.

        Those of these ids, else those of a sink, else all.
        """
        if ids:
            return await self._store.retry_events(ids, sink, len(ids))
        count = 0
        while moved := await self._store.retry_events(None, sink, PAGE):
            count += moved
            if moved < PAGE:
                break
        return count
